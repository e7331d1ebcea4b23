"""Which connection a request gets: an idle one, one that becomes free, or a new one."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from haulout.kube.http1.connection import Connection
from haulout.kube.http1.connector import Connector
from haulout.kube.http1.failures import NotConnected
from haulout.kube.pools import KEPT_FOR, OPENED_AT_ONCE, Pool
from tests.build.virtual import virtual


class Opened:
    """A connection without a network."""

    def __init__(self) -> None:
        self.can_be_used_again = True
        self.is_lost = self.is_closed = False
        self.idle_since = 0.0

    def close(self) -> None:
        self.is_closed = True

    abort = close


class Opener:
    """A connector whose connections open when they are allowed to."""

    def __init__(self) -> None:
        self.opening: list[asyncio.Future[Opened]] = []

    async def open(self, within: float) -> Opened:
        self.opening.append(asyncio.get_running_loop().create_future())
        return await self.opening[-1]


async def nothing() -> None:
    pass


def pool() -> tuple[Pool, Opener]:
    opener = Opener()
    return Pool((None, None), cast("Connector", opener), nothing), opener


async def settled() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


def asked(made: Pool, count: int) -> list[asyncio.Task[Connection]]:
    return [asyncio.create_task(made.connection()) for _ in range(count)]


@virtual
async def test_burst_opens_a_few_connections_and_uses_them_in_turn() -> None:
    made, opener = pool()
    tasks = asked(made, 10)
    await settled()
    assert len(opener.opening) == OPENED_AT_ONCE
    first = Opened()
    opener.opening[0].set_result(first)
    await settled()
    assert tasks[0].result() is cast("Connection", first)
    for task in tasks[2:]:
        made.free(cast("Connection", first))
        await settled()
        if task.done():
            assert task.result() is cast("Connection", first)
    assert sum(task.done() for task in tasks) == 8
    assert len(opener.opening) == OPENED_AT_ONCE + 1
    for future in opener.opening[1:]:
        future.set_result(Opened())
    await asyncio.gather(*tasks)


@virtual
async def test_stream_opens_its_connection_at_once() -> None:
    made, opener = pool()
    tasks = [asyncio.create_task(made.connection(fresh=True)) for _ in range(5)]
    await settled()
    assert len(opener.opening) == 5
    for future in opener.opening:
        future.set_result(Opened())
    await asyncio.gather(*tasks)


@virtual
async def test_failure_to_connect_concerns_one_request() -> None:
    made, opener = pool()
    tasks = asked(made, 4)
    await settled()
    opener.opening[0].set_exception(NotConnected("no"))
    await settled()
    with pytest.raises(NotConnected):
        await tasks[0]
    assert len(opener.opening) == OPENED_AT_ONCE + 1, "the next one opens its own"
    for number in (1, 2):
        opener.opening[number].set_result(Opened())
        await settled()
    opener.opening[3].set_result(Opened())
    await asyncio.gather(*tasks[1:])


@virtual
async def test_request_that_is_given_up_passes_its_connection_on() -> None:
    made, opener = pool()
    tasks = asked(made, 5)
    await settled()
    first = Opened()
    opener.opening[0].set_result(first)
    await settled()
    waiting = [task for task in tasks if not task.done()]
    made.free(cast("Connection", first))
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert await made.connection() is cast("Connection", first)


@virtual
async def test_what_was_not_read_to_the_end_is_not_used_again() -> None:
    made, opener = pool()
    (task,) = asked(made, 1)
    await settled()
    first = Opened()
    opener.opening[0].set_result(first)
    await task
    first.can_be_used_again = False
    made.free(cast("Connection", first))
    assert first.is_closed


@virtual
async def test_idle_connection_is_closed_after_a_while() -> None:
    made, opener = pool()
    (task,) = asked(made, 1)
    await settled()
    first = Opened()
    opener.opening[0].set_result(first)
    await task
    made.free(cast("Connection", first))
    await asyncio.sleep(KEPT_FOR - 1)
    assert not first.is_closed
    await asyncio.sleep(2)
    assert first.is_closed
