"""What is wrong or odd in `esx.yaml` and `kubernikus.yaml`, all of it, with its place."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from haulout.base import yaml
from haulout.base.yaml import Node, Place
from haulout.plugins.config import Config, ConfigProblem
from haulout.plugins.document import examine_file
from haulout.plugins.shape import plan
from haulout.surfaces.profiles.esx import Esx
from haulout.surfaces.profiles.kubernikus import Kubernikus
from haulout.surfaces.profiles.load import Problem, line_of, similar

C = TypeVar("C", bound=Config)
Oddity = tuple[tuple[str, ...], str, str]

# What only the one of them has, at the top and among the intervals.
_ESX = frozenset({"vCenters", "alarms"}), frozenset({"check", "vmShutdown"})
_KUBERNIKUS = frozenset({"cloudProviderSecret"}), frozenset({"podDeletion", "podEviction"})


def is_esx(document: Node | None) -> bool:
    return _has(document, *_ESX)


def is_kubernikus(document: Node | None) -> bool:
    """The intervals of drains stand in both files: whatever is ESX's is not Kubernikus'."""
    return not is_esx(document) and _has(document, *_KUBERNIKUS)


def lint_esx(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> list[Problem]:
    return _linted(Esx, data, _odd_esx, source=source, environment=environment, any_keys=True)


def lint_kubernikus(data: bytes | str, *, source: str, environment: Mapping[str, str]) -> list[Problem]:
    return _linted(Kubernikus, data, _odd_kubernikus, source=source, environment=environment, any_keys=False)


def _linted(
    kind: type[C],
    data: bytes | str,
    odd: Callable[[C], Iterator[Oddity]],
    *,
    source: str,
    environment: Mapping[str, str],
    any_keys: bool,
) -> list[Problem]:
    try:
        reading, document = examine_file(kind, data, source=source, environment=environment, any_keys=any_keys)
    except ConfigProblem as problem:
        return [line_of(problem, source, is_error=True)]
    found = [line_of(problem, source, is_error=True) for problem in reading.problems]
    found += [line_of(problem, source, is_error=False) for problem in reading.warnings]
    # What could not be read has gaps, which would look odd.
    oddities = (*_unread(kind, document), *(() if reading.problems else odd(reading.value)))
    for path, what, right in oddities:
        place = _key_place(document, path) or Place(1, 1)
        found.append(Problem(source, place, ".".join(path), what, right, is_error=False))
    return sorted(found, key=lambda problem: (problem.place.line, problem.place.column))


def _odd_esx(read: Esx) -> Iterator[Oddity]:
    zones = read.v_centers.credentials
    for zone in zones:
        if len(zone) != 1:
            right = "the last character of the label, such as a"
            yield ("vCenters", "credentials", zone), "no node is in this zone: zones have one letter or digit", right
    if len(zones) > 1 and "$AZ" not in read.v_centers.template_url:
        what = f"all {len(zones)} zones have the same vCenter"
        yield ("vCenters", "templateUrl"), what, "$AZ stands for the zone"


def _odd_kubernikus(read: Kubernikus) -> Iterator[Oddity]:
    secret = read.cloud_provider_secret
    if bool(secret.name) != bool(secret.namespace):
        what = "is left aside, and the file with the credentials is read"
        yield ("cloudProviderSecret",), what, "name and namespace are both needed"


def _unread(kind: type[Config], document: Node | None) -> Iterator[Oddity]:
    """A key at the top that nobody reads may be a variable; one that nobody refers to is a slip."""
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


def _has(document: Node | None, top: frozenset[str], intervals: frozenset[str]) -> bool:
    if not isinstance(document, yaml.Mapping):
        return False
    inner = document.entries.get("intervals")
    return bool(top & document.entries.keys() or (isinstance(inner, yaml.Mapping) and intervals & inner.entries.keys()))


def _key_place(document: Node | None, path: tuple[str, ...]) -> Place | None:
    """Where the key stands rather than what belongs to it: that may be on the next line."""
    around: Node | None = document
    for step in path[:-1]:
        around = around.entries.get(step) if isinstance(around, yaml.Mapping) else None
    return around.keys.get(path[-1]) if isinstance(around, yaml.Mapping) else None
