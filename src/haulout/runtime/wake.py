"""The event that ends the driver's sleep. Every input sets it."""

from __future__ import annotations

import asyncio

from haulout.kernel.loop import Loop


class Wake:
    """An event that ends the driver's sleep. It is made before the driver, because its setters are made before, too."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._rung = asyncio.Event()

    def poke(self) -> None:
        """Wake the driver, because there is new input."""
        self._rung.set()

    def stir(self) -> None:
        """Wake the driver if a decision is due. A heartbeat that changes no row does not wake it."""
        if self._loop.has_due:
            self._rung.set()

    def clear(self) -> None:
        self._rung.clear()

    async def wait(self) -> None:
        await self._rung.wait()
