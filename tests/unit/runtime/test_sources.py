"""Clusters: opened when a decision wants them, handed over when their access changes, closed when no decision does."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable

import pytest

from haulout.cluster.key import node_key
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.rows import Connection
from haulout.cluster.store import Listing, Store
from haulout.core.decision import Source
from haulout.kube.errors import ConfigInvalid, ConfigRefused, ConnectionFailed, KubeError
from haulout.kube.transport import Transport
from haulout.kube.turns import GRANT_EVERY, Allowance, Turns
from haulout.model.node import Node, NodeMeta
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import HOME
from haulout.runtime.sources import READ_BURST, READ_LONGEST, READ_REFILL, READ_WITHIN
from haulout.runtime.tables import TakingOver
from tests.build.clock import ManualClock
from tests.build.clusters import FAR, MOST_NODES, Clusters, Way, server
from tests.build.fakeapi import refusal
from tests.build.rows import START, node
from tests.build.virtual import virtual

# Longer than anything that is retried takes to be retried.
LONG = 200.0


@virtual
async def test_what_is_wanted_is_opened_and_what_is_not_is_closed() -> None:
    old = Way(server("a"))
    async with Clusters(old=old).running() as clusters:
        assert (clusters.state, clusters.sources.transport(FAR)) == ("closed", None)
        await clusters.want("old", seconds=0.0001)
        assert (clusters.state, clusters.listing) == (Connection.CONNECTING, Listing.WAITING)
        await asyncio.sleep(1)
        assert (clusters.state, clusters.listing, clusters.nodes) == (Connection.FINE, Listing.LISTED, {"a"})
        assert clusters.sources.transport(FAR) is old
        assert FAR in clusters.sender.writers
        await clusters.want(None)
        assert (clusters.state, clusters.listing, clusters.nodes) == ("closed", Listing.WAITING, set())
        assert old.closed
        assert FAR not in clusters.sender.writers
        assert not clusters.pump.opened()
        assert not clusters.reconnects


@virtual
async def test_it_is_closed_when_the_last_who_wants_it_does_not_any_more() -> None:
    async with Clusters(old=Way(server("a"))).running() as clusters:
        await clusters.want("old", by="one")
        known = clusters.kernel.loop.sources()
        await clusters.want("old", by="two")
        assert clusters.kernel.loop.sources() is known, "the same is wanted, by one more"
        assert clusters.tried == ["old"]
        await clusters.want(None, by="one")
        assert clusters.nodes == {"a"}
        await clusters.want(None, by="two")
        assert clusters.state == "closed"
        assert not clusters.kernel.loop.sources()


# Handing over


@virtual
async def test_the_old_way_is_used_until_everything_was_seen_on_the_new_one() -> None:
    shared = server("a", "b")
    old, new = Way(shared), Way(shared, barred=True)
    async with Clusters(old=old, new=new).running() as clusters:
        await clusters.want("old")
        writer, row = clusters.sender.writers[FAR], clusters.row("a")
        await clusters.want("new", seconds=5)
        assert clusters.sources.transport(FAR) is old
        assert clusters.sender.writers[FAR] is writer
        shared.put("c")
        await asyncio.sleep(1)
        assert clusters.nodes == {"a", "b", "c"}, "what happens meanwhile is seen by the old way"
        assert not old.closed
        clusters.store.take_changes()
        new.open()
        await asyncio.sleep(1)
        assert clusters.sources.transport(FAR) is new
        assert clusters.sender.writers[FAR] is not writer
        assert old.closed
        assert clusters.connection is not None
        assert (clusters.connection.state, clusters.connection.access) == (Connection.FINE, "new")
        assert clusters.reconnects == [(FAR, "rotated")]
        assert clusters.row("a") is row, "what has not changed is not touched"
        assert node_key("a", FAR) not in clusters.store.take_changes()[0]
        shared.put("d")
        await asyncio.sleep(1)
        assert "d" in clusters.nodes


@virtual
async def test_another_server_is_believed_also_where_its_versions_are_lower() -> None:
    first, second = server("a", "b", version=9000), server("b", "c", version=10)
    second.put("b", spec={"unschedulable": True})
    async with Clusters(old=Way(first), new=Way(second)).running() as clusters:
        await clusters.want("old")
        await clusters.want("new")
        assert clusters.nodes == {"b", "c"}
        assert (clusters.row("b").version, clusters.row("b").unschedulable) == (second.version, True)
        second.put("c", spec={"unschedulable": True})
        second.delete("b")
        await asyncio.sleep(1)
        assert clusters.nodes == {"c"}
        assert clusters.row("c").unschedulable


@pytest.mark.parametrize(
    "error, state, said",
    [
        (ConfigRefused("runs a program"), Connection.REJECTED, "runs a program"),
        (ConfigInvalid("no YAML"), Connection.INVALID, "no YAML"),
        (ValueError("no number: s3cr3t"), Connection.INVALID, "it cannot be used (ValueError)"),
    ],
)
def test_an_access_that_cannot_be_used_leaves_the_old_one_at_work(
    error: Exception, state: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    @virtual
    async def scenario() -> None:
        shared = server("a")
        old = Way(shared)
        async with Clusters(old=old, bad=error, new=Way(shared)).running() as clusters:
            await clusters.want("old")
            await clusters.want("bad")
            assert (clusters.state, clusters.listing) == (state, Listing.LISTED)
            assert clusters.connection is not None
            assert clusters.connection.error == said
            assert "s3cr3t" not in caplog.text
            assert clusters.connection.access == "old"
            shared.put("b")
            await asyncio.sleep(LONG)
            assert clusters.nodes == {"a", "b"}
            assert clusters.tried == ["old", "bad"], "as it stands, it can never work"
            await clusters.want("old")
            assert (clusters.state, clusters.tried) == (Connection.FINE, ["old", "bad"])
            assert not clusters.reconnects
            await clusters.want("bad")
            await clusters.want("new")
            assert (clusters.state, clusters.reconnects) == (Connection.FINE, [(FAR, "rotated")])

    scenario()


@pytest.mark.parametrize(
    "fault", [refusal(401, "Unauthorized"), refusal(403, "Forbidden"), ConnectionFailed("refused"), KeyError("odd")]
)
def test_an_access_that_leads_nowhere_leaves_the_old_one_at_work(fault: Exception) -> None:
    @virtual
    async def scenario() -> None:
        shared = server("a")
        old, new = Way(shared), Way(shared, fault=fault)
        async with Clusters(old=old, new=new).running() as clusters:
            await clusters.want("old")
            await clusters.want("new", seconds=LONG)
            shared.put("b")
            await asyncio.sleep(1)
            assert (clusters.listing, clusters.nodes) == (Listing.LISTED, {"a", "b"})
            assert clusters.sources.transport(FAR) is old
            assert clusters.state == Connection.ASTRAY
            new.fault = None
            await asyncio.sleep(LONG)
            assert clusters.sources.transport(FAR) is new
            assert (clusters.state, clusters.reconnects) == (Connection.FINE, [(FAR, "rotated")])

    scenario()


@virtual
async def test_what_was_refused_is_not_said_of_the_access_that_came_after_it() -> None:
    shared = server("a")
    new = Way(shared, fault=refusal(401, "Unauthorized"))
    async with Clusters(old=Way(shared), bad=ConfigRefused("runs a program"), new=new).running() as clusters:
        await clusters.want("old")
        await clusters.want("bad")
        await clusters.want("new", seconds=LONG)
        assert clusters.state == Connection.ASTRAY
        await clusters.want("old")
        assert clusters.state == Connection.FINE


@virtual
async def test_a_cluster_that_never_answered_is_reached_by_another_access() -> None:
    old = Way(server("wrong"), fault=ConnectionFailed("refused"))
    async with Clusters(old=old, new=Way(server("a"))).running() as clusters:
        await clusters.want("old", seconds=LONG)
        assert clusters.listing is Listing.UNREADABLE
        await clusters.want("new")
        assert (clusters.state, clusters.nodes) == (Connection.FINE, {"a"})
        assert clusters.store.table(FAR, "Node").listing is Listing.LISTED
        assert old.closed


@virtual
async def test_an_access_that_changes_again_meanwhile_is_not_waited_for() -> None:
    shared = server("a")
    old, second, third = Way(shared), Way(shared, barred=True), Way(shared, barred=True)
    async with Clusters(old=old, second=second, third=third).running() as clusters:
        await clusters.want("old")
        await clusters.want("second")
        await clusters.want("third")
        assert second.closed
        third.open()
        await asyncio.sleep(1)
        assert clusters.sources.transport(FAR) is third
        assert old.closed
        assert clusters.reconnects == [(FAR, "rotated")]


@virtual
async def test_an_access_that_changes_back_meanwhile_does_not_take_over() -> None:
    shared = server("a")
    old, new = Way(shared), Way(shared, barred=True)
    async with Clusters(old=old, new=new).running() as clusters:
        await clusters.want("old")
        await clusters.want("new")
        await clusters.want("old")
        assert new.closed
        await asyncio.sleep(LONG)
        assert clusters.sources.transport(FAR) is old
        assert (clusters.state, clusters.reconnects) == (Connection.FINE, [])


@virtual
async def test_what_is_closed_while_it_is_handed_over_is_closed_both_ways() -> None:
    shared = server("a")
    old, new = Way(shared), Way(shared, barred=True)
    async with Clusters(old=old, new=new).running() as clusters:
        await clusters.want("old")
        await clusters.want("new")
        await clusters.want(None)
        assert old.closed
        assert new.closed
        await asyncio.sleep(LONG)
        assert (clusters.state, clusters.nodes, clusters.listing) == ("closed", set(), Listing.WAITING)
        assert not clusters.reconnects


@pytest.mark.parametrize("before, after", [("a", "b"), ("b", "a")])
def test_while_not_everybody_has_heard_of_a_new_access_it_is_the_one_to_use(before: str, after: str) -> None:
    @virtual
    async def scenario() -> None:
        shared = server("a")
        ways = {before: Way(shared), after: Way(shared)}
        async with Clusters(**ways).running() as clusters:
            await clusters.want(before, by="one")
            await clusters.want(before, by="two")
            await clusters.want(after, by="two")
            assert clusters.sources.transport(FAR) is ways[after]
            await clusters.want(after, by="one")
            assert clusters.sources.transport(FAR) is ways[after]
            assert clusters.reconnects == [(FAR, "rotated")]

    scenario()


# What cannot be opened at all


@virtual
async def test_an_access_that_is_refused_is_told_and_not_tried_again() -> None:
    refused = ConfigRefused("runs a program")
    ways: dict[str, Way | KubeError] = {"bad": refused, "new": Way(server("a")), "else": Way(server())}
    async with Clusters(**ways).running() as clusters:
        await clusters.want("bad", seconds=LONG)
        assert (clusters.state, clusters.listing) == (Connection.REJECTED, Listing.WAITING)
        await clusters.want("bad", by="two")
        await clusters.want("else", by="three", cluster="other")
        assert clusters.tried == ["bad", "else"]
        await clusters.want("new", by="one", seconds=0)
        await clusters.want("new", by="two")
        assert (clusters.state, clusters.nodes) == (Connection.FINE, {"a"})
        assert not clusters.reconnects


@virtual
async def test_nothing_is_left_of_one_that_was_refused() -> None:
    async with Clusters(bad=ConfigInvalid("no YAML")).running() as clusters:
        await clusters.want("bad")
        await clusters.want(None)
        assert clusters.state == "closed"
        await clusters.want("bad")
        assert clusters.tried == ["bad", "bad"]


# How one gets on with it


@virtual
async def test_a_network_that_fails_and_comes_back_is_a_reconnect() -> None:
    far = server("a")
    way = Way(far)
    async with Clusters(old=way).running() as clusters:
        await clusters.want("old")
        way.fault = ConnectionFailed("refused")
        far.cut()
        await asyncio.sleep(LONG)
        assert clusters.connection is not None
        since = clusters.connection.since
        assert (clusters.state, clusters.listing) == ("unreachable", Listing.UNREADABLE)
        await asyncio.sleep(LONG)
        assert clusters.connection.since == since
        way.fault = None
        await asyncio.sleep(80)
        assert (clusters.state, clusters.reconnects) == (Connection.FINE, [(FAR, "network")])
        assert clusters.listing is Listing.LISTED


@virtual
async def test_credentials_that_expire_and_work_again_are_a_reconnect_of_their_own() -> None:
    far = server("a")
    way = Way(far)
    async with Clusters(old=way).running() as clusters:
        await clusters.want("old")
        way.fault = refusal(401, "Unauthorized")
        far.cut()
        await asyncio.sleep(LONG)
        assert clusters.state == "unauthorized"
        way.fault = None
        await asyncio.sleep(80)
        assert (clusters.state, clusters.reconnects) == (Connection.FINE, [(FAR, "unauthorized")])


@virtual
async def test_a_connection_that_dies_in_silence_is_found_out_within_a_minute() -> None:
    far = server("a")
    async with Clusters(old=Way(far)).running() as clusters:
        await clusters.want("old")
        for stream in far.streams:
            stream.stalled = True
        far.put("b")
        await asyncio.sleep(60)
        assert clusters.nodes == {"a", "b"}


@virtual
async def test_watches_that_end_and_versions_that_grow_old_are_no_reconnect() -> None:
    far = server("a")
    async with Clusters(old=Way(far)).running() as clusters:
        await clusters.want("old", seconds=LONG)
        far.put("b")
        far.compact()
        far.gone_by_http = True
        await asyncio.sleep(LONG)
        assert (clusters.state, clusters.nodes, clusters.reconnects) == (Connection.FINE, {"a", "b"}, [])


@virtual
async def test_one_that_is_opened_again_was_not_lost() -> None:
    async with Clusters(old=Way(server("a")), new=Way(server("a"))).running() as clusters:
        await clusters.want("old")
        await clusters.want(None)
        await clusters.want("new")
        assert (clusters.state, clusters.reconnects) == (Connection.FINE, [])


# How much is read


@virtual
async def test_cluster_with_too_many_nodes_is_unreadable_until_there_are_fewer() -> None:
    far = server("a")
    async with Clusters(old=Way(far)).running() as clusters:
        await clusters.want("old")
        for number in range(MOST_NODES):
            far.put(f"n{number}")
        await asyncio.sleep(LONG)
        assert (clusters.state, clusters.listing) == ("overfull", Listing.UNREADABLE)
        assert clusters.connection is not None
        assert f"more than {MOST_NODES} nodes" in clusters.connection.error
        assert len(clusters.nodes) <= MOST_NODES + 1
        far.delete("n7")
        await asyncio.sleep(LONG)
        assert (clusters.state, clusters.listing) == (Connection.FINE, Listing.LISTED)
        assert len(clusters.nodes) == MOST_NODES


class Steady:
    """A processor clock on which each reading shows another 100 µs."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        self.time += 0.0001
        return self.time


