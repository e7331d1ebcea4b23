"""Time zones: from what a clock on the wall shows to instants, also on the days when clocks are changed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from zoneinfo import ZoneInfo

_SECOND, _DAY = timedelta(seconds=1), timedelta(days=1)


@cache
def zone(name: str) -> tzinfo:
    """Return the zone of an IANA name; none is UTC. Raises ValueError for one that is not known."""
    if not name:
        return UTC
    try:
        return ZoneInfo(name)
    # What zoneinfo raises depends on what stands at that path: nothing, a directory, a file that is no zone.
    except (KeyError, OSError, ValueError):
        raise ValueError(f"unknown time zone {name} (a name such as Europe/Berlin)") from None


def occurrences(wall: datetime, there: tzinfo) -> tuple[datetime, ...]:
    """Return when a clock shows this time: once; twice where clocks are set back; never where they jump over it."""
    both = (wall.replace(tzinfo=there, fold=fold).astimezone(UTC) for fold in (0, 1))
    return tuple(dict.fromkeys(at for at in both if at.astimezone(there).replace(tzinfo=None) == wall))


def even_midnight(day: date, there: tzinfo) -> datetime | None:
    """Return when a day begins on which no clocks are changed; None on others."""
    start = datetime.combine(day, time(), there)
    offset = start.utcoffset()
    return None if (start + _DAY).utcoffset() != offset else start.astimezone(UTC)


def first(wall: datetime, there: tzinfo) -> datetime:
    """Return the first instant at which a clock shows this time or, where it jumps over it, a later one."""
    return next(iter(occurrences(wall, there)), None) or _jump(wall, there)


def last(wall: datetime, there: tzinfo) -> datetime:
    """Return the same, but the second time where a clock shows it twice."""
    return next(reversed(occurrences(wall, there)), None) or _jump(wall, there)


def _jump(wall: datetime, there: tzinfo) -> datetime:
    """Return the instant at which clocks skip this time."""
    # By the offset of afterwards it lies before the jump, by the offset of before it lies after it (PEP 495).
    low, high = (wall.replace(tzinfo=there, fold=fold).astimezone(UTC) for fold in (1, 0))
    before = low.astimezone(there).utcoffset()
    while high - low > _SECOND:
        middle = (low + (high - low) / 2).replace(microsecond=0)
        low, high = (middle, high) if middle.astimezone(there).utcoffset() == before else (low, middle)
    return high
