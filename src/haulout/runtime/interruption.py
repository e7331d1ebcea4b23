"""Commands that Ctrl-C ends in good order."""

import asyncio
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run_command(command: Coroutine[Any, Any, T]) -> T:
    """Run a command to its end. Ctrl-C cancels it and raises KeyboardInterrupt; a second one does not wait for that.

    The handler of `asyncio.run` cancels wherever the program happens to be: also in the midst of a callback that is about
    to set the result of the future that was just cancelled, which then fails with a traceback. This one cancels
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
