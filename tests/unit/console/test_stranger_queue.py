"""The queue of tokens that have never been proven."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from haulout.console.stranger_queue import QueueFull, StrangerQueue

NEVER = 1 / 3600


def knock(queue: StrangerQueue, addresses: Iterable[str]) -> list[asyncio.Task[None]]:
    return [asyncio.create_task(queue.turn(address), name=address) for address in addresses]


async def pause() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def fates(tasks: list[asyncio.Task[None]]) -> tuple[int, int, int]:
    """Return how many have passed, wait and were refused."""
    over = [task.exception() for task in tasks if task.done()]
    refused = [each for each in over if isinstance(each, QueueFull)]
    assert all(each.seconds > 0 for each in refused)
    return over.count(None), len(tasks) - len(over), len(refused)


async def test_some_pass_at_once_some_wait_and_the_rest_is_refused() -> None:
    tasks = knock(StrangerQueue(NEVER, burst=5, most=10), ["a"] * 100)
    await pause()
    assert fates(tasks) == (5, 10, 85)


async def test_an_address_with_many_makes_room_for_another() -> None:
    queue = StrangerQueue(NEVER, burst=5, most=10)
    many = knock(queue, ["a"] * 100)
    await pause()
    few = knock(queue, ["b", "b", "c"])
    await pause()
    assert (fates(many), fates(few)) == ((5, 7, 88), (0, 3, 0))


async def test_addresses_take_turns() -> None:
    passed: list[str] = []
    queue = StrangerQueue(1000.0, burst=1, most=100)
    tasks = knock(queue, ["x", *"aaa", *"bb", "c"])
    for task in tasks:
        task.add_done_callback(lambda done: passed.append(done.get_name()))
    await asyncio.wait(tasks)
    assert passed == ["x", "a", "b", "c", "a", "b", "a"]


async def test_a_caller_who_leaves_gives_the_place_back() -> None:
    queue = StrangerQueue(NEVER, burst=1, most=1)
    tasks = knock(queue, ["x", "a"])
    await pause()
    tasks[1].cancel()
    await asyncio.wait(tasks[1:])
    assert len(queue) == 0
