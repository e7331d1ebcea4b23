"""Time spans in the configuration file, in Go's syntax."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from haulout.base import duration


class Span(timedelta):
    """A time span in the syntax of Go's ParseDuration. A bare number other than 0 is refused."""


class Period(Span):
    """A span that may also be given as a whole number of nanoseconds, as Go stores durations."""


def span(text: str) -> Any:
    """Return a struct field with this span as its default."""
    return msgspec.field(default_factory=lambda: of(duration.parse(text)))


def block(kind: type[Any]) -> Any:
    """Return a struct field whose default is a block of defaults. The default does not appear in the JSON schema."""
    return msgspec.field(default_factory=kind)


def of(plain: timedelta) -> Span:
    return Span(plain.days, plain.seconds, plain.microseconds)


def read(kind: type[Any], value: object) -> Span:
    """Return the span of a value in the file. Raises ValueError."""
    if isinstance(value, int) and not isinstance(value, bool) and (value == 0 or kind is Period):
        return of(duration.from_nanoseconds(value))
    if isinstance(value, str):
        return of(duration.parse(value))
    raise ValueError("not a duration")