@virtual
async def test_large_cluster_enters_and_leaves_the_store_in_slices() -> None:
    names = [f"{letter}{number}" for letter in "ab" for number in range(MOST_NODES)]
    old, new = server(*names[:MOST_NODES], version=9000), server(*names[MOST_NODES:])
    async with Clusters(old=Way(old), new=Way(new)).running() as clusters:
        clusters.pump._allowances[FAR] = Allowance(Turns(GRANT_EVERY), clusters.clock, Steady())
        slices: list[int] = []

        async def look() -> None:
            while True:
                slices.append(len(clusters.store.take_changes()[0]))
                await asyncio.sleep(GRANT_EVERY / 2)

        await clusters.want("old", seconds=0)
        looking = asyncio.create_task(look())
        await asyncio.sleep(20)
        assert clusters.nodes == set(names[:MOST_NODES])
        looking.cancel()
        await clusters.want("new", seconds=0)
        looking = asyncio.create_task(look())
        await asyncio.sleep(20)
        looking.cancel()
        assert clusters.nodes == set(names[MOST_NODES:])
        assert max(slices) <= HOME.batch


# Who takes over


def gathering() -> tuple[TakingOver, Store, list[str]]:
    store, done = Store(), list[str]()
    store.begin_list(FAR, "Node")
    store.put(node("old", cluster=FAR))
    store.end_list(FAR, "Node", 1)
    given = (store, Projector(RESOURCES["Node"], FAR, Keep()), ManualClock(START), Metrics(), lambda: None)
    return TakingOver(*given, over=lambda: done.append("over")), store, done


