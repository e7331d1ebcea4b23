"""Queues before limits, so that the cost of a freed place does not grow with the number of subjects that wait for it.

Subjects with the same needs wait in one queue. While all needs of a queue are met, each by any one of its limits, its
subjects are offered the room one by one, in order. A subject that is offered room leaves the queue. Either it takes the
place, or its decision has read something else that keeps it and that will wake it.
"""

from __future__ import annotations

import heapq
from collections.abc import Set
from typing import NamedTuple

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import Count, RoomSet
from haulout.cluster.store import Store
from haulout.cluster.topics import CountOf
from haulout.core.holds import Rank


class Subject(NamedTuple):
    """One decision function, asked about one row."""

    decider: str
    key: Key


class Order(msgspec.Struct, frozen=True, order=True):
    """The place of a subject among those that are due: by phase, then by the arbiter's order, then by key."""

    phase: int
    rank: Rank
    subject: Subject


class Queue:
    """The subjects that wait for the same set of rooms, in the order in which they are to be run."""

    def __init__(self) -> None:
        self._heap: list[Order] = []
        self._members: dict[Subject, Order] = {}

    def join(self, order: Order) -> None:
        self._members[order.subject] = order
        heapq.heappush(self._heap, order)

    def leave(self, subject: Subject) -> None:
        self._members.pop(subject, None)
        if len(self._heap) > 2 * len(self._members) + 8:
            self._heap = sorted(self._members.values())

    def first(self) -> Order | None:
        while self._heap and self._members.get(self._heap[0].subject) is not self._heap[0]:
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def __len__(self) -> int:
        return len(self._members)


class Rooms:
    """All queues of subjects that wait for room under limits, and the sets of rooms that may have opened."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[RoomSet, Queue] = {}
        self._sets_at: dict[CountOf, set[RoomSet]] = {}
        # The sets of rooms that each subject waits for.
        self.waits: dict[Subject, Set[RoomSet]] = {}
        # The sets that may have got room since this was last checked.
        self.opened: set[RoomSet] = set()

    def wait(self, order: Order, sets: Set[RoomSet]) -> None:
        """Put the subject into the queues of exactly these sets of rooms."""
        subject = order.subject
        for rooms in self.waits.pop(subject, ()):
            self._queues[rooms].leave(subject)
            if not self._queues[rooms]:
                self._close(rooms)
        if sets:
            self.waits[subject] = sets
        for rooms in sets:
            if rooms not in self._queues:
                self._queues[rooms] = Queue()
                for place in _places(rooms):
                    self._sets_at.setdefault(place, set()).add(rooms)
            self._queues[rooms].join(order)

    def free(self, place: CountOf) -> None:
        self.opened |= self._sets_at.get(place, set())

    def offer(self, before: Order | None) -> Subject | None:
        """Take out and return the first subject in order whose needs are met, if it comes before the given one."""
        best: Order | None = None
        for rooms in tuple(self.opened):
            first = self._queues[rooms].first() if rooms in self._queues else None
            if first is None or not self._is_open(rooms):
                self.opened.discard(rooms)
            elif best is None or first < best:
                best = first
        if best is None or (before is not None and before < best):
            return None
        self.wait(best, set())
        return best.subject

    def _is_open(self, rooms: RoomSet) -> bool:
        return all(any(self._store.has_room(limit) for limit in need) for need in rooms)

    def counts(self) -> set[tuple[str, Count]]:
        return {(place.cluster, place.of) for place in self._sets_at}

    def size(self) -> int:
        return len(self._queues) + len(self._sets_at) + len(self.waits)

    def _close(self, rooms: RoomSet) -> None:
        del self._queues[rooms]
        self.opened.discard(rooms)
        for place in _places(rooms):
            sets = self._sets_at[place]
            sets.discard(rooms)
            if not sets:
                del self._sets_at[place]


def _places(rooms: RoomSet) -> set[CountOf]:
    return {CountOf(limit.cluster, limit.count, limit.group) for need in rooms for limit in need}
