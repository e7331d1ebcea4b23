"""Handles SIGTERM and SIGINT: the running step is allowed to finish, and the next one is not started."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType

from haulout.agent import console


class Termination:
    """A record of whether SIGTERM or SIGINT has arrived."""

    def __init__(self) -> None:
        self.has_come = False

    def install(self) -> None:
        """Handle SIGTERM and SIGINT. Steps run in another session, where SIGINT from a terminal does not reach them."""
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)

    def wait(self, seconds: float) -> None:
        """Sleep until a signal arrives, but at most for so many seconds."""
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        try:
            if not self.has_come:
                poll = select.poll()
                poll.register(reading, select.POLLIN)
                poll.poll(seconds * 1000)
        finally:
            signal.set_wakeup_fd(before)
            with contextlib.suppress(OSError):
                os.close(reading)
                os.close(writing)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.has_come = True
        console.say(f"Received {signal.Signals(number).name}, finishing the current step", is_error=True)
