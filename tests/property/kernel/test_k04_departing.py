"""K4: no row of a closed table can be read, although its readers are woken a few rows at a time."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable
from datetime import datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Index, Listing, Store
from haulout.cluster.topics import CountOf
from haulout.cluster.view import View
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.kernel.kernel import Kernel
from haulout.kernel.loop import DEPARTING_AT_ONCE
from tests.build.examples import examples
from tests.build.rows import START

FAR = "far"
NAMES = tuple("abcdef")
ZONES = ("", "x", "y")


class InZone(Count, frozen=True):
    """A count of nodes by zone."""

    def groups(self, row: Row) -> Iterable[Membership]:
        return (Membership(_zone(row)),)


def _zone(row: Row) -> str:
    return row.labels.get("zone", "") if isinstance(row, NodeRow) else ""


def _zones(row: Row) -> Iterable[Hashable]:
    return (_zone(row),)


BY_ZONE, COUNT = Index("by-zone", "Node", _zones), InZone()


def node(name: str, zone: str = "", version: int = 1, uid: str = "uid") -> NodeRow:
    return NodeRow(key=node_key(name, FAR), version=version, uid=uid, labels={"zone": zone})


class Closing(RuleBasedStateMachine):
    """The same events for two stores: one removes the rows of closed tables a few at a time, the other at once."""

    def __init__(self) -> None:
        super().__init__()
        self.sliced, self.at_once = Store(), Store()
        self.named: set[Hashable] = set()
        self.due: set[Hashable] = set()
        self.freed: set[CountOf] = set()
        self.freed_at_once: set[CountOf] = set()

    def both(self) -> tuple[Store, Store]:
        return self.sliced, self.at_once

    def settle(self) -> None:
        changed, freed, _ = self.at_once.take_changes()
        self.due |= changed
        self.freed_at_once |= freed
        changed, freed, _ = self.sliced.take_changes()
        self.named |= changed
        self.freed |= freed

    @rule(shown=st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(ZONES)), unique_by=lambda each: each[0]))
    def list_all(self, shown: list[tuple[str, str]]) -> None:
        for store in self.both():
            store.begin_list(FAR, "Node")
            for name, zone in shown:
                store.put(node(name, zone))
            store.end_list(FAR, "Node", 1)

    @rule(
        name=st.sampled_from(NAMES), zone=st.sampled_from(ZONES), version=st.integers(1, 3), uid=st.sampled_from("uv")
    )
    def put(self, name: str, zone: str, version: int, uid: str) -> None:
        for store in self.both():
            store.put(node(name, zone, version, uid))

    @rule(name=st.sampled_from(NAMES), zone=st.sampled_from(ZONES))
    def answer(self, name: str, zone: str) -> None:
        for store in self.both():
            store.answer(node(name, zone, 2))

    @rule(name=st.sampled_from(NAMES), zone=st.sampled_from(ZONES))
    def expect(self, name: str, zone: str) -> None:
        for store in self.both():
            store.expect(node(name, zone, 2))

    @rule(name=st.sampled_from(NAMES))
    def settle_one(self, name: str) -> None:
        for store in self.both():
            store.settle(node_key(name, FAR))

    @rule(name=st.sampled_from(NAMES))
    def remove(self, name: str) -> None:
        for store in self.both():
            store.remove(node_key(name, FAR), 3)

    @rule(zone=st.sampled_from(ZONES))
    def read(self, zone: str) -> None:
        for store in self.both():
            store.bucket(BY_ZONE, FAR, zone)
            store.stored_count(FAR, COUNT, zone)

    @rule()
    def close(self) -> None:
        for store in self.both():
            store.close(FAR, "Node")
        self.at_once.depart(len(NAMES))

    @precondition(lambda self: self.sliced.has_departing)
    @rule(most=st.integers(1, 3))
    def depart(self, most: int) -> None:
        self.sliced.depart(most)

    @invariant()
    def reads_are_those_of_a_table_that_is_gone(self) -> None:
        self.settle()
        assert self.sliced.rows(FAR, "Node") == self.at_once.rows(FAR, "Node")
        assert self.sliced.listing(FAR, "Node") is self.at_once.listing(FAR, "Node")
        assert self.sliced.clusters() == self.at_once.clusters()
        for name in NAMES:
            key = node_key(name, FAR)
            assert self.sliced.row(key) == self.at_once.row(key)
            assert self.sliced.expects(key) == self.at_once.expects(key)
        tables = self.sliced.tables.get((FAR, "Node")), self.at_once.tables.get((FAR, "Node"))
        assert (tables[0] is None) == (tables[1] is None)

    @invariant()
    def counts_and_buckets_are_too(self) -> None:
        # A count is asked for only where it stands: to ask would make the table.
        if (FAR, "Node") in self.sliced._counted:
            for zone in ZONES:
                limit = Limit(COUNT, zone, 1, cluster=FAR)
                assert self.sliced.stored_count(FAR, COUNT, zone) == self.at_once.stored_count(FAR, COUNT, zone)
                assert self.sliced.has_room(limit) == self.at_once.has_room(limit)
        for zone in ZONES:
            assert self.sliced.bucket(BY_ZONE, FAR, zone) == self.at_once.bucket(BY_ZONE, FAR, zone)

    def teardown(self) -> None:
        self.sliced.depart(10 * len(NAMES))
        self.settle()
        assert not self.sliced.has_departing
        assert self.sliced.size() == self.at_once.size()
        assert self.due <= self.named, "a reader is not told"
        assert self.freed_at_once <= self.freed, "who waits for a place is not told"


Closing.TestCase.settings = settings(
    max_examples=examples(200), stateful_step_count=30, deadline=None, derandomize=True
)
TestClosing = Closing.TestCase


def _follows(key: Key, view: View, now: datetime) -> Decision:
    """Read the row of a Node of another cluster, as the decision about its Machine does."""
    if view.listing("Node", FAR) is Listing.LISTED:
        view.get(node_key(key.name, FAR), NodeRow)
    return NOTHING


def _kernel(nodes: int, *, leading: bool) -> Kernel:
    """Return a kernel that has read another cluster of so many Nodes."""
    kernel = Kernel((Decider("each", "Node", _follows, cluster=None),))
    kernel.store.begin_list(FAR, "Node")
    for number in range(nodes):
        kernel.store.put(node(f"n{number}"))
    kernel.store.end_list(FAR, "Node", 1)
    kernel.run(START)
    if not leading:
        kernel.follow()
    return kernel


@pytest.mark.parametrize("leading", [True, False], ids=["leader", "follower"])
def test_k16_a_closed_table_is_taken_in_a_few_rows_at_a_time(leading: bool) -> None:
    kernel = _kernel(20 * DEPARTING_AT_ONCE, leading=leading)
    kernel.store.close(FAR, "Node")
    slices, askings, rested = [], [kernel.loop.askings], False
    while not rested:
        before = len(kernel.store._departing[0].rows) if kernel.store.has_departing else 0
        assert not kernel.store.rows(FAR, "Node")
        rested = kernel.run(START, lambda: True)
        slices.append(before - sum(len(table.rows) for table in kernel.store._departing))
        askings.append(kernel.loop.askings)
    assert max(slices) == DEPARTING_AT_ONCE
    assert sum(slices) == 20 * DEPARTING_AT_ONCE
    assert max(later - earlier for earlier, later in itertools.pairwise(askings)) == int(leading)


def test_k17_nothing_is_remembered_of_a_closed_table() -> None:
    kernel = _kernel(3 * DEPARTING_AT_ONCE, leading=True)
    kernel.store.close(FAR, "Node")
    kernel.run(START)
    assert kernel.size() == Kernel((Decider("each", "Node", _follows, cluster=None),)).size()
    assert not kernel.store.has_departing


def test_who_waits_for_a_place_in_a_closed_table_is_told_when_a_reserved_one_comes_free() -> None:
    store = Store()
    store.begin_list(FAR, "Node")
    store.put(node("a", "x"))
    store.end_list(FAR, "Node", 1)
    limit = Limit(COUNT, "x", 1, cluster=FAR)
    assert not store.has_room(limit)
    store.expect(node("b", "x"))
    store.close(FAR, "Node")
    store.depart(10)
    assert not store.has_room(limit)
    store.take_changes()
    store.settle(node_key("b", FAR))
    assert store.has_room(limit)
    assert CountOf(FAR, COUNT, "x") in store.take_changes()[1]
