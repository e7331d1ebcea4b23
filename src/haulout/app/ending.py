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
    """The shutdown of a process: what causes it, and what is waited for. A second signal ends the process at once.

    `stop_deciding` is called when the shutdown begins. After that no decision runs.
    `replaced_by`: settings that only a new process can take over; the caller starts it.
    `why`: the cause of a shutdown that is neither a signal nor a replacement.
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
        """Whether the process is shutting down. It then writes only events about what it has done."""
        return self._signalled.is_set() or self._replaced.is_set()

    def catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal)

    def signal(self) -> None:
        """Begin the shutdown, as SIGTERM does."""
        # Only a later scrape shows the final counters.
        self._scraped.clear()
        self._signalled.set()
        self._stop_deciding()

    def replace(self, settings: Settings) -> None:
        """Begin the shutdown, so that a new process can start with these settings."""
        self.replaced_by = settings
        self._replaced.set()
        self._stop_deciding()

    def lose(self, why: str) -> None:
        """End without waiting for requests under way: another replica may be the leader by now."""
        self.why = why
        self._lost.set()

    def scraped(self) -> None:
        """Note that Prometheus has read the metrics."""
        self._has_scraper = True
        self._scraped.set()

    async def wait(self) -> int:
        """Wait for a signal, a replacement or the loss of leadership. Return the exit code: 1 after a loss."""
        waits = [asyncio.create_task(event.wait()) for event in (self._signalled, self._replaced, self._lost)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return 0 if self.has_begun else 1

    async def await_scrape(self, seconds: float, *, in_any_case: bool) -> None:
        """Wait for one more scrape, so that Prometheus sees the final counters.

        If the metrics have never been read, it returns at once. `in_any_case`: wait even then, as an original does.
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
