"""Clocks for the current time and for elapsed time. No other module reads the system's clocks."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_FIRST = datetime.min.replace(tzinfo=UTC)


def after(instant: datetime, span: timedelta) -> datetime | None:
    """Return `instant` plus `span`; None if that is after the last date of Python. Annotations may hold any year."""
    try:
        return instant + span
    except OverflowError:
        return None if span > timedelta(0) else _FIRST


class Clock(Protocol):
    """The source of the current time and of elapsed time.

    It is handed to everything that needs the time, so that tests and plans bring their own.
    """

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC."""
        ...

    def monotonic(self) -> float:
        """Return the seconds since a fixed moment. It never jumps back, and runs on while the computer is suspended."""
        ...


class SystemClock:
    """The clock of this computer, for everything that runs in real time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        # CLOCK_MONOTONIC stands still while the computer is suspended. Then a lease that has expired meanwhile would
        # seem to be valid.
        return time.clock_gettime(time.CLOCK_BOOTTIME)
