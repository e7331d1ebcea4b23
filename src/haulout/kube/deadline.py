"""Deadlines that pass while the computer is suspended, which those of the event loop do not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from haulout.base.clock import Clock

# After a suspend, at most this long until a deadline that passed meanwhile is noticed.
LOOK_EVERY = 1.0


@asynccontextmanager
async def deadline(clock: Clock, seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError once the clock has moved on by so many seconds, whatever the event loop's own clock says."""
    loop, ends_at = asyncio.get_running_loop(), clock.elapsed() + seconds
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        if clock.elapsed() >= ends_at:
            bound.reschedule(loop.time())
        else:
            timer = loop.call_later(LOOK_EVERY, look)

    async with asyncio.timeout(seconds) as bound:
        timer = loop.call_later(LOOK_EVERY, look)
        try:
            yield
        finally:
            timer.cancel()
