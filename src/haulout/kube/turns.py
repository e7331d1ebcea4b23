"""Turns at costly work for other clusters, which all of them share: together they take a bounded part of the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """The turns at one kind of work: one at a time, in the order of asking, with a pause after each.

    A pause lasts `pause` seconds, and at least `rest` times as long as the turn before it. So work that is done within
    turns takes at most one part in `rest` + 1 of the time, however many ask for it and however costly their input is.
    Of work that only begins after an empty turn, the pace is bounded, and not the time.
    """

    def __init__(self, pause: float, rest: float = 4.0) -> None:
        self._pause = pause
        self._rest = rest
        self._free_at = float("-inf")
        self._order = asyncio.Lock()

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn. What runs within it must not wait for anything."""
        loop = asyncio.get_running_loop()
        async with self._order:
            if (wait := self._free_at - loop.time()) > 0:
                await asyncio.sleep(wait)
            began_at = loop.time()
            try:
                yield
            finally:
                ended_at = loop.time()
                self._free_at = ended_at + max(self._pause, self._rest * (ended_at - began_at))


class Shared:
    """What the transports to all other clusters share.

    `reading`: turns at a slice of a long answer, at most 64 KiB in 10 ms.
    `connecting`: turns before a connection is opened, so that the TLS handshakes of many clusters do not fall into one
    turn of the event loop. 200 connections are begun within a second.
    """

    def __init__(self) -> None:
        self.reading = Turns(0.010)
        self.connecting = Turns(0.005)
