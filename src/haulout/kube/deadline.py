"""Deadlines that count the time while the computer is suspended, which asyncio's timeouts do not."""

from __future__ import annotations

import asyncio
from types import TracebackType

from haulout.base.clock import Clock

# After a suspend, a deadline that passed meanwhile is noticed within this time.
LOOK_EVERY = 1.0


class Deadline:
    """A context that raises TimeoutError once `clock` has moved on by so many seconds.

    The event loop's own clock stands still while the computer is suspended, so `clock` is compared every second.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._ends_at = clock.monotonic() + seconds
        self._bound = asyncio.timeout(seconds)

    async def __aenter__(self) -> None:
        self._loop = asyncio.get_running_loop()
        await self._bound.__aenter__()
        self._timer = self._loop.call_later(LOOK_EVERY, self._look)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._bound.__aexit__(kind, error, trace)

    def _look(self) -> None:
        # After a stall both timers are due at once. A timeout that has begun to end the task cannot be moved any more.
        if self._bound.expired():
            return
        if self._clock.monotonic() >= self._ends_at:
            self._bound.reschedule(self._loop.time())
        else:
            self._timer = self._loop.call_later(LOOK_EVERY, self._look)
