"""Label and field selectors of one request, compiled; and lists in pages, at one revision from the first to the last."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from haulout.base.selector import EVERYTHING, Selector, SelectorError, from_object, parse
from haulout.embedded import names, refusals
from haulout.embedded.refusals import Problem, forbidden_field, unsupported, wrong
from haulout.embedded.resources import Kind, Select
from haulout.embedded.seams import Json
from haulout.embedded.storage import Storage, Table, key_of

_TERM = re.compile(r"([^=!]*)(==|!=|=)(.*)", re.DOTALL)
_COLUMN = re.compile(r" at column \d+$")
# The key that the values at the end of a text would be of.
_KEY = re.compile(r"([^\s=!(),<>]+)\s*(?:[=!<>]+|(?:not)?in\s*\([^)]*)\s*$")
_VALUE = re.compile(r"[^\s=!(),<>]*")


class _Term(NamedTuple):
    field: str
    select: Select
    equal: bool
    value: str


class Filter:
    """Which objects a request is about."""

    def __init__(self, labels: Selector, terms: tuple[_Term, ...]) -> None:
        self._labels = labels
        self._terms = terms
        self.everything = not labels.requirements and not terms

    def matches(self, obj: Json) -> bool:
        if self._labels.requirements and not self._labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return all((term.select(obj) == term.value) is term.equal for term in self._terms)

    def equals(self, field: str) -> str | None:
        """The value that the field must have, where the filter says so."""
        return next((term.value for term in self._terms if term.field == field and term.equal), None)


ALL = Filter(EVERYTHING, ())


def make_filter(kind: Kind, labels: str, fields: str) -> Filter:
    if not labels and not fields:
        return ALL
    return Filter(_labels(labels), _fields(kind, fields))


@lru_cache(1024)
def _labels(text: str) -> Selector:
    try:
        return parse(text)
    except SelectorError as error:
        raise refusals.bad_request(_in_go(text, error)) from None


def _in_go(text: str, error: SelectorError) -> str:
    """The problem in the real server's words."""
    before, rest = text[: error.column - 1], text[error.column - 1 :]
    problem = _COLUMN.sub("", str(error))
    if problem.endswith("expected: identifier") and not before.strip():
        return problem.replace("expected: identifier", "expected: !, identifier, or 'end of string'")
    if problem.endswith("expected: identifier") and before.rstrip().endswith(","):
        return f"{problem} after ','"
    if problem.endswith("'end of string'"):
        return problem
    key, value = _KEY.search(before), _VALUE.match(rest)
    if problem.startswith("for 'Gt'") and value:
        problem = str(wrong("values[0]", value[0], problem))
    elif problem.startswith("key: ") and value:
        problem = str(wrong("<nil>", value[0], "; ".join(names.label_key(value[0]))))
    elif problem.startswith("value ") and key and value:
        place = f"values[{_place(value[0], before, rest)}][{key[1]}]"
        problem = str(wrong(place, value[0], "; ".join(names.label_value(value[0]))))
    problem = problem.replace("!=, >, <", "!=, gt, lt").replace(", expected: '('", " expected: '('")
    return f"unable to parse requirement: {problem}"


def _fields(kind: Kind, text: str) -> tuple[_Term, ...]:
    terms = []
    for part in filter(None, text.split(",")):
        found = _TERM.fullmatch(part)
        if found is None:
            raise refusals.bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        name = found[1]
        if name not in kind.selectable:
            raise refusals.bad_request(_unselectable(kind, name))
        terms.append(_Term(name, kind.selectable[name], found[2] != "!=", found[3]))
    return tuple(terms)


def _place(value: str, before: str, rest: str) -> int:
    """Where a value stands among those in the same parentheses, in their order."""
    listed = before.rpartition("(")[2] + rest.partition(")")[0] if "(" in before else value
    return sorted(map(str.strip, listed.split(","))).index(value)


def _unselectable(kind: Kind, name: str) -> str:
    """Kinds that can be selected only by what all have say so."""
    if kind.custom or kind.selectable.keys() - {"metadata.name", "metadata.namespace"}:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


_compiled: dict[int, tuple[Any, Selector | None]] = {}


def compiled(selector: Json | None) -> Selector | None:
    """A label selector of an object, which nobody changes: looked at once. None selects nothing."""
    if selector is None:
        return None
    known = _compiled.get(id(selector))
    if known is not None and known[0] is selector:
        return known[1]
    if len(_compiled) > 4096:
        _compiled.clear()
    try:
        result = from_object(selector)
    except SelectorError:
        result = None
    _compiled[id(selector)] = (selector, result)
    return result


def find(table: Table, namespace: str, chosen: Filter, index_field: str = "spec.nodeName") -> list[Json]:
    """The objects as they are now, in the order of namespace and name."""
    if chosen.everything:
        return table.items(namespace)
    name = chosen.equals("metadata.name")
    if name is not None and namespace:
        one = table.get(namespace, name)
        return [one] if one is not None and chosen.matches(one) else []
    value = chosen.equals(index_field) if table.has_index else None
    if value is not None:
        found = table.indexed(value)
        return [o for o in found if (not namespace or o["metadata"]["namespace"] == namespace) and chosen.matches(o)]
    return [obj for obj in table.items(namespace) if chosen.matches(obj)]


class Page(msgspec.Struct, frozen=True):
    """One page of a list.

    `revision`: the revision of the storage that the whole list shows.
    `next`: the token for the next page; empty on the last one.
    `remaining`: how many objects follow; None where that is not known.
    """

    items: list[Json]
    revision: int
    next: str = ""
    remaining: int | None = None


