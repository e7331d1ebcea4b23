"""Kubernetes label selectors: `a=b,c in (d,e),!f` or matchLabels and matchExpressions, compiled once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple, assert_never

import msgspec

from haulout.base.number import INT64_MAX, INT64_MIN
from haulout.base.small_cache import small_cache

_TOKEN = re.compile(r"[ \t\r\n]*(?P<token>==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+)")
_SYMBOLS = frozenset(("==", "!=", "=", "!", "(", ")", ",", "<", ">", ""))
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}")
MOST_CACHED_LABELS = 16


class SelectorError(ValueError):
    """A text or object is not a valid selector. `column`: the place in a text, from 1. `path`: that in an object."""

    def __init__(self, problem: str, *, column: int = 0, path: str = "") -> None:
        place = f" at column {column}" if column else ""
        super().__init__(f"{path}: {problem}" if path else f"{problem}{place}")
        self.column = column
        self.path = path


class Operator(StrEnum):
    """The operator of a requirement, spelled as in label selectors."""

    IN = "in"
    NOT_IN = "notin"
    EXISTS = "exists"
    ABSENT = "!"
    GREATER = ">"
    LESS = "<"


class Requirement(msgspec.Struct, frozen=True, order=True):
    """One condition on the label of one key. `values` are sorted and distinct."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    @property
    def is_equality(self) -> bool:
        """Whether the label must have one certain value."""
        return self.operator is Operator.IN and len(self.values) == 1

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.ABSENT:
                return value is None
            case Operator.GREATER | Operator.LESS:
                return self._compares(value)
            case _:
                assert_never(self.operator)

    def _compares(self, value: str | None) -> bool:
        number, limit = _int64(value), _int64(self.values[0])
        if number is None or limit is None:
            return False
        return number > limit if self.operator is Operator.GREATER else number < limit

    def __str__(self) -> str:
        values = ",".join(self.values)
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.ABSENT:
                return f"!{self.key}"
            case Operator.GREATER | Operator.LESS:
                return f"{self.key}{self.operator}{values}"
            case Operator.IN | Operator.NOT_IN if len(self.values) > 1:
                return f"{self.key} {self.operator} ({values})"
            case Operator.IN:
                return f"{self.key}={values}"
            case Operator.NOT_IN:
                return f"{self.key}!={values}"
            case _:
                assert_never(self.operator)


class Selector(msgspec.Struct, frozen=True, dict=True):
    """A compiled label selector.

    It matches if all requirements do. They are sorted, so that equal selectors compare and print alike.
    """

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        # It runs a thousand times for a node that is drained. Most selectors have nothing but equalities.
        for key, value in self._pairs:
            if labels.get(key) != value:
                return False
        for requirement in self._others:  # noqa: SIM110 - a loop is cheaper than a generator
            if not requirement.matches(labels):
                return False
        return True

    def equalities(self) -> dict[str, str]:
        """Return the labels and values that every match must have. An index can look them up."""
        return dict(self._pairs)

    @cached_property
    def longest_equality(self) -> tuple[str, str]:
        """The equality with the longest value, which is likely to be shared with the fewest objects; empty: none."""
        return max(self.equalities().items(), key=lambda pair: (len(pair[1]), pair), default=("", ""))

    @cached_property
    def _pairs(self) -> tuple[tuple[str, str], ...]:
        return tuple((each.key, each.values[0]) for each in self.requirements if each.is_equality)

    @cached_property
    def _others(self) -> tuple[Requirement, ...]:
        return tuple(each for each in self.requirements if not each.is_equality)

    def __str__(self) -> str:
        return ",".join(map(str, self.requirements))


EVERYTHING = Selector()


def parse(text: str) -> Selector:
    """Parse a selector as in `kubectl -l`. An empty text selects everything."""
    return _compiled(_Parser(text).requirements())


def from_object(value: Mapping[str, Any], path: str = "selector") -> Selector:
    """Read a `LabelSelector`. An empty one selects everything. The caller must handle null, which varies by field."""
    value = _mapping(value, path)
    labels = _mapping(value.get("matchLabels"), f"{path}.matchLabels")
    expressions = value.get("matchExpressions")
    # A value that is not a text is refused, and may be something that is not hashable.
    if expressions in (None, [], ()) and {str}.issuperset(map(type, labels.values())):
        return _of_labels(tuple(labels.items()), path)
    requirements = _equalities(labels.items(), path)
    for number, expression in enumerate(_list(expressions, f"{path}.matchExpressions")):
        requirements.append(_expression(expression, f"{path}.matchExpressions[{number}]"))
    return _compiled(requirements)


# Cached because each version of an object has the selector again, and it seldom changes.
@small_cache(1024, lambda labels, path: len(labels) <= MOST_CACHED_LABELS)
def _of_labels(labels: tuple[tuple[Any, str], ...], path: str) -> Selector:
    return _compiled(_equalities(labels, path))


def _equalities(labels: Iterable[tuple[Any, Any]], path: str) -> list[Requirement]:
    return [_requirement(key, Operator.IN, [wanted], f"{path}.matchLabels[{key}]") for key, wanted in labels]


def _compiled(requirements: Iterable[Requirement]) -> Selector:
    return Selector(tuple(sorted(set(requirements))))


