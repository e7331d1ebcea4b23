"""Bounds for numbers and times from outside. They are applied on input, so that sums of them do not overflow.

Kubernetes accepts a grace period of 2^62 seconds and a renewal in the year 9999. No decision needs values beyond these
bounds. An instant within them, plus or minus several spans within them, is a date that Python can represent.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload

# 300 years, more than Go's longest duration, which is 292 years.
LONGEST_SECONDS = 300 * 365 * 86_400
EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
# The largest count of Kubernetes, which is an int32.
MOST = (1 << 31) - 1


@overload
def seconds(number: int) -> int: ...


@overload
def seconds(number: int | None) -> int | None: ...


def seconds(number: int | None) -> int | None:
    """Return a number of seconds, limited to 300 years."""
    return None if number is None else min(max(number, -LONGEST_SECONDS), LONGEST_SECONDS)


def span(number: float) -> timedelta:
    """Return a number of seconds, limited to 300 years, as a timedelta."""
    return timedelta(seconds=min(max(number, -LONGEST_SECONDS), LONGEST_SECONDS))


def count(number: int) -> int:
    """Return a count, limited to the range of an int32."""
    return min(max(number, -MOST), MOST)


@overload
def instant(at: datetime) -> datetime: ...


@overload
def instant(at: datetime | None) -> datetime | None: ...


def instant(at: datetime | None) -> datetime | None:
    """Return an instant in UTC, limited to the years 1000 to 9000. Without a time zone, it is taken for UTC."""
    if at is None:
        return None
    if EARLIEST.year < at.year < LATEST.year:
        return at if at.tzinfo is UTC else at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return EARLIEST if at.year <= EARLIEST.year else LATEST
