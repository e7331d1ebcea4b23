"""Converts local times of a time zone to instants, also on days on which clocks are changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

_SECOND, _DAY = timedelta(seconds=1), timedelta(days=1)


@cache
def zone(name: str) -> tzinfo:
    """Return the time zone of an IANA name; UTC for an empty one. Raises ValueError for an unknown one."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    # The error depends on what is at the path of that name: nothing, a directory, or a file that is no time zone.
    except (KeyError, OSError, ValueError):
        raise ValueError(f"unknown time zone {name} (a name such as Europe/Berlin)") from None


def occurrences(wall: datetime, there: tzinfo) -> tuple[datetime, ...]:
    """Return the instants at which clocks show a local time: one, two if they are set back, none if they skip it."""
    both = (wall.replace(tzinfo=there, fold=fold).astimezone(UTC) for fold in (0, 1))
    return tuple(dict.fromkeys(at for at in both if at.astimezone(there).replace(tzinfo=None) == wall))


def even_midnight(day: date, there: tzinfo) -> datetime | None:
    """Return the instant at which a day begins; None if clocks are changed on that day."""
    start = datetime.combine(day, time(), there)
    offset = start.utcoffset()
    return None if (start + _DAY).utcoffset() != offset else start.astimezone(UTC)


def first(wall: datetime, there: tzinfo) -> datetime:
    """Return the first instant at which clocks show a local time, or at which they are changed and skip it."""
    return next(iter(occurrences(wall, there)), None) or _jump(wall, there)


def last(wall: datetime, there: tzinfo) -> datetime:
    """Return the last instant at which clocks show a local time, or at which they are changed and skip it."""
    return next(reversed(occurrences(wall, there)), None) or _jump(wall, there)


def _jump(wall: datetime, there: tzinfo) -> datetime:
    """Return the instant of the change at which clocks skip a local time."""
    # Read with the offset after the change, a skipped time lies before the change. Read with the offset before the
    # change, it lies after it (PEP 495).
    low, high = (wall.replace(tzinfo=there, fold=fold).astimezone(UTC) for fold in (1, 0))
    before = low.astimezone(there).utcoffset()
    while high - low > _SECOND:
        middle = (low + (high - low) / 2).replace(microsecond=0)
        low, high = (middle, high) if middle.astimezone(there).utcoffset() == before else (low, middle)
    return high
