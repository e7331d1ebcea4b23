"""Expensive work for other clusters takes turns, and no more than its share of the time."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from aiohttp import web

from haulout.kube.bounds import AWAY, LONG, Text
from haulout.kube.endpoint import Endpoint
from haulout.kube.excerpt import SLICE, Shape
from haulout.kube.http import HttpTransport
from haulout.kube.turns import GRANT, TIMERS, Allowance, Shared, Turns
from tests.build.server import serve
from tests.build.virtual import LoopClock, virtual

PAUSE = 0.01


def takes(seconds: float) -> None:
    """Keep the event loop, which is virtual, busy for so long."""
    loop = asyncio.get_running_loop()
    loop._jumping.now += seconds  # type: ignore[attr-defined]


@virtual
async def test_turns_are_taken_in_order_with_a_pause_between_them() -> None:
    turns, taken = Turns(PAUSE), list[tuple[str, float]]()

    async def work(name: str) -> None:
        async with turns.turn():
            taken.append((name, round(asyncio.get_running_loop().time(), 3)))

    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(work(name))
    assert taken == [("a", 0.0), ("b", 0.01), ("c", 0.02)]


@virtual
async def test_the_lowest_rank_is_next_when_the_pause_is_over() -> None:
    turns, taken = Turns(PAUSE), list[str]()

    async def work(name: str, rank: float) -> None:
        async with turns.turn(rank):
            taken.append(name)

    async with asyncio.TaskGroup() as group:
        for name, rank in (("a", 3), ("b", 3), ("c", 3)):
            group.create_task(work(name, rank))
        await asyncio.sleep(PAUSE / 2)
        group.create_task(work("d", 1))
    assert taken == ["a", "d", "b", "c"]


@virtual
async def test_one_that_is_cancelled_with_the_turn_in_hand_gives_it_back() -> None:
    turns, taken = Turns(PAUSE), list[str]()
    async with turns.turn():
        pass

    async def work(name: str) -> None:
        async with turns.turn():
            taken.append(name)

    async with asyncio.TaskGroup() as group:
        first = group.create_task(work("a"))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(PAUSE, first.cancel)
        group.create_task(work("b"))
    assert taken == ["b"]


@virtual
async def test_a_burst_of_a_quiet_cluster_does_not_wait_behind_those_that_are_always_busy() -> None:
    turns, loop, clock = Turns(PAUSE), asyncio.get_running_loop(), LoopClock()

    async def be_busy() -> None:
        allowance = Allowance(turns, clock, lambda: 0.0)
        while True:
            await allowance.wait()
            allowance.spend(GRANT)

    async with asyncio.TaskGroup() as group:
        busy = [group.create_task(be_busy()) for _ in range(50)]
        await asyncio.sleep(60)
        quiet, began_at = Allowance(turns, clock, lambda: 0.0), loop.time()
        for _ in range(10):
            await quiet.wait()
            quiet.spend(GRANT)
        took = loop.time() - began_at
        for task in busy:
            task.cancel()
    assert took <= 11 * PAUSE


@virtual
async def test_costly_turns_take_no_more_than_their_share_of_the_time() -> None:
    turns, loop, spent = Turns(PAUSE, rest=4), asyncio.get_running_loop(), 0.0
    for _ in range(10):
        async with turns.turn():
            takes(0.1)
            spent += 0.1
    assert spent / loop.time() == pytest.approx(10 / 46)


@virtual
async def test_pause_is_longer_when_the_event_loop_is_late() -> None:
    turns, loop = Turns(PAUSE, rest=9), asyncio.get_running_loop()
    async with turns.turn():
        pass
    loop.call_later(PAUSE / 2, takes, 0.1)
    async with turns.turn():
        late_at = loop.time()
    async with turns.turn():
        pass
    assert late_at == pytest.approx(PAUSE / 2 + 0.1)
    assert loop.time() - late_at == pytest.approx(9 * (0.1 - PAUSE / 2 - TIMERS))


@virtual
async def test_one_who_gives_up_waiting_leaves_the_turn_to_the_next() -> None:
    turns, taken = Turns(PAUSE), list[str]()

    async def work(name: str) -> None:
        async with turns.turn():
            taken.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(work("a"))
        waiting = group.create_task(work("b"))
        group.create_task(work("c"))
        await asyncio.sleep(PAUSE / 2)
        waiting.cancel()
    assert taken == ["a", "c"]


@pytest.mark.parametrize("keep", [None, Shape()], ids=["held whole", "read in part"])
def test_long_texts_of_all_take_turns(keep: Shape | None) -> None:
    @virtual
    async def run() -> None:
        turns, loop = Turns(PAUSE), asyncio.get_running_loop()

        async def read() -> None:
            text = Text("GET x", AWAY.object if keep else AWAY.body, AWAY.most, keep, turns)
            for _ in range(8):
                await text.add(b'"' + b"a" * (SLICE - 2) + b'"')

        async with asyncio.TaskGroup() as group:
            group.create_task(read())
            group.create_task(read())
        assert loop.time() >= 2 * 3 * PAUSE

    run()


@virtual
async def test_ordinary_texts_wait_for_no_turn() -> None:
    turns = Turns(PAUSE)
    for _ in range(100):
        await Text("GET x", AWAY.body, turns=turns).add(b"a" * LONG)
    assert asyncio.get_running_loop().time() == 0


async def test_connections_to_other_clusters_are_opened_in_turns() -> None:
    shared, loop, opened = Shared(), asyncio.get_running_loop(), list[float]()
    shared.connecting = Turns(PAUSE)

    async def handle(request: web.Request) -> web.Response:
        opened.append(loop.time())
        return web.Response(body=msgspec.json.encode({}))

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    async with serve(app, None) as url:
        ways = [
            HttpTransport(Endpoint(name="e", server=url), LoopClock(), bounds=AWAY, shared=shared) for _ in range(5)
        ]
        began_at = loop.time()
        await asyncio.gather(*(way.request("GET", "/version") for way in ways))
        first, last = min(opened), max(opened)
        await asyncio.gather(*(way.request("GET", "/version") for way in ways))
        await asyncio.gather(*(way.close() for way in ways))
    assert last - began_at >= 4 * PAUSE
    assert len(opened) == 10
    assert first < last


async def test_cluster_that_is_being_watched_waits_for_no_turn_when_it_is_written_to() -> None:
    shared = Shared()
    shared.connecting = Turns(3600)

    async def watch(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}\n")
        await asyncio.Event().wait()
        return response

    async def write(request: web.Request) -> web.Response:
        return web.Response(body=b"{}")

    app = web.Application()
    app.router.add_get("/watch", watch)
    app.router.add_patch("/write", write)
    async with serve(app, None) as url:
        way = HttpTransport(Endpoint(name="e", server=url), LoopClock(), bounds=AWAY, shared=shared)
        async with way.stream("/watch") as lines:
            assert await anext(lines) == b"{}\n"
            reply = await way.request("PATCH", "/write", body=b"{}", timeout=10)
        await way.close()
    assert reply.status == 200
