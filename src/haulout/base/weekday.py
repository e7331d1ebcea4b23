"""Weekdays and times of day as people write them in configurations; errors in the words of Go's time package."""

from __future__ import annotations

import re
from datetime import time

from haulout.base.duration import quoted

_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {name: number for number, day in enumerate(_NAMES) for name in (day, day[:3])}
_LAYOUT = "15:04"


def parse_weekday(text: str) -> int:
    """Monday is 0, as `datetime.weekday()` counts; full English names or three letters, in any case."""
    number = _NUMBERS.get(text.lower())
    if number is None:
        raise ValueError(f"'{text}' is not a known weekday")
    return number


def parse_time_of_day(text: str) -> time:
    """`hh:mm`, the hour with one or two digits."""
    hour = re.match("[0-9]{1,2}", text)
    if not hour:
        raise _unreadable(text, text, "15")
    if int(hour[0]) > 23:
        raise ValueError(f"parsing time {quoted(text)}: hour out of range")
    rest = text[hour.end() :]
    if not rest.startswith(":"):
        raise _unreadable(text, rest, ":")
    minute = re.match("[0-9]{2}", rest[1:])
    if not minute:
        raise _unreadable(text, rest[1:], "04")
    if int(minute[0]) > 59:
        raise ValueError(f"parsing time {quoted(text)}: minute out of range")
    if extra := rest[3:]:
        raise ValueError(f"parsing time {quoted(text)}: extra text: {quoted(extra)}")
    return time(int(hour[0]), int(minute[0]))


def _unreadable(text: str, rest: str, expected: str) -> ValueError:
    return ValueError(
        f"parsing time {quoted(text)} as {quoted(_LAYOUT)}: cannot parse {quoted(rest)} as {quoted(expected)}"
    )