def seen(name: str, version: int = 5) -> Node:
    return Node(metadata=NodeMeta(name=name, resource_version=str(version)))


def test_who_takes_over_touches_nothing_before_it_has_seen_it_all() -> None:
    sink, store, done = gathering()
    sink.begin()
    sink.put(seen("abandoned"))
    sink.begin()
    sink.put(seen("a"))
    sink.put(seen("b"))
    sink.delete(seen("b"))
    assert ([key.name for key in store.keys(FAR, "Node")], done) == (["old"], [])
    deque(sink.end_list("9", future=False), maxlen=0)
    assert ([key.name for key in store.keys(FAR, "Node")], done) == (["a"], ["over"])


def test_afterwards_it_is_like_any_other() -> None:
    sink, store, done = gathering()
    sink.begin()
    deque(sink.end_list("9", future=False), maxlen=0)
    sink.put(seen("a", 10))
    sink.put(seen("b", 11))
    sink.delete(seen("b", 12))
    assert [key.name for key in store.keys(FAR, "Node")] == ["a"]
    sink.begin()
    sink.put(seen("c", 13))
    deque(sink.end_list("13", future=False), maxlen=0)
    assert ([key.name for key in store.keys(FAR, "Node")], done) == (["c"], ["over"])
    sink.trouble("unreadable", "403")
    assert store.table(FAR, "Node").listing is Listing.UNREADABLE


