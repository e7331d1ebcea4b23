"""Label and field selectors, compiled, and the objects of a table that they select."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, NamedTuple

from haulout.base.selector import EVERYTHING, Selector, SelectorError, from_object, parse
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import metadata, refusals
from haulout.embedded.rules.refusals import wrong
from haulout.embedded.store.kinds import Kind, Select
from haulout.embedded.store.storage import Table

_TERM = re.compile(r"([^=!]*)(==|!=|=)(.*)", re.DOTALL)
_COLUMN = re.compile(r" at column \d+$")
# Finds the label key of the values that follow a text, such as `zone` in `zone in (a,`.
_KEY = re.compile(r"([^\s=!(),<>]+)\s*(?:[=!<>]+|(?:not)?in\s*\([^)]*)\s*$")
_VALUE = re.compile(r"[^\s=!(),<>]*")


class _Term(NamedTuple):
    field: str
    select: Select
    equal: bool
    value: str


class Filter:
    """The label and field selectors of one request, compiled."""

    def __init__(self, labels: Selector, terms: tuple[_Term, ...]) -> None:
        self._labels = labels
        self._terms = terms
        self.everything = not labels.requirements and not terms

    def matches(self, obj: Json) -> bool:
        if self._labels.requirements and not self._labels.matches(obj["metadata"].get("labels") or {}):
            return False
        return all((term.select(obj) == term.value) is term.equal for term in self._terms)

    def equals(self, field: str) -> str | None:
        """Return the value that the filter requires of a field, or None."""
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
    """Return a selector's error in the real server's words."""
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
        problem = str(wrong("<nil>", value[0], "; ".join(metadata.label_key(value[0]))))
    elif problem.startswith("value ") and key and value:
        place = f"values[{_place(value[0], before, rest)}][{key[1]}]"
        problem = str(wrong(place, value[0], "; ".join(metadata.label_value(value[0]))))
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
    """Return the index of a value among those in the same parentheses, sorted."""
    listed = before.rpartition("(")[2] + rest.partition(")")[0] if "(" in before else value
    return sorted(map(str.strip, listed.split(","))).index(value)


def _unselectable(kind: Kind, name: str) -> str:
    """Return the error for an unknown field. It differs for kinds that are selected only by name and namespace."""
    if kind.custom or kind.selectable.keys() - {"metadata.name", "metadata.namespace"}:
        return f"field label not supported: {name}"
    return f'"{name}" is not a known field selector: only "metadata.name", "metadata.namespace"'


_compiled: dict[int, tuple[Any, Selector | None]] = {}


def compile_selector(selector: Json | None) -> Selector | None:
    """Return the compiled label selector of a stored object, cached by identity.

    None selects nothing. So does an invalid selector.
    """
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
    """Return the selected objects as they are now, in the order of namespace and name."""
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
