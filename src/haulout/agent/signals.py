"""SIGTERM, which is remembered: the step that runs is not disturbed, the next one is not started."""

from __future__ import annotations

import contextlib
import os
import select
import signal

from haulout.agent import console


class Termination:
    """Whether the agent has been asked to end."""

    def __init__(self) -> None:
        self.has_come = False

    def install(self) -> None:
        """Handle SIGTERM, and SIGINT in the same way: a step runs in a session that the terminal does not reach."""
        signal.signal(signal.SIGTERM, self._handle)
        signal.signal(signal.SIGINT, self._handle)

    def wait(self, seconds: float) -> None:
        """Sleep until a signal arrives, for so many seconds at most."""
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

    def _handle(self, *_: object) -> None:
        self.has_come = True
        console.say("Received SIGTERM, finishing the current step", is_error=True)
