"""Bounds for numbers and times from outside, applied where they come in, so that no sum of them overflows.

Kubernetes accepts a grace period of 2^62 seconds and a renewal in the year 9999. No decision needs more than these bounds
leave: any instant within them, plus or minus several spans within them, is a date that Python knows.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import overload

# Above the longest duration of Go, which is 292 years.
LONGEST_SECONDS = 300 * 365 * 86_400
EARLIEST, LATEST = datetime(1000, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
# As far as Kubernetes' own counts go.
MOST = (1 << 31) - 1


@overload
def seconds(number: int) -> int: ...


@overload
def seconds(number: int | None) -> int | None: ...


def seconds(number: int | None) -> int | None:
    """Return a number of seconds within bounds."""
    return None if number is None else min(max(number, -LONGEST_SECONDS), LONGEST_SECONDS)


def span(number: float) -> timedelta:
    """Return so many seconds, within bounds, as a span."""
    return timedelta(seconds=min(max(number, -LONGEST_SECONDS), LONGEST_SECONDS))


def count(number: int) -> int:
    """Return a count within bounds."""
    return min(max(number, -MOST), MOST)


@overload
def instant(at: datetime) -> datetime: ...


@overload
def instant(at: datetime | None) -> datetime | None: ...


def instant(at: datetime | None) -> datetime | None:
    """Return an instant within bounds, in UTC. One without a time zone is taken for UTC."""
    if at is None:
        return None
    if EARLIEST.year < at.year < LATEST.year:
        return at if at.tzinfo is UTC else at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return EARLIEST if at.year <= EARLIEST.year else LATEST
