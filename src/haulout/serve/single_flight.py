"""Shares one computation between all callers that ask for the same at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Flight(Generic[T]):
    """A computation whose results several callers share.

    A result is never older than the call: callers that come while `compute` runs share its next run. That begins after a
    pause as long as the last run took, so that callers can take at most half of the event loop's time.
    """

    def __init__(self, compute: Callable[[], Awaitable[T]]) -> None:
        self._compute = compute
        self._next: asyncio.Task[T] | None = None
        self._last: asyncio.Task[T] | None = None
        self._not_before = 0.0

    async def get(self) -> T:
        if self._next is None:
            self._next = asyncio.create_task(self._fly(self._last))
        # A caller that disconnects must not cancel the work that other callers wait for.
        return await asyncio.shield(self._next)

    async def _fly(self, before: asyncio.Task[T] | None) -> T:
        loop = asyncio.get_running_loop()
        if before is not None:
            await asyncio.wait([before])
        if (pause := self._not_before - loop.time()) > 0:
            await asyncio.sleep(pause)
        self._last, self._next = self._next, None
        began_at = loop.time()
        try:
            return await self._compute()
        finally:
            self._not_before = 2 * loop.time() - began_at
