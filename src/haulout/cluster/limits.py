"""Counting rows in groups, and limits on such counts (decision 0024)."""

from __future__ import annotations

import heapq
import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row

Group = Hashable
NOWHERE: frozenset[Group] = frozenset()
IN_NONE: tuple[frozenset[Group], datetime | None] = (NOWHERE, None)


class Membership(NamedTuple):
    """The statement of a count that a row belongs to a group.

    `until`: it belongs there only before this instant; None: for as long as the row does not change.
    """

    group: Group
    until: datetime | None = None


class AtLeast(NamedTuple):
    """The topic for whether a group has at least so many members.

    A subject that has read only this is not woken by other changes of the number.
    """

    group: Group
    members: int


class AnotherGroup(msgspec.Struct, frozen=True):
    """A stand-in for the group of a limit: the limit is on the number of groups that have members.

    A row that would join a group that has members already needs `Joined` instead.
    """


class Joined(msgspec.Struct, frozen=True):
    """A stand-in for the group of a limit: there is room in a group that has members already.

    It is used beside `AnotherGroup`: a row that joins such a group does not raise the number of groups.
    """

    group: Group


class Count(msgspec.Struct, frozen=True):
    """A count of the rows of a kind in each group. Subclasses are values: equal ones share one tally."""

    @property
    def kind(self) -> str:
        return "Node"

    def groups(self, row: Row) -> Iterable[Membership]:
        """Return the groups that a row belongs to; none unless a subclass says so."""
        return ()

    def describe(self, group: Group) -> str:
        """Return a description of what is counted, for messages."""
        return f"{type(self).__name__} {group}"


class Limit(msgspec.Struct, frozen=True):
    """A limit: at most `most` rows may be in a group. It has room while fewer are in it or on their way into it."""

    count: Count
    group: Group
    most: int
    cluster: str = ""


# A need is met while any one of its limits has room. A set of rooms is open while each of its needs is met.
Need = frozenset[Limit]
RoomSet = frozenset[Need]

# If there are at most so many ways to meet all needs, each way is a set of rooms of its own. Otherwise one set holds
# all needs.
MOST_WAYS = 8


def room_sets(needs: Iterable[Need]) -> frozenset[RoomSet]:
    """Return the sets of rooms for which a subject with these needs waits.

    Where a need can be met by several limits, there is one set for each way. This separates the limits that all
    subjects share (another domain) from those that only some share (this domain), so that a place that comes free opens
    one queue. The number of ways doubles with each such need. Beyond `MOST_WAYS` there is one set that holds all needs,
    and subjects with the same alternatives share its queue.
    """
    distinct = frozenset(needs)
    if math.prod(map(len, distinct)) > MOST_WAYS:
        return frozenset({distinct})
    ways = itertools.product(*distinct)
    return frozenset(frozenset(frozenset({limit}) for limit in way) for way in ways)


class Tally:
    """The members of one `Count` in one cluster.

    `stored`: the members that the rows show.
    `taken`: these, the rows that a write under way will bring in, and reserved places. A write under way can take a
    place, but frees one only once it is stored.
    """

    def __init__(self, count: Count) -> None:
        self.count = count
        self.stored: Counter[Group] = Counter()
        self.taken: Counter[Group] = Counter()
        self._in_stored: dict[Key, frozenset[Group]] = {}
        self._in_taken: dict[Key, frozenset[Group]] = {}
        # When memberships end, the earliest first. Most counts do not depend on time, and have no such entries.
        self.ends: list[tuple[datetime, Key]] = []
        self._end_of: dict[Key, datetime] = {}

    def update(
        self, entity: Key, stored: Row | None, expected: Row | None, reserved: frozenset[Group], now: datetime | None
    ) -> tuple[frozenset[Group], frozenset[Group]]:
        """Count an entity again.

        Return the groups whose stored count changed (see `AtLeast`), and those that have room now.
        """
        after, stored_until = self._groups(stored, now)
        coming, expected_until = self._groups(expected, now) if expected is not None else IN_NONE
        if not (after or coming or reserved or entity in self._in_taken or entity in self._end_of):
            # The row is in no group of this count. Where there are many counts, that is so for nearly every change.
            return NOWHERE, NOWHERE
        if stored_until is not None or expected_until is not None or entity in self._end_of:
            self._end(entity, min([end for end in (stored_until, expected_until) if end is not None], default=None))
        return self._recount_stored(entity, after), self._recount_taken(entity, after | reserved | coming)

    def _recount_stored(self, entity: Key, after: frozenset[Group]) -> frozenset[Group]:
        """Note the groups in which the rows show an entity. Return those whose stored count has changed."""
        before = self._in_stored.get(entity, NOWHERE)
        if before == after:
            return NOWHERE
        _replace(self._in_stored, entity, after)
        # The number changes by one, so it crosses exactly one threshold: the greater of before and after.
        crossed = {AtLeast(group, self.stored[group]) for group in before - after}
        _move(self.stored, before, after)
        crossed |= {AtLeast(group, self.stored[group]) for group in after - before}
        return before ^ after | crossed

    def _recount_taken(self, entity: Key, taking: frozenset[Group]) -> frozenset[Group]:
        """Note the groups in which an entity takes a place. Return those in which there is room now."""
        takes = self._in_taken.get(entity, NOWHERE)
        if takes == taking:
            return NOWHERE
        _replace(self._in_taken, entity, taking)
        _move(self.taken, takes, taking)
        freed: set[Group] = set(takes - taking)
        if any(not self.taken[group] for group in freed):
            freed.add(AnotherGroup())
        freed |= {Joined(group) for group in taking - takes if self.taken[group] == 1}
        return frozenset(freed)

    def has_room(self, group: Group, most: int) -> bool:
        match group:
            case AnotherGroup():
                return len(self.taken) < most
            case Joined():
                return self.taken[group.group] > 0
            case _:
                return self.taken[group] < most

    def _groups(self, row: Row | None, now: datetime | None) -> tuple[frozenset[Group], datetime | None]:
        """Return the groups that a row belongs to now, and when the first of these memberships ends."""
        if row is None:
            return IN_NONE
        # Checked before the loop: most rows are in no group.
        groups = self.count.groups(row)
        if not groups:
            return IN_NONE
        found = [each for each in groups if each.until is None or now is None or each.until > now]
        if not found:
            return IN_NONE
        ends = [each.until for each in found if each.until is not None]
        return frozenset([each.group for each in found]), min(ends, default=None)

    def _end(self, entity: Key, until: datetime | None) -> None:
        if self._end_of.get(entity) == until:
            return
        if until is None:
            del self._end_of[entity]
        else:
            self._end_of[entity] = until
            heapq.heappush(self.ends, (until, entity))
        if len(self.ends) > 2 * len(self._end_of) + 8:
            self.ends = sorted((until, entity) for entity, until in self._end_of.items())

    def members(self, group: Group) -> list[Key]:
        """Return the objects that take a place in a group, in order.

        It goes through every entity, so use it for messages only.
        """
        if group == AnotherGroup():
            return sorted(self._in_taken)
        return sorted(entity for entity, groups in self._in_taken.items() if group in groups)

    def next_end(self) -> datetime | None:
        while self.ends and self._end_of.get(self.ends[0][1]) != self.ends[0][0]:
            heapq.heappop(self.ends)
        return self.ends[0][0] if self.ends else None

    def take_ended(self, now: datetime) -> Iterator[Key]:
        while (until := self.next_end()) is not None and until <= now:
            _, entity = heapq.heappop(self.ends)
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
