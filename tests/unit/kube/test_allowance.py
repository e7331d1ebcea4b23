"""Work for another cluster stays within its allowance, or waits for turns."""

from __future__ import annotations

import asyncio

import pytest

from haulout.kube.turns import (
    DECIDING_SHARE,
    GRANT,
    GRANT_EVERY,
    MOST_DECIDING,
    MOST_SAVED,
    PER_BYTE,
    SHARE,
    Allowance,
    Turns,
)
from tests.build.virtual import LoopClock, virtual


class Processor:
    """The processor time of this thread, which passes only when the test says so."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def allowance(turns: Turns, processor: Processor) -> Allowance:
    return Allowance(turns, LoopClock(), processor)


async def work(allowance: Allowance, processor: Processor, seconds: float, length: int = 0) -> None:
    await allowance.wait()
    began = allowance.begin()
    processor.time += seconds
    allowance.end(began, length)


@virtual
async def test_all_that_are_always_busy_take_no_more_than_a_twentieth_of_the_time_beside_their_shares() -> None:
    turns, processor, loop = Turns(GRANT_EVERY), Processor(), asyncio.get_running_loop()

    async def keep_busy(costs: float) -> None:
        own = allowance(turns, processor)
        while loop.time() < 100:
            await work(own, processor, costs)

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(keep_busy(0.0001 * 2**number))
    shares = 10 * SHARE * loop.time()
    assert processor.time <= loop.time() / 20 + shares + sum(0.0001 * 2**number for number in range(10))
    assert processor.time >= loop.time() / 20 * 0.9


@virtual
async def test_quiet_one_waits_for_nobody_however_many_are_busy() -> None:
    turns, processor, loop = Turns(GRANT_EVERY), Processor(), asyncio.get_running_loop()

    async def keep_busy() -> None:
        own = allowance(turns, processor)
        while True:
            await work(own, processor, 0.01)

    quiet = allowance(turns, processor)
    busy = [asyncio.create_task(keep_busy()) for _ in range(50)]
    await asyncio.sleep(10)
    waits = []
    for _ in range(100):
        began_at = loop.time()
        await work(quiet, processor, SHARE / 10)
        waits.append(loop.time() - began_at)
        await asyncio.sleep(0.1)
    for task in busy:
        task.cancel()
    assert max(waits) == 0


@virtual
async def test_those_that_begin_at_once_take_turns() -> None:
    turns, processor, loop = Turns(GRANT_EVERY), Processor(), asyncio.get_running_loop()
    await asyncio.gather(*(work(allowance(turns, processor), processor, GRANT) for _ in range(50)))
    assert loop.time() == pytest.approx(49 * GRANT_EVERY)


@virtual
async def test_costly_work_is_made_up_for_before_the_next() -> None:
    turns, processor, loop = Turns(GRANT_EVERY), Processor(), asyncio.get_running_loop()
    own = allowance(turns, processor)
    await work(own, processor, 10 * GRANT)
    began_at = loop.time()
    await work(own, processor, 0)
    assert loop.time() - began_at >= 9 * GRANT_EVERY


@virtual
async def test_receiving_many_bytes_is_work() -> None:
    turns, processor, loop = Turns(GRANT_EVERY), Processor(), asyncio.get_running_loop()
    own = allowance(turns, processor)
    await work(own, processor, 0, length=round(10 * GRANT / PER_BYTE))
    began_at = loop.time()
    await work(own, processor, 0)
    assert loop.time() - began_at >= 9 * GRANT_EVERY


@virtual
async def test_no_more_than_a_little_is_saved_up() -> None:
    turns, processor, loop = Turns(GRANT_EVERY), Processor(), asyncio.get_running_loop()
    own = allowance(turns, processor)
    await asyncio.sleep(3600)
    await work(own, processor, MOST_SAVED + GRANT / 2)
    # The first turn is there at once, the second after a pause.
    await work(own, processor, GRANT)
    assert loop.time() == 3600
    await work(own, processor, GRANT)
    assert loop.time() > 3600


@virtual
async def test_decisions_that_a_cluster_causes_count_once_they_are_more_than_usual() -> None:
    turns, processor, loop = Turns(GRANT_EVERY), Processor(), asyncio.get_running_loop()
    own = allowance(turns, processor)
    await asyncio.sleep(10)
    own.charge(MOST_DECIDING)
    await work(own, processor, 0)
    assert loop.time() == 10
    own.charge(MOST_SAVED + 10 * GRANT)
    await work(own, processor, 0)
    assert loop.time() >= 10 + 9 * GRANT_EVERY


@virtual
async def test_cluster_that_causes_few_decisions_never_waits_for_them() -> None:
    turns, processor, loop = Turns(GRANT_EVERY), Processor(), asyncio.get_running_loop()
    own = allowance(turns, processor)
    for second in range(1, 1000):
        await asyncio.sleep(second - loop.time())
        own.charge(DECIDING_SHARE)
        await work(own, processor, SHARE / 2)
    assert loop.time() == 999