# Reading accesses


@virtual
async def test_an_access_that_takes_long_to_read_keeps_nobody_else_waiting() -> None:
    """Neither the clusters that are connected nor the event loop; only one is read at a time."""
    ways = {f"w{number}": Way(server("a")) for number in range(10)}
    async with Clusters(**ways).running() as clusters:
        await clusters.want("w0", cluster="first", by="first")
        connect, under_way, most = clusters.sources._connect, 0, 0

        async def slow(access: Hashable) -> Transport:
            nonlocal under_way, most
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(5 if access == "w1" else 0)
            under_way -= 1
            return await connect(access)

        clusters.sources._connect = slow
        for number in range(1, 10):
            await clusters.want(f"w{number}", cluster=f"c{number}", by=f"c{number}", seconds=0)
        ways["w0"].server.put("b")
        await asyncio.sleep(1)
        assert {key.name for key in clusters.store.keys("first", "Node")} == {"a", "b"}
        await asyncio.sleep(6)
        assert most == 1
        assert len(clusters.pump.opened()) == 10


@virtual
async def test_an_access_that_cannot_be_read_in_time_is_given_up() -> None:
    async with Clusters(old=Way(server("a")), new=Way(server("b"))).running() as clusters:
        connect = clusters.sources._connect

        async def stuck(access: Hashable) -> Transport:
            await asyncio.sleep(3600 if access == "old" else 0)
            return await connect(access)

        clusters.sources._connect = stuck
        await clusters.want("old", seconds=READ_WITHIN - 1)
        assert clusters.state == "closed"
        await clusters.want("new", cluster="near", by="two", seconds=READ_WITHIN)
        assert (clusters.state, clusters.tried) == (Connection.INVALID, ["new"])


