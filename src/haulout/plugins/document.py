"""Parses whole configuration files into documents whose blocks can be read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from typing import TypeVar

from haulout.base import variables, yaml
from haulout.base.yaml import Node, Scalar
from haulout.plugins.config import Config, ConfigProblem, Context, Reading, examine, read
from haulout.plugins.shape import text_of

C = TypeVar("C", bound=Config)

_Path = tuple[str, ...]
_GO_TYPES: dict[type, str] = {str: "string", int: "int", float: "float64", bool: "bool"}


def read_file(
    kind: type[C], data: bytes | str, *, source: str, environment: Mapping[str, str], any_keys: bool = False
) -> C:
    """Read a file that is one block. Raises ConfigProblem with the first problem. `any_keys`: as in `yaml.parse`."""
    context = open_document(data, source=source, environment=environment, any_keys=any_keys)
    for problem in splice_problems(context):
        raise problem
    return read(kind, context.document, context)


def examine_file(
    kind: type[C], data: bytes | str, *, source: str, environment: Mapping[str, str], any_keys: bool = False
) -> tuple[Reading[C], Node | None]:
    """Read a file that is one block, with all its problems, and its tree. Raises ConfigProblem if it is not YAML."""
    context = open_document(data, source=source, environment=environment, any_keys=any_keys)
    reading = examine(kind, context.document, context)
    wrong = (*splice_problems(context), *reading.problems)
    return Reading(reading.value, wrong, reading.warnings), context.document


def open_document(data: bytes | str, *, source: str, environment: Mapping[str, str], any_keys: bool = False) -> Context:
    """Parse a file; `source` is its name in messages. An empty file is an empty configuration."""
    try:
        document = yaml.parse(data, any_keys=any_keys)
    except yaml.YamlError as error:
        raise ConfigProblem(str(error), what=error.problem, place=error.place, is_syntax=True) from None
    if isinstance(document, Scalar) and document.value is not None:
        name = _GO_TYPES[type(document.value)]
        what = f"type '{name}' is not supported on top level of config, only dictionary or list"
        raise ConfigProblem(f"{what} (source:'{source}')", what=what, place=document.place, is_syntax=True)
    return Context(source, document, variables.Scope(_variables(document), environment))


def splice_problems(context: Context) -> Iterator[ConfigProblem]:
    """Yield a problem for each variable with a syntax error. It is an error even if no setting uses the value."""
    for path, node in _scalars(context.document, ()):
        try:
            variables.parse(node.value) if isinstance(node.value, str) else None
        except variables.SpliceError as error:
            what = f"{error} parsing splice"
            text = f"{what} accessing {_path_text(path)} (source:'{context.source}')"
            right = "$$ stands for a dollar sign"
            yield ConfigProblem(text, what=what, right=right, path=path, place=node.place, is_syntax=True)


def _variables(document: Node | None) -> dict[str, variables.Template]:
    """Return the top-level keys with a single value. A syntax error in one is reported by `splice_problems`."""
    found: dict[str, variables.Template] = {}
    for name, node in document.entries.items() if isinstance(document, yaml.Mapping) else ():
        match node:
            case Scalar(str() as text):
                try:
                    found[name] = variables.parse(text)
                except variables.SpliceError:
                    continue
            case Scalar(value) if value is not None:
                found[name] = (text_of(value),)
    return found


def _scalars(node: Node | None, path: _Path) -> Iterator[tuple[_Path, Scalar]]:
    match node:
        case Scalar():
            yield path, node
        case yaml.Sequence(items):
            for number, item in enumerate(items):
                yield from _scalars(item, (*path, str(number)))
        case yaml.Mapping(entries):
            for name, entry in entries.items():
                yield from _scalars(entry, (*path, name))


def _path_text(path: _Path) -> str:
    """Return a path as the original prints it: only the last indexes of lists, without the names of blocks."""
    numbers = list(itertools.takewhile(str.isdecimal, reversed(path)))
    return f"'{'.'.join(reversed(numbers))}'" if numbers else "config"