def _expression(expression: Any, path: str) -> Requirement:
    expression = _mapping(expression, path)
    operators = {
        "In": Operator.IN,
        "NotIn": Operator.NOT_IN,
        "Exists": Operator.EXISTS,
        "DoesNotExist": Operator.ABSENT,
    }
    operator = operators.get(str(expression.get("operator", "")))
    if operator is None:
        written = expression.get("operator", "")
        raise SelectorError(f'"{written}" is not a valid label selector operator', path=f"{path}.operator")
    values = _list(expression.get("values"), f"{path}.values")
    needs_values = operator in {Operator.IN, Operator.NOT_IN}
    if needs_values and not values:
        raise SelectorError("for 'in', 'notin' operators, values set can't be empty", path=f"{path}.values")
    if values and not needs_values:
        raise SelectorError("values set must be empty for exists and does not exist", path=f"{path}.values")
    return _requirement(expression.get("key", ""), operator, values, path)


def _requirement(key: Any, operator: Operator, values: list[Any], path: str) -> Requirement:
    if not isinstance(key, str) or (problem := _key_problem(key)):
        raise SelectorError(f"key: {problem if isinstance(key, str) else 'must be a string'}", path=path)
    for value in values:
        if not isinstance(value, str) or (problem := _value_problem(value)):
            raise SelectorError(problem if isinstance(value, str) else "values must be strings", path=path)
    return Requirement(key, operator, tuple(sorted(set(values))))


def _mapping(value: Any, path: str) -> Mapping[str, Any]:
    if value is None:
        return {}
    # The test for a dict comes first, because that for a Mapping is slow.
    if not isinstance(value, dict) and not isinstance(value, Mapping):
        raise SelectorError("must be an object", path=path)
    return value


def _list(value: Any, path: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        raise SelectorError("must be a list", path=path)
    return list(value)


class _Token(NamedTuple):
    text: str
    column: int


class _Parser:
    def __init__(self, text: str) -> None:
        blank = text.rstrip(" \t\r\n")
        self._tokens = [_Token(found["token"], found.start("token") + 1) for found in _TOKEN.finditer(blank)]
        self._tokens.append(_Token("", len(text) + 1))
        self._at = 0

    def requirements(self) -> list[Requirement]:
        requirements: list[Requirement] = []
        if not self._peek().text:
            return requirements
        while True:
            requirements.append(self._requirement())
            token = self._take()
            if not token.text:
                return requirements
            if token.text != ",":
                raise _unexpected(token, "',' or 'end of string'")

    def _requirement(self) -> Requirement:
        absent = self._peek().text == "!"
        if absent:
            self._take()
        key = self._take()
        if key.text in _SYMBOLS:
            raise _unexpected(key, "identifier")
        if problem := _key_problem(key.text):
            raise SelectorError(f"key: {problem}", column=key.column)
        if absent:
            return Requirement(key.text, Operator.ABSENT)
        if self._peek().text in {"", ","}:
            return Requirement(key.text, Operator.EXISTS)
        return self._comparison(key.text)

    def _comparison(self, key: str) -> Requirement:
        operator = self._take()
        match operator.text:
            case "in" | "notin":
                return Requirement(key, Operator(operator.text), self._values())
            case "=" | "==":
                return Requirement(key, Operator.IN, (self._value(),))
            case "!=":
                return Requirement(key, Operator.NOT_IN, (self._value(),))
            case ">" | "<":
                column = self._peek().column
                value = self._value()
                if _int64(value) is None:
                    raise SelectorError("for 'Gt', 'Lt' operators, the value must be an integer", column=column)
                return Requirement(key, Operator(operator.text), (value,))
            case _:
                raise _unexpected(operator, "in, notin, =, ==, !=, >, <")

    def _values(self) -> tuple[str, ...]:
        """Read the values in parentheses. Two commas in a row, or empty parentheses, give an empty value."""
        opened = self._take()
        if opened.text != "(":
            raise _unexpected(opened, "'('")
        values = {self._value()}
        while (token := self._take()).text == ",":
            values.add(self._value())
        if token.text != ")":
            raise _unexpected(token, "',' or ')'")
        return tuple(sorted(values))

    def _value(self) -> str:
        if self._peek().text in {"", ",", ")"}:
            return ""
        token = self._take()
        if token.text in _SYMBOLS:
            raise _unexpected(token, "identifier")
        if problem := _value_problem(token.text):
            raise SelectorError(problem, column=token.column)
        return token.text

    def _peek(self) -> _Token:
        return self._tokens[self._at]

    def _take(self) -> _Token:
        token = self._peek()
        if token.text:
            self._at += 1
        return token


def _unexpected(token: _Token, expected: str) -> SelectorError:
    return SelectorError(f"found '{token.text}', expected: {expected}", column=token.column)


def _key_problem(key: str) -> str:
    prefix, slash, name = key.rpartition("/")
    if slash and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix)):
        return f'prefix part of "{key}" must be a lowercase DNS subdomain'
    if len(name) > 63 or not _NAME.fullmatch(name):
        return f"name part of \"{key}\" must be 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"
    return ""


def _value_problem(value: str) -> str:
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        return f"value \"{value}\" must be at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends"
    return ""


def _int64(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    value = int(text)
    return value if INT64_MIN <= value <= INT64_MAX else None