@virtual
async def test_however_often_an_access_changes_it_is_read_at_a_pace() -> None:
    ways = {f"w{number}": Way(server("a")) for number in range(100)}
    async with Clusters(**ways).running() as clusters:
        for number in range(100):
            await clusters.want(f"w{number}", seconds=0.25)
        assert len(clusters.tried) == READ_BURST
        await asyncio.sleep(READ_REFILL)
        assert len(clusters.tried) == READ_BURST + 1
        assert clusters.connection is not None
        assert clusters.connection.access == "w99"
        assert all(way.closed for name, way in ways.items() if name in clusters.tried and name != "w99")


@virtual
async def test_a_cluster_that_goes_and_comes_again_is_read_at_the_same_pace() -> None:
    ways = {f"w{number}": Way(server("a")) for number in range(100)}
    async with Clusters(**ways).running() as clusters:
        for number in range(99):
            await clusters.want(f"w{number}", seconds=2)
            await clusters.want(None, seconds=1)
        assert len(clusters.tried) == READ_BURST + 3
        await asyncio.sleep(READ_BURST * READ_REFILL + READ_LONGEST)
        await clusters.want("w99", seconds=1)
        assert clusters.tried[-1] == "w99", "after a rest it is read at once"


@virtual
async def test_an_access_that_changes_for_hours_is_read_slowly() -> None:
    ways = {f"w{number}": Way(server("a")) for number in range(3600)}
    async with Clusters(**ways).running() as clusters:
        for number in range(3600):
            await clusters.want(f"w{number}", seconds=1)
        assert len(clusters.tried) == pytest.approx(3600 / READ_LONGEST + READ_BURST, abs=3)


