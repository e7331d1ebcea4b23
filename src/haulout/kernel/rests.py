"""Rests: a decision that has gone through many rows pauses before it runs again for changes of them (decision 0051).

Without rests, the drain of a node with 250 pods would go through all remaining pods each time that one leaves.
"""

from __future__ import annotations

import heapq
from datetime import datetime, timedelta
from typing import NamedTuple

from haulout.cluster.key import Key
from haulout.cluster.topics import Bucket, Topic
from haulout.cluster.view import OUTCOME, Record
from haulout.kernel.rooms import Subject

# A decision takes 10 to 20 µs for each row, so that it keeps the loop busy for a hundredth of the time at most.
REST_FOR_EACH_ROW = timedelta(milliseconds=2)
LONGEST_REST_FOR = timedelta(seconds=1)


class Rest(NamedTuple):
    """The pause of one subject after an asking that went through large buckets of rows."""

    until: datetime
    large_buckets: frozenset[Bucket]

    def covers(self, topic: Topic) -> bool:
        """Whether a change of the topic has to wait until the rest is over: that of a large bucket or of an outcome.

        All other changes wake the subject at once: its own object, its configuration, its grants, counts, small
        buckets.
        """
        return topic in self.large_buckets or (isinstance(topic, Key) and topic.kind == OUTCOME)


class Rests:
    """The subjects that rest, each until an instant, and which of them have to be asked then."""

    def __init__(self) -> None:
        self.resting: dict[Subject, Rest] = {}
        self._waiting: set[Subject] = set()
        self._ends: list[tuple[datetime, Subject]] = []

    def __len__(self) -> int:
        return len(self.resting) + len(self._waiting)

    def on_decision(self, subject: Subject, record: Record, now: datetime) -> None:
        """Let a subject rest that has just been asked and went through a large bucket."""
        if record.large_buckets:
            until = now + min(record.rows * REST_FOR_EACH_ROW, LONGEST_REST_FOR)
            self.resting[subject] = Rest(until, record.large_buckets)
            self._waiting.discard(subject)
        elif self.resting:
            self.forget(subject)

    def delay(self, subject: Subject, topic: Topic, now: datetime) -> bool:
        """Whether the subject rests from changes of the topic. If so, `take_rested` returns it when the rest is over."""
        rest = self.resting.get(subject)
        if rest is None or rest.until <= now or not rest.covers(topic):
            return False
        if subject not in self._waiting:
            self._waiting.add(subject)
            heapq.heappush(self._ends, (rest.until, subject))
        return True

    def take_rested(self, now: datetime) -> Subject | None:
        """Take out the first subject that has to be asked because its rest is over; None: there is no such subject."""
        while self._ends and self._ends[0][0] <= now:
            until, subject = heapq.heappop(self._ends)
            rest = self.resting.get(subject)
            if subject in self._waiting and rest is not None and rest.until == until:
                self._waiting.discard(subject)
                return subject
        return None

    def next_instant(self) -> datetime | None:
        return self._ends[0][0] if self._ends else None

    def forget(self, subject: Subject) -> None:
        self.resting.pop(subject, None)
        self._waiting.discard(subject)

    def clear(self) -> None:
        for part in (self.resting, self._waiting, self._ends):
            part.clear()
