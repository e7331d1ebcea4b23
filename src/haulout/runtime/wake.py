"""The bell of the driver: every input rings it, and the driver sleeps until it rings."""

from __future__ import annotations

import asyncio

from haulout.kernel.loop import Loop


class Wake:
    """An event that ends the driver's sleep. It exists before the driver, so that everything can be given it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._rung = asyncio.Event()

    def poke(self) -> None:
        """Wake the driver: something has come in."""
        self._rung.set()

    def stir(self) -> None:
        """Wake the driver if a decision is due. A heartbeat that changes no row wakes nothing."""
        if self._loop.has_due:
            self._rung.set()

    def clear(self) -> None:
        self._rung.clear()

    async def wait(self) -> None:
        await self._rung.wait()
