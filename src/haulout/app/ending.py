"""How a process ends: by a signal, to be replaced by one with other settings, or because it may not go on."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Callable

from haulout.settings.settings import Settings

log = logging.getLogger("haulout.process")


class Ending:
    """The end of a process, awaited. The first signal begins it, a second one ends the process at once.

    `stop_deciding` runs when the end begins: from then on nothing new is decided.
    `replaced_by`: settings with which the process has to be put together anew.
    `why`: what ended it, where that was neither a signal nor a replacement.
    """

    def __init__(self, stop_deciding: Callable[[], None]) -> None:
        self._stop_deciding = stop_deciding
        self.replaced_by: Settings | None = None
        self.why = "leadership lost"
        self._signalled = asyncio.Event()
        self._replaced = asyncio.Event()
        self._lost = asyncio.Event()
        self._scraped = asyncio.Event()
        self._has_scraper = False

    @property
    def is_signalled(self) -> bool:
        return self._signalled.is_set()

    @property
    def has_begun(self) -> bool:
        """Whether the process only reports what it has done. Nothing else is written."""
        return self._signalled.is_set() or self._replaced.is_set()

    def catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)

    def signal(self) -> None:
        """Begin to end, as a signal does."""
        # Only a scrape from now on counts: one during the last writes sees the counters as they stay.
        self._scraped.clear()
        self._signalled.set()
        self._stop_deciding()

    def replace(self, settings: Settings) -> None:
        """Begin to end, for another process to begin with these settings."""
        self.replaced_by = settings
        self._replaced.set()
        self._stop_deciding()

    def lose(self, why: str) -> None:
        """End without waiting for anything: another replica may act by now."""
        self.why = why
        self._lost.set()

    def scraped(self) -> None:
        """Take note that the metrics were read."""
        self._has_scraper = True
        self._scraped.set()

    async def wait(self) -> int:
        """Return the exit code once one of the three has happened."""
        waits = [asyncio.create_task(event.wait()) for event in (self._signalled, self._replaced, self._lost)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return 0 if self.has_begun else 1

    async def await_scrape(self, seconds: float, *, in_any_case: bool) -> None:
        """Wait for one more scrape: the last counters may still be wanted.

        Where the metrics have never been read no scrape will come, unless the original waits `in_any_case`.
        """
        if not in_any_case and not self._has_scraper:
            return
        hint = "a second signal ends it at once"
        log.info("waiting for one more scrape", extra={"seconds": seconds, "hint": hint})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._scraped.wait()

    def _on_signal(self) -> None:
        if self._signalled.is_set():
            os._exit(1)
        self.signal()
