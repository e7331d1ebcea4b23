"""A clock for tests."""

from __future__ import annotations

from datetime import datetime


class ManualClock:
    """A clock that moves only when told to."""

    def __init__(self, start: datetime) -> None:
        self._start = start
        self._now = start

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    def move_to(self, instant: datetime) -> None:
        self._now = max(self._now, instant)
