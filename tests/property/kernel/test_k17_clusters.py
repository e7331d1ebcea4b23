"""K17 over clusters: after a cluster has come and gone, in any state, nothing of it is remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from datetime import datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Membership
from haulout.cluster.project import Keep, kind_of_one
from haulout.cluster.rows import Connection, NodeRow, Row, Value
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import CONFIG, MARK, View
from haulout.core.decision import NOTHING, Decider, Decision, Source
from haulout.kube.errors import ConfigInvalid, ConfigRefused, ConnectionFailed
from haulout.runtime.metrics import Metrics
from haulout.runtime.sources import READ_BURST, READ_LONGEST, READ_REFILL
from haulout.runtime.traffic import Traffic
from tests.build.clusters import Clusters, Way, server
from tests.build.examples import examples
from tests.build.fakeapi import refusal
from tests.build.footprint import footprint
from tests.build.rows import at
from tests.build.virtual import virtual

DAY = timedelta(days=1)


class Nodes(Count, frozen=True):
    """A count of the nodes of the last day, all in one group."""

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(True, at(0) + DAY),) if isinstance(row, NodeRow) else ()


def _known(row: Row) -> Iterable[Hashable]:
    return (True,)


ALL = Index("all-nodes", "Node", _known)


def reads(key: Key, view: View, now: datetime) -> Decision:
    """Read everything that can be read of a cluster, and remember it in a mark. It is asked for each connection."""
    if view.get(key, Connection) is None or view.listing("Node", key.cluster) is not Listing.LISTED:
        return NOTHING
    nodes = view.rows(ALL, True, NodeRow, key.cluster)
    view.count(Nodes(), True, key.cluster)
    return Decision(marks=(Value(key=Key(key.cluster, MARK, "reads", "nodes"), value=len(nodes)),))


def greets(key: Key, view: View, now: datetime) -> Decision:
    """Make a mark for each Node of each cluster."""
    row = view.get(key, NodeRow)
    return NOTHING if row is None else Decision(marks=(Value(key=Key("", MARK, "greets", str(key)), value=1),))


def names(key: Key, view: View, now: datetime) -> Decision:
    """Ask for a table of its own for each cluster, as the Secret of a kubeconfig is watched."""
    row = view.get(key, Value)
    wanted = row.value if row is not None else {}
    assert isinstance(wanted, dict)
    return Decision(sources=tuple(Source("", kind_of_one("Pod", "fleet", cluster), Keep()) for cluster in wanted))


DECIDERS = (
    Decider("reads", Connection.KIND, reads, cluster=None),
    Decider("greets", "Node", greets, cluster=None),
    Decider("secrets", CONFIG, names),
)
FATES = ("fine", "refused", "invalid", "away", "denied", "silent")


def ways() -> dict[Hashable, Way | Exception]:
    return {
        "fine": Way(server("a", "b")),
        "refused": ConfigRefused("it runs a program"),
        "invalid": ConfigInvalid("no YAML"),
        "away": Way(server(), fault=ConnectionFailed("nobody answers")),
        "denied": Way(server(), fault=refusal(403, "Forbidden")),
        "silent": Way(server(), barred=True),
    }


# How often an access was read is remembered for some minutes after the cluster is gone.
SETTLED = READ_BURST * READ_REFILL + READ_LONGEST + 10


async def visited(world: Clusters, cluster: str, fates: Iterable[str]) -> None:
    """Let a cluster come, be reached by several ways in turn, and leave."""
    for fate in fates:
        world.ways = {**world.ways, **ways()}
        await world.want(fate, cluster=cluster)
        world.follow()
    await world.want(None, cluster=cluster)
    for _ in range(2):
        world.follow()
        await asyncio.sleep(1)


def size(world: Clusters) -> dict[str, int]:
    pump = world.pump
    return footprint(
        world.kernel,
        pump=pump,
        sources=world.sources,
        connections=pump.connections,
        sender=world.sender,
        metrics=world.metrics,
    )


@settings(max_examples=examples(8), deadline=None, derandomize=True)
@given(st.lists(st.lists(st.sampled_from(FATES), min_size=1, max_size=3), min_size=3, max_size=8))
def test_k17_nothing_is_remembered_of_clusters_that_are_gone(visits: list[list[str]]) -> None:
    @virtual
    async def scenario() -> None:
        async with Clusters(*DECIDERS).running() as world:
            # One for each way to fare, so that what is built once stands.
            for fate in FATES:
                await visited(world, f"first-{fate}", [fate])
            await asyncio.sleep(SETTLED)
            before, tables = size(world), set(world.store.tables)
            for number, fates in enumerate(visits):
                await visited(world, f"far-{number}", fates)
            await asyncio.sleep(SETTLED)
            grown = {place: entries for place, entries in size(world).items() if entries > before.get(place, 0)}
            assert not grown, f"something is remembered of clusters that are gone: {grown}"
            assert set(world.store.tables) == tables

    scenario()


def test_k17_hosts_that_nobody_is_connected_with_are_not_counted() -> None:
    metrics = Metrics()
    traffic = Traffic(metrics)
    for number in range(50):
        for _ in range(2):
            answered = traffic.opened(f"https://far-{number}:6443")
        answered(f"far-{number}:6443", "GET", "200")
        traffic.closed(f"https://far-{number}:6443")
        assert len(metrics.series("rest_client_requests_total")) == 1
        traffic.closed(f"https://far-{number}:6443")
        # An answer that comes late.
        answered(f"far-{number}:6443", "GET", "<error>")
    assert not metrics.series("rest_client_requests_total")
    assert not traffic._open
