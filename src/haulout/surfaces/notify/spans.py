"""Spans of time as the configuration file writes them: in Go's words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from haulout.base import duration


class Span(timedelta):
    """A span that is written as Go's ParseDuration reads it. A bare number has no unit and is refused, but for 0."""


class Period(Span):
    """A span that may also be a whole number of nanoseconds, as Go stores durations."""


def span(text: str) -> Any:
    """Return a field whose default is this span."""
    return msgspec.field(default_factory=lambda: of(duration.parse(text)))


def block(kind: type[Any]) -> Any:
    """Return a field whose default is a block with all of its defaults. It leaves no default in the JSON schema."""
    return msgspec.field(default_factory=kind)


def of(plain: timedelta) -> Span:
    return Span(plain.days, plain.seconds, plain.microseconds)


def read(kind: type[Any], value: object) -> Span:
    """Return the span that a value of the file means. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and (value == 0 or kind is Period):
        return of(duration.from_nanoseconds(value))
    if isinstance(value, str):
        return of(duration.parse(value))
    raise ValueError("not a duration")
