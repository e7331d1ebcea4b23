"""Rests: a decision that goes through many rows is not repeated for each of them that changes.

Without rests, draining a node of 250 pods would run through all that are left each time that one leaves.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.store import Bucket, Topic
from haulout.cluster.view import OUTCOME
from haulout.kernel.rooms import Subject

# A decision takes about 10 µs for each row, so that it keeps the loop busy for a hundredth of the time at most.
MANY_ROWS = 50
REST_FOR_EACH_ROW = timedelta(milliseconds=1)
LONGEST_REST_FOR = timedelta(seconds=1)


def may_wait(topic: Topic) -> bool:
    """Whether a change of the topic is one of many of its sort, so that a subject at rest takes them in together.

    Single rows and counts wake at once: the subject's own object, its configuration, its grants, its limits.
    """
    return isinstance(topic, Bucket) or (isinstance(topic, Key) and topic.kind == OUTCOME)


class Rests:
    """The subjects that rest, each until an instant, and which of them are to be asked then."""

    def __init__(self) -> None:
        self._until: dict[Subject, datetime] = {}
        self._waiting: set[Subject] = set()
        self._ends: list[tuple[datetime, Subject]] = []

    def __len__(self) -> int:
        return len(self._until) + len(self._waiting)

    def asked(self, subject: Subject, rows: int, now: datetime) -> None:
        """Let a subject rest that has just been asked and went through so many rows."""
        if rows > MANY_ROWS:
            self._until[subject] = now + min(rows * REST_FOR_EACH_ROW, LONGEST_REST_FOR)
            self._waiting.discard(subject)
        elif self._until:
            self.forget(subject)

    def delay(self, subject: Subject, now: datetime) -> bool:
        """Whether the subject rests. If so, `take_rested` returns it when the rest is over."""
        until = self._until.get(subject) if self._until else None
        if until is None or until <= now:
            return False
        if subject not in self._waiting:
            self._waiting.add(subject)
            heapq.heappush(self._ends, (until, subject))
        return True

    def take_rested(self, now: datetime) -> Iterator[Subject]:
        """Take out the subjects that are to be asked because their rest is over."""
        while self._ends and self._ends[0][0] <= now:
            until, subject = heapq.heappop(self._ends)
            if subject in self._waiting and self._until.get(subject) == until:
                self._waiting.discard(subject)
                yield subject

    def next_instant(self) -> datetime | None:
        return self._ends[0][0] if self._ends else None

    def forget(self, subject: Subject) -> None:
        self._until.pop(subject, None)
        self._waiting.discard(subject)

    def clear(self) -> None:
        for part in (self._until, self._waiting, self._ends):
            part.clear()