class Wanted(msgspec.Struct, frozen=True):
    """What the query of a list or watch says about versions and pages."""

    version: str = ""
    match: str = ""
    limit: int = 0
    token: str = ""
    watch: bool = False
    initial: bool | None = None
    bookmarks: bool = False
    timeout: int | None = None


def read_wanted(query: Mapping[str, str]) -> Wanted:
    """Raises `BadRequest` and `Invalid` as the real server does."""
    watch = query.get("watch", "") in {"1", "true", "True"}
    initial = {"true": True, "1": True, "false": False, "0": False}.get(query.get("sendInitialEvents", ""))
    wanted = Wanted(
        version=query.get("resourceVersion", ""),
        match=query.get("resourceVersionMatch", ""),
        limit=_integer(query.get("limit")) or 0,
        token=query.get("continue", ""),
        watch=watch,
        initial=initial,
        bookmarks=query.get("allowWatchBookmarks", "") in {"1", "true", "True"},
        timeout=_integer(query.get("timeoutSeconds")),
    )
    if problems := _watch_problems(wanted) if watch else _list_problems(wanted):
        raise refusals.invalid("ListOptions", "meta.k8s.io", "", problems)
    return wanted


def _integer(text: str | None) -> int | None:
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise refusals.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


def _watch_problems(wanted: Wanted) -> list[Problem]:
    field = "resourceVersionMatch"
    if wanted.initial is None:
        if not wanted.match:
            return []
        return [
            forbidden_field(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        ]
    problems = []
    if wanted.match != "NotOlderThan":
        problems.append(
            forbidden_field(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
        )
        if wanted.match:
            problems.append(unsupported(field, wanted.match, ("NotOlderThan",)))
    if wanted.token:
        problems.append(forbidden_field("continue", "continue is forbidden for watch"))
    return problems


def _list_problems(wanted: Wanted) -> list[Problem]:
    field, problems = "resourceVersionMatch", []
    if wanted.match:
        if not wanted.version:
            problems.append(
                forbidden_field(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
            )
        if wanted.token:
            problems.append(forbidden_field(field, "resourceVersionMatch is forbidden when continue is provided"))
        if wanted.match not in {"Exact", "NotOlderThan"}:
            problems.append(unsupported(field, wanted.match, ("Exact", "NotOlderThan", "")))
        elif wanted.match == "Exact" and wanted.version == "0":
            text = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            problems.append(forbidden_field(field, text))
    if wanted.initial is not None:
        problems.append(forbidden_field("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    return problems


def page(storage: Storage, table: Table, namespace: str, chosen: Filter, wanted: Wanted) -> Page:
    if wanted.token:
        if wanted.version and wanted.version != "0":
            raise refusals.bad_request("specifying resource version is not allowed when using continue")
        revision, start = _decode(wanted.token)
        if revision == _NOW:
            revision = storage.revision
        if revision < table.compacted:
            raise refusals.expired(_TOO_OLD, _encode(_NOW, start))
        return _cut(_then(storage, table, namespace, chosen, revision), revision, start, chosen, wanted)
    version = number(wanted.version, "invalid resource version: ")
    if version > storage.revision:
        raise refusals.too_large(version, storage.revision)
    exact = wanted.match == "Exact" or (not wanted.match and wanted.limit and version)
    if exact and version != storage.revision:
        if version < table.compacted:
            raise refusals.expired("The resourceVersion for the provided list is too old.")
        return _cut(_then(storage, table, namespace, chosen, version), version, ("", ""), chosen, wanted)
    return _cut(find(table, namespace, chosen), storage.revision, ("", ""), chosen, wanted)


def number(version: str, refusal: str = "") -> int:
    """Nobody but lists makes a proper refusal of what is none."""
    if version and not version.isdecimal():
        problem = f'resourceVersion: Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise refusals.bad_request(f"{refusal}{problem}") if refusal else refusals.unclassified(problem)
    return int(version or "0")


# In place of the revision of a token: whatever it is by then.
_NOW = -1
_TOO_OLD = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list."


def _then(storage: Storage, table: Table, namespace: str, chosen: Filter, revision: int) -> list[Json]:
    if revision == storage.revision:
        return find(table, namespace, chosen)
    objects = table.at(revision)
    keys = sorted(key for key in objects if not namespace or key[0] == namespace)
    return [obj for key in keys if chosen.matches(obj := objects[key])]


def _cut(items: list[Json], revision: int, start: tuple[str, str], chosen: Filter, wanted: Wanted) -> Page:
    if start != ("", ""):
        items = [obj for obj in items if key_of(obj) > start]
    if wanted.limit <= 0 or len(items) <= wanted.limit:
        return Page(items, revision)
    kept = items[: wanted.limit]
    remaining = len(items) - wanted.limit if chosen.everything else None
    return Page(kept, revision, _encode(revision, key_of(kept[-1])), remaining)


class _Token(msgspec.Struct):
    v: str
    rv: int
    start: str


def _encode(revision: int, key: tuple[str, str]) -> str:
    token = msgspec.json.encode(_Token("meta.k8s.io/v1", revision, f"{key[0]}/{key[1]}\0"))
    return base64.urlsafe_b64encode(token).decode().rstrip("=")


def _decode(text: str) -> tuple[int, tuple[str, str]]:
    try:
        raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(raw, type=_Token)
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise refusals.bad_request(f"invalid continue token: continue key is not valid: {error}") from None
    namespace, _, name = token.start.rstrip("\0").rpartition("/")
    return token.rv, (namespace, name)
