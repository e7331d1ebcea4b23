"""Connections that a server resets at once: what closes with them belongs to them alone."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from haulout.kube.errors import KubeError
from haulout.kube.http1.connector import Connector
from haulout.kube.http1.failures import WireError

AT_ONCE, ROUNDS = 8, 40
RESET_AT_CLOSE = struct.pack("ii", 1, 0)


@pytest.fixture
def resetting() -> Iterator[int]:
    """The port of a server that resets each connection as soon as it is there."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
                connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


async def fate(connector: Connector) -> Exception | None:
    """Open a connection and end it. Return its error, which holds what the attempt was made of."""
    try:
        (await connector.open(5)).abort()
    except (KubeError, WireError, OSError) as error:
        return error
    return None


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop], ids=["uvloop", "asyncio"])
def test_a_connection_that_is_reset_closes_no_descriptor_of_others(
    loop: Callable[[], asyncio.AbstractEventLoop], scheme: str, resetting: int
) -> None:
    connector = Connector(f"{scheme}://127.0.0.1:{resetting}", tls=ssl.create_default_context())

    async def rounds() -> tuple[int, int]:
        closed, before = 0, 0
        for number in range(ROUNDS):
            fates = await asyncio.gather(*(fate(connector) for _ in range(AT_ONCE)))
            others = [os.open(os.devnull, os.O_RDONLY) for _ in range(AT_ONCE + 4)]
            await asyncio.sleep(0)
            del fates
            gc.collect()
            await asyncio.sleep(0)
            still = [each for each in others if is_open(each)]
            closed += len(others) - len(still)
            for each in still:
                os.close(each)
            before = descriptors() if number == 1 else before
        return closed, descriptors() - before

    with asyncio.Runner(loop_factory=loop) as runner:
        closed, more = runner.run(rounds())
    assert closed == 0
    assert more < AT_ONCE
