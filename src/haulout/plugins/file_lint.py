"""Lints a configuration file that is one block: errors, odd settings, and keys that are not used."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

import msgspec

from haulout.base import yaml
from haulout.base.visible import visible_line
from haulout.base.yaml import Node, Place
from haulout.core.declaration import OptionsProblem
from haulout.plugins.config import Config, ConfigProblem
from haulout.plugins.document import examine_file
from haulout.plugins.shape import plan

C = TypeVar("C", bound=Config)
# The path of a setting, what is odd about it, and what would be right.
Oddity = tuple[tuple[str, ...], str, str]


class Problem(msgspec.Struct, frozen=True):
    """A finding of the linter. A file with only warnings can be loaded, but may not do what its author meant."""

    source: str
    place: Place
    path: str
    what: str
    right: str = ""
    is_error: bool = True

    def __str__(self) -> str:
        where = f"{self.source}:{self.place.line}:{self.place.column}: {self.path + ': ' if self.path else ''}"
        right = f" ({self.right})" if self.right else ""
        return visible_line(f"{where}{'' if self.is_error else 'warning: '}{self.what}{right}")


def line_of(problem: ConfigProblem, source: str, *, is_error: bool) -> Problem:
    """Return a problem of the configuration as a finding of the linter."""
    place = problem.place or Place(1, 1)
    return Problem(source, place, ".".join(problem.path), problem.what, problem.right, is_error)


def examined_file(
    kind: type[C],
    source: str,
    files: Mapping[str, bytes],
    environment: Mapping[str, str],
    *,
    but: str = "",
    any_keys: bool = False,
) -> C:
    """Return the settings in a file. Raises OptionsProblem with all problems, except those below the key `but`."""
    try:
        reading, _ = examine_file(kind, files[source], source=source, environment=environment, any_keys=any_keys)
    except ConfigProblem as problem:
        lines = [str(line_of(problem, source, is_error=True))]
        raise OptionsProblem(lines, error=problem.text, is_syntax=problem.is_syntax) from None
    wrong = [problem for problem in reading.problems if problem.path[:1] != (but,)]
    if wrong:
        lines = [str(line_of(problem, source, is_error=True)) for problem in wrong]
        raise OptionsProblem(lines, error=wrong[0].text, is_syntax=wrong[0].is_syntax)
    return reading.value


def similar(name: str, known: Iterable[str]) -> str:
    """Return the question whether the most similar known name was meant; empty if none is similar."""
    close = difflib.get_close_matches(name, list(known), 1)
    return f'did you mean "{close[0]}"?' if close else ""


def lint_block(
    kind: type[C],
    data: bytes | str,
    oddities: Callable[[C], Iterator[Oddity]],
    *,
    source: str,
    environment: Mapping[str, str],
    any_keys: bool = False,
) -> list[Problem]:
    """Return all errors and warnings about a file, from top to bottom. `any_keys`: as in `yaml.parse`."""
    try:
        reading, document = examine_file(kind, data, source=source, environment=environment, any_keys=any_keys)
    except ConfigProblem as problem:
        return [line_of(problem, source, is_error=True)]
    found = [line_of(problem, source, is_error=True) for problem in reading.problems]
    found += [line_of(problem, source, is_error=False) for problem in reading.warnings]
    # With problems, the settings have gaps, about which `oddities` would warn wrongly.
    odd = (*_unread(kind, document), *(() if reading.problems else oddities(reading.value)))
    for path, what, right in odd:
        place = _key_place(document, path) or Place(1, 1)
        found.append(Problem(source, place, ".".join(path), what, right, is_error=False))
    return sorted(found, key=lambda problem: (problem.place.line, problem.place.column))


def has_keys(document: Node | None, top: frozenset[str], intervals: frozenset[str]) -> bool:
    """Whether a document has one of the keys at the top, or one of the others in its block `intervals`."""
    if not isinstance(document, yaml.Mapping):
        return False
    inner = document.entries.get("intervals")
    return bool(top & document.entries.keys() or (isinstance(inner, yaml.Mapping) and intervals & inner.entries.keys()))


def _unread(kind: type[Config], document: Node | None) -> Iterator[Oddity]:
    """Yield the top-level keys that are no setting, and to which no `${...}` refers as a variable."""
    entries = document.entries if isinstance(document, yaml.Mapping) else {}
    known = [field.wire for field in plan(kind)]
    texts = list(_texts(document))
    for name in entries:
        used = re.compile(rf"\$\{{{re.escape(name)}[:}}]")
        if name not in known and not any(used.search(text) for text in texts):
            right = similar(name, known) or f"known: {', '.join(sorted(known))}"
            yield (name,), "this key is not known, and ignored", right


def _texts(node: Node | None) -> Iterator[str]:
    match node:
        case yaml.Mapping(entries):
            for entry in entries.values():
                yield from _texts(entry)
        case yaml.Sequence(items):
            for item in items:
                yield from _texts(item)
        case yaml.Scalar(str() as text):
            yield text


def _key_place(document: Node | None, path: tuple[str, ...]) -> Place | None:
    """Return the place of a key. Its value may begin on the next line."""
    around: Node | None = document
    for step in path[:-1]:
        around = around.entries.get(step) if isinstance(around, yaml.Mapping) else None
    return around.keys.get(path[-1]) if isinstance(around, yaml.Mapping) else None
