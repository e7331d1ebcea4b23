"""Counting rows in groups, and limits on such counts."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from datetime import datetime
from typing import ClassVar, NamedTuple

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row

Group = Hashable


class Membership(NamedTuple):
    """A row counts in a group, for good or only before an instant."""

    group: Group
    until: datetime | None = None


class Count(msgspec.Struct, frozen=True):
    """How many rows of a kind belong to each group. Subclasses are values: equal ones share one tally."""

    kind: ClassVar[str] = "Node"

    def groups(self, row: Row) -> Iterable[Membership]:
        """The groups that a row belongs to; none unless a subclass says so."""
        return ()

    def describe(self, group: Group) -> str:
        """What is counted, for people."""
        return f"{type(self).__name__} {group}"


class Limit(msgspec.Struct, frozen=True):
    """At most `most` rows of a group: a room. It has room while fewer are in it or on their way into it."""

    count: Count
    group: Group
    most: int
    cluster: str = ""


class Tally:
    """The members of one `Count` in one cluster.

    `stored` says what the rows show. `taken` also counts rows that a write under way will bring in and places that
    are reserved: a write in flight takes, but does not give.
    """

    def __init__(self, count: Count) -> None:
        self.count = count
        self.stored: Counter[Group] = Counter()
        self.taken: Counter[Group] = Counter()
        self._in_stored: dict[Key, frozenset[Group]] = {}
        self._in_taken: dict[Key, frozenset[Group]] = {}
        self._ends: list[tuple[datetime, Key]] = []
        self._end_of: dict[Key, datetime] = {}

    def update(
        self, entity: Key, stored: Row | None, expected: Row | None, reserved: frozenset[Group], now: datetime | None
    ) -> tuple[set[Group], set[Group]]:
        """Counts an entity anew; answers in which groups the stored count changed, and in which a place came free."""
        before, takes = self._in_stored.get(entity, frozenset()), self._in_taken.get(entity, frozenset())
        after = self._groups(entity, stored, now)
        taking = after | reserved | self._groups(entity, expected, now)
        _replace(self._in_stored, entity, after)
        _replace(self._in_taken, entity, taking)
        _move(self.stored, before, after)
        _move(self.taken, takes, taking)
        return set(before ^ after), set(takes - taking)

    def _groups(self, entity: Key, row: Row | None, now: datetime | None) -> frozenset[Group]:
        if row is None:
            return frozenset()
        found = set()
        for group, until in self.count.groups(row):
            if until is None:
                found.add(group)
            elif now is None or until > now:
                found.add(group)
                if self._end_of.get(entity) != until:
                    self._end_of[entity] = until
                    heapq.heappush(self._ends, (until, entity))
        return frozenset(found)

    def members(self, group: Group) -> list[Key]:
        """Who takes a place, in order; for people, as it looks at everyone."""
        return sorted(entity for entity, groups in self._in_taken.items() if group in groups)

    def next_end(self) -> datetime | None:
        return self._ends[0][0] if self._ends else None

    def ended(self, now: datetime) -> Iterator[Key]:
        while self._ends and self._ends[0][0] <= now:
            until, entity = heapq.heappop(self._ends)
            if self._end_of.get(entity) == until:
                del self._end_of[entity]
            yield entity


def _replace(members: dict[Key, frozenset[Group]], entity: Key, groups: frozenset[Group]) -> None:
    if groups:
        members[entity] = groups
    else:
        members.pop(entity, None)


def _move(counts: Counter[Group], before: frozenset[Group], after: frozenset[Group]) -> None:
    for group in before - after:
        counts[group] -= 1
        if not counts[group]:
            del counts[group]
    for group in after - before:
        counts[group] += 1