@virtual
async def test_credentials_that_are_rotated_are_taken_up_at_once() -> None:
    """Beside a cluster whose access is written anew all the time."""
    ways = {f"w{number}": Way(server("a")) for number in range(1000)}
    async with Clusters(**ways, old=Way(server("a")), new=Way(server("b"))).running() as clusters:
        await clusters.want("old")
        for number in range(999):
            await clusters.want(f"w{number}", cluster="busy", by="busy", seconds=0.1)
        await clusters.want("new", seconds=0)
        await clusters.want("w999", cluster="busy", by="busy", seconds=1)
        assert clusters.nodes == {"b"}


@virtual
async def test_what_one_cluster_wants_costs_no_look_at_the_others() -> None:
    ways = {f"w{number}": Way(server("a")) for number in range(50)}
    async with Clusters(**ways, new=Way(server("b"))).running() as clusters:
        for number in range(50):
            await clusters.want(f"w{number}", cluster=f"c{number}", by=f"c{number}", seconds=0)
        await asyncio.sleep(3)
        looked, opened = list[str](), clusters.pump.open

        def spy(group: asyncio.TaskGroup, transport: Transport, cluster: str, kind: str, keep: Keep) -> None:
            looked.append(cluster)
            opened(group, transport, cluster, kind, keep)

        clusters.pump.open = spy  # type: ignore[method-assign]
        await clusters.want("new", cluster="c7", by="c7")
        assert set(looked) == {"c7"}


@virtual
async def test_what_was_read_and_is_wanted_again_is_read_again() -> None:
    new, bad = Way(server("a"), barred=True), ConfigInvalid("no YAML")
    async with Clusters(old=Way(server("a")), new=new, bad=bad).running() as clusters:
        for access in ("old", "new", "old", "bad", "old"):
            await clusters.want(access, seconds=READ_REFILL)
        clusters.ways = {"new": Way(server("b")), "bad": Way(server("c"))}
        await clusters.want("new")
        assert clusters.nodes == {"b"}
        await clusters.want("bad")
        assert clusters.nodes == {"c"}


@virtual
async def test_what_is_always_watched_is_asked_only_when_a_configuration_or_a_demand_changes() -> None:
    asked: list[int] = []

    def always() -> frozenset[Source]:
        asked.append(1)
        return frozenset()

    async with Clusters(far=Way(server())).running() as world:
        world.sources._always = always
        world.follow()
        first = len(asked)
        for _ in range(5):
            world.follow()
        assert len(asked) == first
        await world.want("far")
        assert len(asked) > first
