"""K1 to K4: whatever comes by list, watch, answer or look, in whatever order, the rows end as the world is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Count, Limit, Membership
from haulout.cluster.rows import NodeRow, ObjectRow, Row, Taint
from haulout.cluster.store import Index, Listing, Store
from haulout.core.action import Annotate, Cordon, Create, Edit, Finalize, Label, Patch, SetTaint
from haulout.runtime.jobs import Job, request_body
from haulout.runtime.requests import Change, Done, Look, Refused
from tests.build.desk import Cluster, Desk, Script, pod_key, steps, together
from tests.build.rows import node
from tests.build.walk import Move, Walk, tapes
from tests.build.world import World, copy

A, B = node_key("a"), node_key("b")
NAMES = ("a", "b")
VALUES = ("0", "1")
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


class Doors(Walk):
    """Lists in pages, a watch that may start over from an older list, and answers that arrive when they like."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.world, self.store = World(), Store()
        self.position = 0
        self.pages: list[ObjectRow] | None = None
        self.listed_at = 0
        self.asks: list[Ask] = []
        self.history: dict[tuple[Key, int], ObjectRow] = {}
        self.world.put(node("a", x="0"))
        self.list_begins()
        self.list_ends()

    def moves(self) -> Sequence[Move]:
        listing = [self.list_goes_on, self.list_ends] if self.pages is not None else [self.watch_tells]
        serving = [self.server_serves] * any(not ask.served for ask in self.asks)
        answering = [self.answer_arrives] * any(ask.served for ask in self.asks)
        others = [self.somebody_writes, self.somebody_deletes, self.somebody_makes_it_anew]
        return [*listing, self.list_begins, *others, self.we_ask, *serving, *answering]

    # The world

    def somebody_writes(self) -> None:
        self.world.put(node(self.tape.pick(NAMES), x=self.tape.pick(VALUES)))

    def somebody_deletes(self) -> None:
        self.world.delete(node_key(self.tape.pick(NAMES)))

    def somebody_makes_it_anew(self) -> None:
        name = self.tape.pick(NAMES)
        self.world.delete(node_key(name))
        self.world.put(node(name, x=self.tape.pick(VALUES)))

    # Looks and writes of ours

    def we_ask(self) -> None:
        key = node_key(self.tape.pick(NAMES))
        self.store.hold_open(key)
        row = self.store.row(key)
        self.asks.append(Ask(key, row.version if row else -1))

    def server_serves(self) -> None:
        ask = self.tape.pick([ask for ask in self.asks if not ask.served])
        ask.served, ask.row = True, self.world.objects.get(ask.key)

    def answer_arrives(self) -> None:
        self.take(self.tape.pick([ask for ask in self.asks if ask.served]))

    def take(self, ask: Ask) -> None:
        self.asks.remove(ask)
        if ask.row is None:
            self.store.remove(ask.key, ask.known)
        else:
            self.deliver(ask.row, self.store.answer)
        self.store.let_go(ask.key)

    # List and watch

    def watch_tells(self, events: int = 2) -> None:
        for version, key, row in self.world.log[self.position : self.position + events]:
            if row is None:
                self.store.remove(key, version)
            else:
                self.deliver(row, self.store.put)
        self.position = min(len(self.world.log), self.position + events)

    def list_begins(self) -> None:
        """Of now, or as a cache behind the times has it."""
        self.listed_at = max(0, len(self.world.log) - self.tape.pick((0, 0, 1, 2)))
        objects: dict[Key, ObjectRow | None] = {key: row for _, key, row in self.world.log[: self.listed_at]}
        self.pages = [row for row in objects.values() if row is not None]
        self.store.begin_list("", "Node")

    def list_goes_on(self) -> None:
        if self.pages:
            self.deliver(self.pages.pop(0), self.store.put)

    def list_ends(self) -> None:
        for row in self.pages or ():
            self.deliver(row, self.store.put)
        self.pages = None
        version = self.world.log[self.listed_at - 1][0] if self.listed_at else 0
        self.store.end_list("", "Node", version)
        self.position = self.listed_at

    def deliver(self, row: ObjectRow, door: Callable[[Row], None]) -> None:
        """One row through one door: never backwards, and whoever reads it is told exactly if it differs."""
        before = self.store.row(row.key)
        known, was = (before.version if before else -1), content(before)
        self.store.take_changes()
        door(copy(row))
        after = self.store.row(row.key)
        changed, _, arrived = self.store.take_changes()
        assert after is None or after.version == max(known, row.version)
        assert (row.key in changed) == (content(after) != was)
        assert bool(arrived) == (after is not None and (was is None or was.uid != after.uid))

    def check(self) -> None:
        """Every row has been true, to the letter, at its version."""
        self.history |= {(key, row.version): row for _, key, row in self.world.log if row is not None}
        for key in map(node_key, NAMES):
            known = self.store.row(key)
            assert known is None or known == self.history[key, known.version]

    def finish(self) -> None:
        if self.pages is not None:
            self.list_ends()
        for ask in list(self.asks):
            if not ask.served:
                ask.served, ask.row = True, self.world.objects.get(ask.key)
            self.take(ask)
        self.watch_tells(len(self.world.log))
        rows = {key: self.store.row(key) for key in self.store.keys("", "Node")}
        assert rows == self.world.objects
        assert self.store.size() == 0


@settings(max_examples=6000, deadline=None)
@given(tapes())
def test_k1_to_k4_in_whatever_order_it_comes_the_store_ends_as_the_world_is(tape: bytes) -> None:
    Doors(tape).go()
