"""Runs commands so that Ctrl-C ends them without a traceback."""

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_command(command: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end. Ctrl-C cancels it and raises KeyboardInterrupt. A second Ctrl-C ends it at once.

    The handler of `asyncio.run` cancels at any point of the program, even within a callback that is about to set the
    result of the future that was just cancelled. The callback then fails with a traceback. The handler here cancels
    between two callbacks.
    """
    if threading.current_thread() is not threading.main_thread():
        return asyncio.run(command)
    interrupted = False

    async def interruptible() -> T:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def interrupt() -> None:
            nonlocal interrupted
            interrupted = True
            loop.remove_signal_handler(signal.SIGINT)
            task.cancel()

        loop.add_signal_handler(signal.SIGINT, interrupt)
        return await command

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        if interrupted:
            raise KeyboardInterrupt from None
        raise
