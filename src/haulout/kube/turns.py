"""Turns at costly work for other clusters, which all of them share: together they take a bounded part of the time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """The turns at one kind of work: one at a time, in the order of asking, with a pause after each.

    A pause lasts `pause` seconds, and at least `rest` times as long as the turn before it. So the work takes at most
    one part in `rest` + 1 of the time, however many ask for it and however costly their input is.
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

    `reading`: turns at a slice of a long answer. 64 KiB in 10 ms are 6 MiB/s, at a cost of a few percent of the time.
    `connecting`: turns at opening a connection, whose TLS handshake keeps the event loop for about 2 ms. When many
    clusters are connected to at once, 200 of them take a second.
    """

    def __init__(self) -> None:
        self.reading = Turns(0.010)
        self.connecting = Turns(0.005)
