"""Go's time.Time as templates see it: a struct that prints itself, with the methods that messages use."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from haulout.base.gotemplate.values import Func, Named, Object

_STAMP = re.compile(r"[.,]([0-9]+)(?=Z|[+-]|$)")
_LAYOUT = re.compile(
    r"January|Jan|Monday|Mon|MST|2006|__2|_2(?!006)|002|Z070000|Z07:00:00|Z0700|Z07:00|Z07|-070000|-07:00:00"
    r"|-0700|-07:00|-07|0[1-6]|15|PM|pm|[.,]0+(?![0-9])|[.,]9+(?![0-9])|[1-5]"
)
_MONTHS = [
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
]  # fmt: skip
_DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def go_time(at: datetime, nanoseconds: int | None = None, type_name: str = "time.Time") -> Object:
    """Return an instant as a Go time.Time. `nanoseconds`: those of the second, if known more exactly than in `at`."""
    nanos = at.microsecond * 1000 if nanoseconds is None else nanoseconds
    return Object(type_name, {}, methods=_methods(at, nanos), text=_printed(at, nanos))


def nanoseconds_of(stamp: str) -> int:
    """Return the nanoseconds in a written instant, such as 5 of `...:00.000000005Z`."""
    found = _STAMP.search(stamp)
    return int(found[1][:9].ljust(9, "0")) if found else 0


def formatted(at: datetime, nanos: int, layout: str) -> str:
    """Format an instant like Time.Format."""
    return _LAYOUT.sub(lambda found: _piece(found[0], at, nanos), layout)


def _methods(at: datetime, nanos: int) -> dict[str, Func]:
    seconds = (at.replace(microsecond=0) - _EPOCH) // timedelta(seconds=1)
    universal = at.astimezone(UTC)
    return {
        "Format": Func(lambda layout: formatted(at, nanos, layout), ["string"]),
        "String": Func(lambda: _printed(at, nanos)),
        "Unix": Func(lambda: seconds),
        "UnixMilli": Func(lambda: seconds * 1000 + nanos // 1_000_000),
        "UnixMicro": Func(lambda: seconds * 1_000_000 + nanos // 1000),
        "UnixNano": Func(lambda: seconds * 1_000_000_000 + nanos),
        "Year": Func(lambda: at.year),
        "Day": Func(lambda: at.day),
        "Hour": Func(lambda: at.hour),
        "Minute": Func(lambda: at.minute),
        "Second": Func(lambda: at.second),
        "Nanosecond": Func(lambda: nanos),
        "YearDay": Func(lambda: at.timetuple().tm_yday),
        "Month": Func(lambda: Named(at.month, _MONTHS[at.month - 1], "time.Month")),
        "Weekday": Func(lambda: Named(at.isoweekday() % 7, _DAYS[at.weekday()], "time.Weekday")),
        "IsZero": Func(lambda: universal == datetime.min.replace(tzinfo=UTC) and not nanos),
        "UTC": Func(lambda: go_time(universal, nanos)),
        # The local time of the original's containers is UTC.
        "Local": Func(lambda: go_time(universal, nanos)),
    }


def _printed(at: datetime, nanos: int) -> str:
    return formatted(at, nanos, "2006-01-02 15:04:05.999999999 -0700 MST")


def _piece(layout: str, at: datetime, nanos: int) -> str:
    if layout[0] in ".,":
        return _fraction(layout, nanos)
    if layout[0] in "Z-":
        return _offset(layout, at)
    return _PIECES[layout](at)


def _fraction(layout: str, nanos: int) -> str:
    digits = f"{nanos:09}"[: len(layout) - 1].ljust(len(layout) - 1, "0")
    if layout[1] == "9":
        digits = digits.rstrip("0")
    return f"{layout[0]}{digits}" if digits else ""


def _offset(layout: str, at: datetime) -> str:
    offset = at.utcoffset() or timedelta(0)
    if layout[0] == "Z" and not offset:
        return "Z"
    seconds = abs(offset) // timedelta(seconds=1)
    hours, minutes, rest = seconds // 3600, seconds // 60 % 60, seconds % 60
    parts = [f"{hours:02}", f"{minutes:02}", f"{rest:02}"]
    digits = parts[: len(layout.replace(":", "")[1:]) // 2]
    return ("-" if offset < timedelta(0) else "+") + (":" if ":" in layout else "").join(digits)


def _zone(at: datetime) -> str:
    """Return the name of the time zone. An offset that was read from a text has no name."""
    return _offset("-0700", at) if at.utcoffset() else "UTC"


def _twelve(at: datetime) -> int:
    return at.hour % 12 or 12


_PIECES: dict[str, Callable[[datetime], str]] = {
    "January": lambda at: _MONTHS[at.month - 1],
    "Jan": lambda at: _MONTHS[at.month - 1][:3],
    "Monday": lambda at: _DAYS[at.weekday()],
    "Mon": lambda at: _DAYS[at.weekday()][:3],
    "MST": _zone,
    "2006": lambda at: f"{at.year:04}",
    "06": lambda at: f"{at.year % 100:02}",
    "01": lambda at: f"{at.month:02}",
    "1": lambda at: str(at.month),
    "02": lambda at: f"{at.day:02}",
    "_2": lambda at: f"{at.day:2}",
    "2": lambda at: str(at.day),
    "002": lambda at: f"{at.timetuple().tm_yday:03}",
    "__2": lambda at: f"{at.timetuple().tm_yday:3}",
    "15": lambda at: f"{at.hour:02}",
    "03": lambda at: f"{_twelve(at):02}",
    "3": lambda at: str(_twelve(at)),
    "04": lambda at: f"{at.minute:02}",
    "4": lambda at: str(at.minute),
    "05": lambda at: f"{at.second:02}",
    "5": lambda at: str(at.second),
    "PM": lambda at: "PM" if at.hour >= 12 else "AM",
    "pm": lambda at: "pm" if at.hour >= 12 else "am",
}

METHODS = frozenset(_methods(_EPOCH, 0))
