"""Evaluates the part of PromQL that our alert rules use, and reads promtool's format of unit tests for rules.

`increase` is the difference between the last and the first sample of the range. Prometheus extrapolates it to the ends of
the range, which no threshold of ours depends on.
"""

from __future__ import annotations

import itertools
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
NAME = "__name__"
# Prometheus takes the last sample of the five minutes before an instant.
LOOK_BACK = 300.0
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+(?:\.\d+)?)(?![\w.])|(?P<span>\d+[smhd])|(?P<text>\"[^\"]*\")|(?P<word>[a-zA-Z_:]\w*)"
    r"|(?P<sign>=~|!~|!=|==|>=|<=|[-+*/<>=(){}\[\],]))"
)
_ARITHMETIC: dict[str, Callable[[float, float], float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
    ">=": operator.ge,
    "<=": operator.le,
}
_LEVELS: tuple[tuple[str, ...], ...] = (("or",), ("and", "unless"), tuple(_COMPARISONS), ("+", "-"), ("*", "/"))
_OVER_TIME: dict[str, Callable[[Sequence[float]], float]] = {"min_over_time": min, "max_over_time": max}
_AGGREGATIONS: dict[str, Callable[[Sequence[float]], float]] = {"sum": sum, "count": len, "min": min, "max": max}


class Series(msgspec.Struct):
    """One time series: its labels with its name, and its samples as (seconds, value)."""

    labels: dict[str, str]
    samples: list[tuple[float, float]]

    def at(self, instant: float) -> float | None:
        found = [value for at, value in self.samples if instant - LOOK_BACK < at <= instant]
        return found[-1] if found else None

    def within(self, begin: float, end: float) -> list[float]:
        return [value for at, value in self.samples if begin < at <= end]


def evaluate(text: str, data: Sequence[Series], instant: float) -> Vector | float:
    """Return the value of an expression at an instant: a number, or a vector by labels."""
    reader = _Reader(text, data, instant)
    value = reader.binary(0)
    assert not reader.tokens, f"{text}: not read to its end: {reader.tokens}"
    return value


class _Reader:
    def __init__(self, text: str, data: Sequence[Series], instant: float) -> None:
        self.tokens, at = [], 0
        while text[at:].strip():
            found = _TOKEN.match(text, at)
            assert found is not None, f"{text[at:]!r} cannot be read"
            self.tokens.append(found.group().strip())
            at = found.end()
        self._data, self._instant = data, instant

    def _take(self, *wanted: str) -> str:
        token = self.tokens.pop(0)
        assert not wanted or token in wanted, f"{token} in place of {wanted}"
        return token

    def _next(self) -> str:
        return self.tokens[0] if self.tokens else ""

    def binary(self, level: int) -> Vector | float:
        if level == len(_LEVELS):
            return self._primary()
        left = self.binary(level + 1)
        while self._next() in _LEVELS[level]:
            sign = self._take()
            on = self._names() if self._next() == "on" and self._take() else None
            left = _combined(sign, left, self.binary(level + 1), on)
        return left

    def _primary(self) -> Vector | float:
        token = self._take()
        if token == "(":
            value = self.binary(0)
            self._take(")")
            return value
        if token[0].isdigit():
            return float(token)
        if token == "time":
            self._take("(")
            self._take(")")
            return self._instant
        if token in _AGGREGATIONS:
            by = self._names() if self._next() == "by" and self._take() else ()
            return _aggregated(_AGGREGATIONS[token], self._argument(), by)
        if token == "absent":
            return {} if self._argument() else {frozenset(): 1.0}
        if token in ("increase", *_OVER_TIME):
            self._take("(")
            value = self._over_time(token)
            self._take(")")
            return value
        return self._instant_vector(token)

    def _argument(self) -> Vector:
        self._take("(")
        value = self.binary(0)
        self._take(")")
        assert isinstance(value, dict)
        return value

    def _names(self) -> tuple[str, ...]:
        self._take("(")
        names = []
        while (token := self._take()) != ")":
            names += [token] if token != "," else []
        return tuple(names)

    def _selected(self, name: str) -> list[Series]:
        tests: list[tuple[str, str, str]] = [(NAME, "=", name)]
        if self._next() == "{":
            self._take()
            while (token := self._take()) != "}":
                if token != ",":
                    tests.append((token, self._take("=", "!=", "=~", "!~"), self._take()[1:-1]))
        return [each for each in self._data if all(_passes(each.labels, *test) for test in tests)]

    def _offset(self) -> float:
        return _seconds(self._take()) if self._next() == "offset" and self._take() else 0.0

    def _instant_vector(self, name: str) -> Vector:
        found = self._selected(name)
        instant = self._instant - self._offset()
        values = ((each.labels, each.at(instant)) for each in found)
        return {frozenset(labels.items()): value for labels, value in values if value is not None}

    def _over_time(self, function: str) -> Vector:
        found = self._selected(self._take())
        self._take("[")
        span = _seconds(self._take())
        self._take("]")
        end = self._instant - self._offset()
        values = ((_unnamed(frozenset(each.labels.items())), each.within(end - span, end)) for each in found)
        if function == "increase":
            return {labels: _increase(each) for labels, each in values if len(each) > 1}
        return {labels: _OVER_TIME[function](each) for labels, each in values if each}


def _passes(labels: dict[str, str], name: str, sign: str, text: str) -> bool:
    value = labels.get(name, "")
    matches = re.fullmatch(text, value) is not None if "~" in sign else value == text
    return matches is not sign.startswith("!")


def _seconds(text: str) -> float:
    return float(int(text[:-1]) * _UNITS[text[-1]])


def _increase(values: Sequence[float]) -> float:
    """Return how much a counter has grown. A fall is a restart from 0."""
    return sum(new - old if new >= old else new for old, new in itertools.pairwise(values))


def _unnamed(labels: Labels) -> Labels:
    return frozenset(pair for pair in labels if pair[0] != NAME)


def _of(labels: Labels, on: Iterable[str] | None) -> Labels:
    return _unnamed(labels) if on is None else frozenset(pair for pair in labels if pair[0] in set(on))


def _aggregated(function: Callable[[Sequence[float]], float], vector: Vector, by: tuple[str, ...]) -> Vector:
    groups: dict[Labels, list[float]] = {}
    for labels, value in vector.items():
        groups.setdefault(_of(labels, by), []).append(value)
    return {labels: float(function(values)) for labels, values in groups.items()}


def _combined(sign: str, left: Vector | float, right: Vector | float, on: Iterable[str] | None) -> Vector | float:
    if sign in ("or", "and", "unless"):
        assert isinstance(left, dict)
        assert isinstance(right, dict)
        return _joined(sign, left, right, on)
    if isinstance(left, float) and isinstance(right, float):
        return _ARITHMETIC[sign](left, right)
    if isinstance(right, float):
        assert isinstance(left, dict)
        return _with_pairs(sign, ((labels, value, right) for labels, value in left.items()))
    if isinstance(left, float):
        return _with_pairs(sign, ((labels, left, value) for labels, value in right.items()))
    others = {_of(labels, on): value for labels, value in right.items()}
    pairs = ((labels, value, others[_of(labels, on)]) for labels, value in left.items() if _of(labels, on) in others)
    return _with_pairs(sign, pairs)


def _with_pairs(sign: str, pairs: Iterable[tuple[Labels, float, float]]) -> Vector:
    """Return the results of arithmetic, or those of the left side for which a comparison holds."""
    if sign in _ARITHMETIC:
        return {_unnamed(labels): _ARITHMETIC[sign](one, other) for labels, one, other in pairs}
    return {labels: one for labels, one, other in pairs if _COMPARISONS[sign](one, other)}


def _joined(sign: str, left: Vector, right: Vector, on: Iterable[str] | None) -> Vector:
    known = {_of(labels, on) for labels in (left if sign == "or" else right)}
    if sign == "or":
        return {**left, **{labels: value for labels, value in right.items() if _of(labels, on) not in known}}
    return {labels: value for labels, value in left.items() if (_of(labels, on) in known) is (sign == "and")}


# Rules and their tests


class Alert(msgspec.Struct, frozen=True, order=True):
    """An alert that fires: its name and its labels."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()


def firing(rule: dict[str, Any], data: Sequence[Series], instant: float, interval: float) -> Iterator[Alert]:
    """Yield the alerts of a rule that fire at an instant, where the rule is evaluated at every interval."""
    held_for = _seconds(rule["for"]) if "for" in rule else 0.0
    since: dict[Labels, float] = {}
    for step in range(int(instant // interval) + 1):
        at = step * interval
        value = evaluate(rule["expr"], data, at)
        assert isinstance(value, dict)
        since = {labels: since.get(labels, at) for labels in map(_unnamed, value)}
    for labels, at in since.items():
        if instant - at >= held_for:
            yield Alert(rule["alert"], tuple(sorted((*labels, *rule.get("labels", {}).items()))))


_SERIES = re.compile(r"(?P<name>\w+)(?:\{(?P<labels>.*)\})?")
_VALUES = re.compile(r"(?P<first>-?\d+)(?:(?P<step>[+-]\d+))?(?:x(?P<count>\d+))?|_(?:x(?P<gaps>\d+))?")


def series(text: str, values: str, interval: float) -> Series:
    """Read one `input_series` of promtool's format: `metric{label="x"}` and values as `0+1x10 5x3 _x2`."""
    found = _SERIES.fullmatch(text)
    assert found is not None, text
    # Prometheus treats a label without a value as absent.
    labels = dict(re.findall(r'(\w+)="([^"]+)"', found["labels"] or ""))
    samples: list[float | None] = []
    for part in values.split():
        read = _VALUES.fullmatch(part)
        assert read is not None, part
        if read["first"] is None:
            samples += [None] * int(read["gaps"] or 1)
            continue
        first, step = int(read["first"]), int(read["step"] or 0)
        samples += [float(first + step * number) for number in range(int(read["count"] or 0) + 1)]
    timed = [(number * interval, value) for number, value in enumerate(samples) if value is not None]
    return Series({NAME: found["name"], **labels}, timed)


def seconds(text: str) -> float:
    """Return the seconds of a duration such as `1h30m`."""
    return sum(_seconds(part) for part in re.findall(r"\d+[smhd]", text))
