"""K15 and K16: no write without a lease, no decision that delays I/O, and nothing sent before what has arrived is taken in."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import Annotate, Label
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.kernel.requests import Lost
from haulout.kube.lease import Terms
from haulout.runtime.driver import SLICE
from tests.build.desk import Cluster, Desk, Script, steps, targets
from tests.build.examples import examples
from tests.build.fakeapi import refusal
from tests.build.objects import Objects
from tests.build.rows import node
from tests.build.shell import Shell, put_node
from tests.build.virtual import LoopClock, VirtualLoop, virtual

A, B = node_key("a"), node_key("b")
TERMS = Terms(duration=15.0, renew_within=10.0, retry=2.0)


def counting(key: Key, view: View, now: datetime) -> Decision:
    """Want another write as soon as the last one is answered, without end."""
    row = view.get(key, NodeRow)
    number = int(row.labels.get("n", "0")) if row else 0
    return Decision(((Label(key, "n", str(number + 1)),),)) if row else NOTHING


def labelling(key: Key, view: View, now: datetime) -> Decision:
    """Want one write."""
    row = view.get(key, NodeRow)
    return Decision(((Label(key, "n", "1"),),)) if row and "n" not in row.labels else NOTHING


def counter() -> Decider:
    return Decider("counter", "Node", counting)


def objects_with(*names: str, takes: float = 0.7) -> Objects:
    objects = Objects()
    objects.takes = takes
    for name in names:
        put_node(objects, name)
    return objects


# K15


class Watchful(Shell):
    """A shell that asserts at every sending that the lease is ours and outlasts the request."""

    def check(self) -> None:
        assert self.election is not None
        until, ends = self.election.may_write_until(), self.election.lease_ends_at()
        now, _, timeout = self.written[-1]
        assert until is not None, "sent without the lease"
        assert now < until, "sent after the renew deadline"
        assert ends is not None
        assert now + timeout <= ends + 1e-6, "may outlive the lease"


# What goes wrong for how long: nothing, this replica's leases do not answer, it is suspended, all is cut off.
troubles = st.lists(
    st.tuples(st.sampled_from(("none", "leases", "suspended", "all")), st.sampled_from((0.5, 3.0, 9.0, 12.0, 20.0))),
    max_size=8,
)


@settings(max_examples=examples(20), deadline=None, derandomize=True)
@given(st.lists(troubles, min_size=2, max_size=2))
def test_k15_no_write_is_sent_after_the_renew_deadline_nor_outlives_the_lease(
    both: list[list[tuple[str, float]]],
) -> None:
    async def scenario() -> None:
        objects = objects_with("a", "b")
        replicas = [Watchful(objects, counter(), lease=name, terms=TERMS) for name in ("one", "two")]
        for replica in replicas:
            replica.on_write = replica.check
            replica.list()
        async with replicas[0].running(), replicas[1].running():
            async with asyncio.TaskGroup() as group:
                for replica, plan in zip(replicas, both, strict=True):
                    group.create_task(suffer(replica, plan))
            await asyncio.sleep(20)
        assert any(replica.written for replica in replicas)

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


async def suffer(replica: Shell, plan: list[tuple[str, float]]) -> None:
    for trouble, seconds in plan:
        if trouble == "suspended":
            # The clock that runs in suspend has moved on; the loop's has not.
            replica.clock.skew += seconds
        elif trouble != "none":
            replica.via.cut = (lambda path: "/leases" in path) if trouble == "leases" else (lambda path: True)
        await asyncio.sleep(0.1 if trouble == "suspended" else seconds)
        replica.via.cut = lambda path: False
        replica.list()


@virtual
async def test_k15_it_writes_on_to_the_renew_deadline_and_not_beyond() -> None:
    shell = Shell(objects_with("a"), counter(), lease="one", terms=TERMS)
    shell.list()
    async with shell.running():
        await asyncio.sleep(5)
        assert shell.election is not None
        shell.via.cut = lambda path: "/leases" in path
        deadline = shell.election.may_write_until()
        assert deadline is not None
        await asyncio.sleep(30)
        last = shell.written[-1][0]
        assert deadline - 1 < last < deadline
        assert shell.terms == ["gained", "lost"]


@virtual
async def test_k15_whoever_has_lost_the_lease_sleeps() -> None:
    shell = Shell(objects_with("a"), counter(), lease="one", terms=TERMS)
    shell.list()
    looks = 0

    def look() -> None:
        nonlocal looks
        looks += 1

    async with shell.running():
        await asyncio.sleep(5)
        shell.via.cut = lambda path: True
        await asyncio.sleep(30)
        assert shell.terms == ["gained", "lost"]
        shell.driver.before_asking.append(look)
        await asyncio.sleep(120)
        assert looks < 10


@virtual
async def test_k15_a_decision_made_before_a_suspend_is_not_sent_after_it() -> None:
    shell = Shell(objects_with("a"), counter(), lease="one", terms=TERMS)
    shell.list()

    def suspend() -> None:
        # Just after deciding and before sending.
        shell.clock.skew = 60.0 if shell.kernel.actor._outbox.sent else shell.clock.skew

    shell.driver.after_asking.append(suspend)
    async with shell.running():
        await asyncio.sleep(3)
        assert shell.kernel.loop.askings
        assert shell.clock.skew
        assert not shell.written


@virtual
async def test_k15_leadership_is_asked_once_for_a_decision_and_once_for_its_write() -> None:
    asked: list[float] = []

    def may_write_for() -> float:
        asked.append(shell.clock.monotonic())
        return 10.0

    shell = Shell(objects_with("a"), Decider("once", "Node", labelling), may_write_for=may_write_for)
    shell.list()
    async with shell.running():
        await asyncio.sleep(3)
        assert len(shell.written) == 1
        assert len(asked) == 2


@virtual
async def test_k13_no_write_leaves_while_the_server_asks_for_a_pause() -> None:
    objects = objects_with(*(f"n{number}" for number in range(100)))
    shell = Shell(objects, Decider("once", "Node", labelling))
    shell.list()
    objects.faults += [refusal(429, "TooManyRequests", retry_after="20")]
    async with shell.running():
        await asyncio.sleep(19)
        # Those that were under way when the server asked for it; all others waited for their turn.
        assert len(shell.written) == 32
        await asyncio.sleep(10)
        assert len(shell.written) == 101
        assert all(sent_at < 1 or sent_at > 20 for sent_at, _, _ in shell.written)


@virtual
async def test_k15_who_does_not_lead_decides_nothing_and_sends_nothing() -> None:
    objects = objects_with("a")
    leader = Shell(objects, lease="one", terms=TERMS)
    follower = Shell(objects, counter(), lease="two", terms=TERMS)
    leader.list()
    async with leader.running():
        await asyncio.sleep(1)
        follower.list()
        async with follower.running():
            await asyncio.sleep(30)
            assert not follower.kernel.loop.askings
            assert not follower.written


def test_k15_leadership_gained_is_a_start() -> None:
    """Back-offs, delays, unknown writes and writes under way: a new term begins with none of them, and asks all subjects."""
    script = Script()
    world = Cluster(*(node(name) for name in "abcd"))
    desk = Desk(script.decider, world=world).begin()
    for name in "abcd":
        script.wishes[node_key(name)] = steps(Label(node_key(name), "x", "1"))
    desk.poke(script)
    by_target = dict(zip(targets(desk.tray), list(desk.tray), strict=True))
    desk.meet(by_target[A], "422")
    desk.meet(by_target[B], "lost")
    asked = {name: script.times(node_key(name)) for name in "abcd"}
    desk.kernel.follow()
    desk.poke(script)
    assert {name: script.times(node_key(name)) for name in "abcd"} == asked, "asked while another leads"
    for name in "cd":
        desk.answer(by_target[node_key(name)], Lost("gave up"))
    desk.kernel.lead()
    desk.run()
    assert all(script.times(node_key(name)) > asked[name] for name in "abcd")
    assert {A, B} <= {*targets(desk.tray)}


def test_k15_keys_that_came_and_went_while_another_led_are_known_when_leadership_is_gained() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a")))
    desk.kernel.follow()
    desk.begin()
    desk.world.put(node("b"))
    desk.world.put(node("c"))
    desk.world.delete(A)
    desk.watch()
    desk.world.delete(B)
    desk.watch()
    desk.kernel.lead()
    desk.run()
    assert [key.name for _, key in script.asked] == ["c"]
    assert desk.store.table("", "Hold/script").listing is Listing.LISTED


# K16

MANY = 5_000


class SlowClock(LoopClock):
    """A clock on which each decision takes a millisecond."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.spent


