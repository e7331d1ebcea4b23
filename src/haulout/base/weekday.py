"""Weekdays, dates and times of day as people write them in configurations; errors in the words of Go's time package."""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import time
from typing import NamedTuple

from haulout.base.duration import quote

_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBERS = {name: number for number, day in enumerate(_NAMES) for name in (day, day[:3])}
_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_LAYOUT = "15:04"
_DATE_LAYOUT = "Jan 2"
_A_LEAP_YEAR = 2000


class MonthDay(NamedTuple):
    """A date that comes every year, such as Dec 24."""

    month: int
    day: int


def parse_weekday(text: str) -> int:
    """Return the number of a weekday; Monday is 0. Accepts full English names or three letters, in any case."""
    number = _NUMBERS.get(text.lower())
    if number is None:
        raise ValueError(f"'{text}' is not a known weekday")
    return number


def parse_time_of_day(text: str) -> time:
    """Parse `hh:mm`, the hour with one or two digits."""
    hour = re.match("[0-9]{1,2}", text)
    if not hour:
        raise _unreadable(text, text, "15")
    if int(hour[0]) > 23:
        raise ValueError(f"parsing time {quote(text)}: hour out of range")
    rest = text[hour.end() :]
    if not rest.startswith(":"):
        raise _unreadable(text, rest, ":")
    minute = re.match("[0-9]{2}", rest[1:])
    if not minute:
        raise _unreadable(text, rest[1:], "04")
    if int(minute[0]) > 59:
        raise ValueError(f"parsing time {quote(text)}: minute out of range")
    if extra := rest[3:]:
        raise ValueError(f"parsing time {quote(text)}: extra text: {quote(extra)}")
    return time(int(hour[0]), int(minute[0]))


def parse_month_day(text: str) -> MonthDay:
    """Parse `Dec 24`: three letters of the English month in any case, the day with one or two digits."""
    name, rest = text[:3].lower(), text[3:]
    if name not in _MONTHS:
        raise _unreadable(text, text, "Jan", _DATE_LAYOUT)
    if rest and not rest.startswith(" "):
        raise _unreadable(text, rest, " ", _DATE_LAYOUT)
    number = re.match("[0-9]{1,2}", rest.lstrip(" "))
    if not number:
        raise _unreadable(text, rest.lstrip(" "), "2", _DATE_LAYOUT)
    if extra := rest.lstrip(" ")[number.end() :]:
        raise ValueError(f"parsing time {quote(text)}: extra text: {quote(extra)}")
    month, day = _MONTHS.index(name) + 1, int(number[0])
    if not 1 <= day <= monthrange(_A_LEAP_YEAR, month)[1]:
        raise ValueError(f"parsing time {quote(text)}: day out of range")
    return MonthDay(month, day)


def _unreadable(text: str, rest: str, expected: str, layout: str = _LAYOUT) -> ValueError:
    return ValueError(f"parsing time {quote(text)} as {quote(layout)}: cannot parse {quote(rest)} as {quote(expected)}")
