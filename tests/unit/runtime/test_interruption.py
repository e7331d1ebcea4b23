"""Commands on an event loop: their results, and what Ctrl-C does to them."""

import asyncio
import signal

import pytest

from haulout.runtime.interruption import run_command


def test_a_command_gives_its_result() -> None:
    async def command() -> int:
        return 3

    assert run_command(command()) == 3
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_ctrl_c_within_a_callback_leaves_the_callback_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The signal comes between a callback's look at a future and its setting of the result, as in a connect."""
    ended = []

    async def command() -> None:
        loop = asyncio.get_running_loop()
        connected = loop.create_future()

        def connect() -> None:
            assert not connected.done()
            signal.raise_signal(signal.SIGINT)
            connected.set_result(None)

        loop.call_soon(connect)
        try:
            await connected
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    with pytest.raises(KeyboardInterrupt):
        run_command(command())
    assert ended == [True]
    assert caplog.records == []


def test_a_second_ctrl_c_does_not_wait() -> None:
    async def command() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            signal.raise_signal(signal.SIGINT)
            pytest.fail("it went on")

    async def interrupted() -> None:
        asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
        await command()

    with pytest.raises(KeyboardInterrupt):
        run_command(interrupted())
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_command_that_cancels_itself_was_not_interrupted() -> None:
    async def command() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        run_command(command())