@virtual
async def test_k16_io_runs_every_ten_milliseconds_also_with_five_thousand_keys_due() -> None:
    clock = SlowClock()

    def decide(key: Key, view: View, now: datetime) -> Decision:
        clock.spent += 0.001
        return NOTHING

    shell = Shell(Objects(), Decider("slow", "Node", decide))
    shell.driver._clock = clock
    store = shell.kernel.store
    store.begin_list("", "Node")
    for number in range(MANY):
        store.put(node(f"n{number}"))
    store.end_list("", "Node", 1)
    turns = [0]

    async def io() -> None:
        while shell.kernel.loop.askings < MANY:
            await asyncio.sleep(0)
            turns.append(shell.kernel.loop.askings)

    async with shell.running():
        await io()
    assert SLICE == 0.010
    assert max(later - earlier for earlier, later in pairwise(turns)) <= 11
    assert turns[-1] == MANY


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe()
    yield reading, writing
    os.close(writing)


def test_k16_after_a_stall_it_takes_in_what_has_arrived_before_it_sends(pipe: tuple[int, int]) -> None:
    """While the decision is made, bytes arrive that make it wrong; they are read before anything is sent."""
    reading, writing = pipe
    script = Script()
    told = [b"changed\n"]

    def stall(view: View, now: datetime) -> Decision:
        if told:
            os.write(writing, told.pop())
            return steps(Annotate(A, "x", "1"))
        return NOTHING

    async def scenario() -> None:
        shell = Shell(objects_with("a"), script.decider)
        shell.list()
        reader = asyncio.StreamReader()
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb", 0)
        )

        async def reflector() -> None:
            await reader.readline()
            shell.kernel.store.put(node("a", version=99, changed="1"))
            shell.wake.stir()

        script.wishes[A] = stall
        watching = asyncio.create_task(reflector())
        async with shell.running():
            await asyncio.sleep(1)
            await watching
            assert not shell.written
            assert script.times(A) == 2
        transport.close()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(scenario())


@virtual
async def test_k16_renewals_wait_for_no_decision() -> None:
    """Thousands of keys are due all the time, and each decision takes a while: the lease is renewed all the same."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)

    def decide(key: Key, view: View, now: datetime) -> Decision:
        loop._jumping.now += 0.001
        row = view.get(key, NodeRow)
        return Decision(until=now) if row else NOTHING

    shell = Shell(Objects(), Decider("busy", "Node", decide), lease="one", terms=TERMS)
    store = shell.kernel.store
    store.begin_list("", "Node")
    for number in range(50):
        store.put(node(f"n{number}"))
    store.end_list("", "Node", 1)
    async with shell.running():
        await asyncio.sleep(30)
    assert shell.terms == ["gained", "lost"]
    renewals = [asked.at for asked in shell.objects.asked if "/leases" in asked.path]
    assert max(later - earlier for earlier, later in pairwise(renewals)) < 2.5
