"""The actor's timers: subjects to be asked again, objects to be looked at, proofs to be repeated."""

from __future__ import annotations

import heapq
from datetime import datetime

from haulout.cluster.key import Key
from haulout.kernel.rooms import Subject


class Timers:
    """Instants at which a subject, an object or a proof is due.

    Equal instants keep the order in which they were set.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[datetime, int, Subject | Key]] = []
        self._number = 0

    def at(self, instant: datetime, what: Subject | Key) -> None:
        """Set a timer. Whether it still matters is checked when it is due."""
        self._number += 1
        heapq.heappush(self._heap, (instant, self._number, what))

    def take_due(self, now: datetime) -> Subject | Key | None:
        """Take out the first entry that is due; None: there is none."""
        return heapq.heappop(self._heap)[2] if self._heap and self._heap[0][0] <= now else None

    def next_instant(self) -> datetime | None:
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        self._heap.clear()
