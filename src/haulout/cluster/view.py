"""The questions that a decision may ask of the store.

Each is recorded: what a decision reads wakes it when it changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Set
from datetime import timedelta
from functools import lru_cache
from typing import TypeVar

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import AtLeast, Count, Group, Limit, Need, RoomSet, room_sets
from haulout.cluster.rows import Connection, NodeRow, Row, Value
from haulout.cluster.store import Index, Listing, Store
from haulout.cluster.topics import Bucket, CountOf, TableName, Topic

R = TypeVar("R", bound=Row)

# Kinds of our own. The process writes their rows itself, so that they need no listing.
CONFIG, FACT, OUTCOME, HOLD, GRANT, MARK = "Config", "Fact", "Outcome", "Hold", "Grant", "Mark"
DRAIN, EVICTION, PERMIT, PROOF = "Drain", "Eviction", "Permit", "Proof"
OWN_KINDS = frozenset({CONFIG, FACT, OUTCOME, HOLD, GRANT, MARK, DRAIN, EVICTION, PERMIT, PROOF, Connection.KIND})

# The states of a proof.
PROVEN, FAILED = "proven", "failed"


@lru_cache(maxsize=64)
def holds_table(surface: str) -> str:
    """Return the name of the table that is listed once every key of a surface has been asked."""
    return f"{HOLD}/{surface}"


@lru_cache(maxsize=64)
def _config_key(name: str) -> Key:
    return Key("", CONFIG, "", name)


class NotListed(Exception):
    """Raised when a decision reads a table that is not listed yet, or is unreadable.

    It is asked again when that changes.
    """

    def __init__(self, table: TableName, listing: Listing) -> None:
        super().__init__(f"{table.kind} is {listing.value}" + (f" in cluster {table.cluster}" if table.cluster else ""))
        self.table = table
        self.listing = listing


class FactDemand(msgspec.Struct, frozen=True):
    """A question to the outside world and how often its answer is renewed.

    `answer_for`: how long to wait for an answer, where that is longer than the pace.
    """

    probe: str
    argument: Hashable
    pace_for: timedelta
    answer_for: timedelta = timedelta()

    @property
    def key(self) -> Key:
        return Key("", FACT, self.probe, repr(self.argument))


# Most askings read none of these, so they share these empty values. They are replaced, never changed.
NO_ROOMS: frozenset[RoomSet] = frozenset()
NO_FACTS: Mapping[Key, FactDemand] = {}
NO_PROOFS: frozenset[Key] = frozenset()
NO_BUCKETS: frozenset[Bucket] = frozenset()
# A bucket with more rows is large: a subject that has gone through it is not run again for each row that changes.
MANY_ROWS = 10


class Record:
    """What one asking has read: topics, facts, and the sets of rooms that were not all open.

    `proofs`: the proofs that it read and that do not exist yet.
    `rows`: how many rows of buckets it went through. `large_buckets`: the buckets with many rows among them.
    """

    __slots__ = ("facts", "large_buckets", "proofs", "rooms", "rows", "topics")

    def __init__(self) -> None:
        self.topics: set[Topic] = set()
        self.rooms = NO_ROOMS
        self.facts = NO_FACTS
        self.proofs = NO_PROOFS
        self.large_buckets = NO_BUCKETS
        self.rows = 0

    def add(self, topics: Iterable[Topic], rooms: Set[RoomSet], facts: Mapping[Key, FactDemand]) -> None:
        self.topics.update(topics)
        self.rooms |= rooms
        self.facts = {**facts, **self.facts}


class View:
    """The questions that one decision may ask of the store. Each is recorded as a topic that the decision has read.

    `explaining`: a person wants to know why, so that the answer should have its reasons.
    """

    __slots__ = ("_record", "_store", "explaining")

    def __init__(self, store: Store, record: Record | None = None, *, explaining: bool = False) -> None:
        self._store = store
        self._record = record or Record()
        self.explaining = explaining

    def get(self, key: Key, kind: type[R]) -> R | None:
        """Return one row, or None where the object does not exist."""
        table = self._store.tables.get(key[:2])
        if key.kind not in OWN_KINDS and (table is None or table.listing is not Listing.LISTED):
            self._listed(key.cluster, key.kind)
        row = table.rows.get(key) if table is not None else None
        # The row's own key is recorded, not an equal one: that saves memory for each of a hundred thousand subjects.
        self._record.topics.add(key if row is None else row.key)
        return row if isinstance(row, kind) else None

    def node(self, name: str, cluster: str = "") -> NodeRow | None:
        return self.get(node_key(name, cluster), NodeRow)

    def rows(self, index: Index, value: Hashable, kind: type[R], cluster: str = "") -> list[R]:
        """Return the rows of a bucket in the order of their keys."""
        if index.kind not in OWN_KINDS:
            self._listed(cluster, index.kind)
        bucket = Bucket(index.name, cluster, value)
        self._record.topics.add(bucket)
        found = self._store.bucket(index, cluster, value)
        if not found:
            return []
        self._record.rows += len(found)
        if len(found) > MANY_ROWS:
            self._record.large_buckets |= {bucket}
        return [row for row in found if isinstance(row, kind)]

    def count(self, count: Count, group: Group, cluster: str = "") -> int:
        """Return how many rows a group has. The decision is asked again whenever the number changes."""
        self._listed(cluster, count.kind)
        self._record.topics.add(CountOf(cluster, count, group))
        return self._store.stored_count(cluster, count, group)

    def at_least(self, count: Count, group: Group, members: int, cluster: str = "") -> bool:
        """Whether a group has at least so many rows. The decision is asked again only when that changes."""
        self._listed(cluster, count.kind)
        self._record.topics.add(CountOf(cluster, count, AtLeast(group, members)))
        return self._store.stored_count(cluster, count, group) >= members

    def glance(self, count: Count, group: Group, cluster: str = "") -> int:
        """Return how many rows a group has, for information alone.

        No decision may depend on it, because its changes wake no subject.
        """
        return self._store.stored_count(cluster, count, group)

    def takers(self, limit: Limit) -> list[Key]:
        """Return the objects that take the places under a limit, for messages only."""
        return self._store.takers(limit)

    def has_room(self, need: Need) -> bool:
        """Whether one of the limits of a need has room, for messages only: the subject does not wait for it."""
        return any(self._store.has_room(limit) for limit in need)

    def full(self, limits: Iterable[Limit]) -> tuple[Limit, ...]:
        """Return the limits of this set that have no room for one more; an empty tuple: all have room.

        If one has no room, the subject waits until all of the set have room at once. So ask for the whole set, after
        every other check has passed, and only where the subject wants the room.
        """
        full = self.unmet(frozenset({limit}) for limit in limits)
        return tuple(sorted((limit for need in full for limit in need), key=repr))

    def unmet(self, needs: Iterable[Need]) -> frozenset[Need]:
        """Return the needs none of whose limits has room. If there are any, the subject waits until all are met at once.

        Each need is checked once, however many ways there are to meet them all.
        """
        wanted = frozenset(needs)
        for limit in frozenset().union(*wanted):
            self._listed(limit.cluster, limit.count.kind)
        full = frozenset(need for need in wanted if not any(self._store.has_room(limit) for limit in need))
        if full:
            self._record.rooms |= room_sets(wanted)
        return full

    def recall(self, key: Key, kind: type[R]) -> R | None:
        """Return a row that this decision made earlier itself.

        Reading it subscribes to nothing, so it wakes no subject.
        """
        row = self._store.row(key)
        return row if isinstance(row, kind) else None

    def recall_rows(self, index: Index, value: Hashable, kind: type[R], cluster: str = "") -> list[R]:
        """Return the rows of a bucket that this decision made earlier itself, without subscribing to it."""
        return [row for row in self._store.bucket(index, cluster, value) if isinstance(row, kind)]

    def require(self, kind: str, cluster: str = "") -> None:
        """Raise NotListed, which puts the decision off, unless the table has been listed."""
        self._listed(cluster, kind)

    def listing(self, kind: str, cluster: str = "") -> Listing:
        """Return the state of a table, for decisions that go on without it.

        A table that is not listed must not be taken for an empty one.
        """
        table = self._store.tables.get((cluster, kind)) or self._store.table(cluster, kind)
        self._record.topics.add(table.name)
        return table.listing

    def unreadable(self, kind: str, cluster: str = "") -> str | None:
        """Return why a table cannot be read, or None if it is listed or still waits for its first list."""
        if kind in OWN_KINDS or self.listing(kind, cluster) is not Listing.UNREADABLE:
            return None
        return self._store.table(cluster, kind).why or "no answer"

    def is_forbidden(self, kind: str, cluster: str = "") -> bool:
        """Whether a kind could never be listed because the role does not allow it, as the role of an original may not.

        A table that has been listed once is not forbidden: its objects are known to be there.
        """
        why = (self.unreadable(kind, cluster) or "").lower()
        return "forbidden" in why and not self._store.table(cluster, kind).version

    def config(self, name: str) -> Value | None:
        return self.get(_config_key(name), Value)

    def fact(self, demand: FactDemand) -> Value:
        """Return the last answer of the outside world; `state` is unknown, fresh or stale.

        Because a decision reads it, it is probed again and again.
        """
        key = demand.key
        self._record.facts = {**self._record.facts, key: demand}
        return self.get(key, Value) or Value(key=key, state="unknown")

    def outcome(self, name: str) -> Value | None:
        """Return the result of a message: None (never sent), or `state` pending, done or failed."""
        return self.get(Key("", OUTCOME, "", name), Value)

    def proof(self, key: Key) -> Value | None:
        """Return the result of a list of the node's pods, or None before its answer. Reading it causes the list.

        `state` is PROVEN, or FAILED with the refusal as `value`. The key names the node and the reader (`proof_key`).
        """
        found = self.get(key, Value)
        if found is None:
            self._record.proofs |= {key}
        return found

    def _listed(self, cluster: str, kind: str) -> None:
        if kind in OWN_KINDS:
            return
        listing = self._store.listing(cluster, kind)
        if listing is not Listing.LISTED:
            name = TableName(cluster, kind)
            self._record.topics.add(name)
            raise NotListed(name, listing)


class ViewWith(View):
    """A view for explanations, in which some rows replace those of the store.

    `instead`: these rows, by key, such as the arbiter's answers as it would give them now.
    """

    __slots__ = ("_instead",)

    def __init__(self, store: Store, instead: Mapping[Key, Row]) -> None:
        super().__init__(store, explaining=True)
        self._instead = instead

    def get(self, key: Key, kind: type[R]) -> R | None:
        row = self._instead.get(key)
        return row if isinstance(row, kind) else super().get(key, kind)

    def recall(self, key: Key, kind: type[R]) -> R | None:
        row = self._instead.get(key)
        return row if isinstance(row, kind) else super().recall(key, kind)
