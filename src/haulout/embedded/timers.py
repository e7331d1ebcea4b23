"""Timers on a virtual clock that the caller moves, and timers on a running event loop."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from datetime import datetime, timedelta

from haulout.base.clock import Clock


class VirtualTimers:
    """Timers on a virtual clock.

    Time passes only when the caller moves it; then all due calls run in order, each at its own instant.
    """

    def __init__(self, start: datetime) -> None:
        self._now = start
        self._start = start
        self._count = itertools.count()
        self._heap: list[tuple[datetime, int, list[Callable[[], None]]]] = []

    def now(self) -> datetime:
        return self._now

    def monotonic(self) -> float:
        return (self._now - self._start).total_seconds()

    def at(self, instant: datetime, act: Callable[[], None]) -> Callable[[], None]:
        # Cancelled entries are emptied and dropped when their turn comes.
        acts = [act]
        heapq.heappush(self._heap, (instant, next(self._count), acts))
        return acts.clear

    def next_at(self) -> datetime | None:
        """Return the instant of the next planned call, or None."""
        while self._heap and not self._heap[0][2]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def run_due(self) -> int:
        """Run all calls that are due, also those planned meanwhile. Return how many ran."""
        return self.run_until(self._now)

    def run_until(self, instant: datetime) -> int:
        done, heap = 0, self._heap
        while heap and heap[0][0] <= instant:
            due_at, _, acts = heapq.heappop(heap)
            if not acts:
                continue
            self._now = max(self._now, due_at)
            for act in acts:
                act()
            done += 1
        self._now = max(self._now, instant)
        return done

    def run_for(self, span: timedelta) -> int:
        return self.run_until(self._now + span)


class FastClock:
    """A clock that starts at the time of another and runs `speed` times as fast."""

    def __init__(self, clock: Clock, speed: float) -> None:
        self._clock = clock
        self._speed = speed
        self._start, self._started = clock.now(), clock.monotonic()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=(self._clock.monotonic() - self._started) * self._speed)

    def monotonic(self) -> float:
        return self._started + (self._clock.monotonic() - self._started) * self._speed


class LoopTimers:
    """Timers on the running event loop, by a clock that runs `speed` times as fast as the loop's."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop | None = None, *, speed: float = 1.0) -> None:
        self._clock = clock
        self._loop = loop or asyncio.get_running_loop()
        self._speed = speed

    def now(self) -> datetime:
        return self._clock.now()

    def at(self, instant: datetime, act: Callable[[], None]) -> Callable[[], None]:
        delay = (instant - self._clock.now()).total_seconds() / self._speed
        if delay <= 0:
            return self._loop.call_soon(act).cancel
        return self._loop.call_later(delay, act).cancel
