"""K1 to K4: whatever comes by list, watch, answer or look, in whatever order, the rows end as the world is."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.rows import NodeRow, ObjectRow, Row, Taint
from haulout.cluster.store import Index, Listing, Store
from haulout.core.action import Annotate, Cordon, Create, Edit, Finalize, Label, Patch, SetTaint
from haulout.runtime.jobs import Job, request_body
from haulout.runtime.requests import Change, Done, Look, Refused
from tests.build.desk import Cluster, Desk, Script, pod_key, steps, together
from tests.build.rows import node
from tests.build.world import World, copy

A, B = node_key("a"), node_key("b")
NAMES = ("a", "b")
names = st.sampled_from(NAMES)
values = st.sampled_from(("0", "1"))
BY_X = Index("by-x", "Node", lambda row: (row.labels.get("x"),) if isinstance(row, NodeRow) else ())


class InX(Count, frozen=True):
    def groups(self, row: Row) -> Iterable[Membership]:
        assert isinstance(row, NodeRow)
        yield Membership(row.labels.get("x"))


def listed(*rows: Row) -> Store:
    store = Store()
    store.begin_list("", "Node")
    for row in rows:
        store.put(row)
    store.end_list("", "Node", max([row.version for row in rows], default=0))
    store.take_changes()
    return store


def content(row: Row | None) -> Row | None:
    return None if row is None else msgspec.structs.replace(row, version=0)


class Ask:
    """A look or write of ours: what the server answered, once it has, and what we knew when it was sent."""

    def __init__(self, key: Key, known: int) -> None:
        self.key, self.known = key, known
        self.served = False
        self.row: ObjectRow | None = None


class Doors(RuleBasedStateMachine):
    """Lists in pages, a watch that may start over from an older list, and answers that arrive when they like."""

    @initialize()
    def begin(self) -> None:
        self.world, self.store = World(), Store()
        self.position = 0
        self.pages: list[ObjectRow] | None = None
        self.asks: list[Ask] = []
        self.history: dict[tuple[Key, int], ObjectRow] = {}
        self.world.put(node("a", x="0"))
        self.list_begins_at(1)
        self.list_ends()

    # The world

    @rule(name=names, x=values)
    def somebody_writes(self, name: str, x: str) -> None:
        self.world.put(node(name, x=x))

    @rule(name=names)
    def somebody_deletes(self, name: str) -> None:
        self.world.delete(node_key(name))

    @rule(name=names, x=values)
    def somebody_makes_it_anew(self, name: str, x: str) -> None:
        self.world.delete(node_key(name))
        self.world.put(node(name, x=x))

    # Looks and writes of ours

    @rule(name=names)
    def we_ask(self, name: str) -> None:
        key = node_key(name)
        self.store.hold_open(key)
        row = self.store.row(key)
        self.asks.append(Ask(key, row.version if row else -1))

    @precondition(lambda self: any(not ask.served for ask in self.asks))
    @rule(data=st.data())
    def server_serves(self, data: st.DataObject) -> None:
        ask = data.draw(st.sampled_from([ask for ask in self.asks if not ask.served]))
        ask.served, ask.row = True, self.world.objects.get(ask.key)

    @precondition(lambda self: any(ask.served for ask in self.asks))
    @rule(data=st.data())
    def answer_arrives(self, data: st.DataObject) -> None:
        self.take(data.draw(st.sampled_from([ask for ask in self.asks if ask.served])))

    def take(self, ask: Ask) -> None:
        self.asks.remove(ask)
        if ask.row is None:
            self.store.remove(ask.key, ask.known)
        else:
            self.deliver(ask.row, self.store.answer)
        self.store.let_go(ask.key)

    # List and watch

    @precondition(lambda self: self.pages is None)
    @rule(events=st.integers(1, 4))
    def watch_tells(self, events: int) -> None:
        for version, key, row in self.world.log[self.position : self.position + events]:
            if row is None:
                self.store.remove(key, version)
            else:
                self.deliver(row, self.store.put)
        self.position = min(len(self.world.log), self.position + events)

    @rule(data=st.data())
    def list_begins(self, data: st.DataObject) -> None:
        """Of now, or as a cache behind the times has it."""
        self.list_begins_at(len(self.world.log) - data.draw(st.sampled_from((0, 0, 1, 2))))

    def list_begins_at(self, position: int) -> None:
        self.listed_at = max(0, position)
        objects: dict[Key, ObjectRow | None] = {key: row for _, key, row in self.world.log[: self.listed_at]}
        self.pages = [row for row in objects.values() if row is not None]
        self.store.begin_list("", "Node")

    @precondition(lambda self: self.pages)
    @rule()
    def list_goes_on(self) -> None:
        assert self.pages
        self.deliver(self.pages.pop(0), self.store.put)

    @precondition(lambda self: self.pages is not None)
    @rule()
    def list_ends(self) -> None:
        for row in self.pages or ():
            self.deliver(row, self.store.put)
        self.pages = None
        version = self.world.log[self.listed_at - 1][0] if self.listed_at else 0
        self.store.end_list("", "Node", version)
        self.position = self.listed_at

    def deliver(self, row: ObjectRow, door: object) -> None:
        """One row through one door: never backwards, and whoever reads it is told exactly if it differs."""
        before = self.store.row(row.key)
        known, was = (before.version if before else -1), content(before)
        self.store.take_changes()
        assert callable(door)
        door(copy(row))
        after = self.store.row(row.key)
        changed, _, arrived = self.store.take_changes()
        assert after is None or after.version >= max(known, 0)
        assert (row.key in changed) == (content(after) != was)
        assert bool(arrived) == (after is not None and (was is None or was.uid != after.uid))

    @invariant()
    def every_row_has_been_true(self) -> None:
        if not hasattr(self, "world"):
            return
        for _, key, row in self.world.log[len(self.history) :]:
            if row is not None:
                self.history[key, row.version] = row
        for key in map(node_key, NAMES):
            known = self.store.row(key)
            assert known is None or known == self.history[key, known.version]

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        if self.pages is not None:
            self.list_ends()
        for ask in list(self.asks):
            if not ask.served:
                ask.served, ask.row = True, self.world.objects.get(ask.key)
            self.take(ask)
        if self.store.table("", "Node").listing is not Listing.LISTED:
            assert not self.store.keys("", "Node") or self.position
        self.watch_tells(len(self.world.log))
        rows = {key: self.store.row(key) for key in self.store.keys("", "Node")}
        assert rows == self.world.objects
        assert self.store.size() == 0


TestDoors = Doors.TestCase
TestDoors.settings = settings(max_examples=3000, stateful_step_count=30, deadline=None)
