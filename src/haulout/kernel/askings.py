"""The last asking of each subject: what its decision read, which rows it made, and when to run it again."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Set
from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import RoomSet
from haulout.cluster.topics import Topic
from haulout.cluster.view import FactDemand, Record
from haulout.kernel.rooms import Subject

# Up to so many readers of a topic are kept as a tuple. A set takes four to six times as much memory, and nearly all topics
# have fewer readers than there are decision functions for a node.
MOST_IN_TUPLE = 16


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a decision that was run: what it read, the rows that it made, and when to run it again.

    There is one for each of a hundred thousand rows: a tuple of topics takes a fifth of what a set takes.
    """

    topics: tuple[Topic, ...]
    rooms: Set[RoomSet]
    facts: Mapping[Key, FactDemand]
    made: frozenset[Key]
    until: datetime | None


class Askings:
    """The last asking of each subject, found by subject, by a topic that it read, and by the instant of its `until`.

    `on_unread` is called with each topic that has lost its last reader.
    """

    def __init__(self, on_unread: Callable[[Topic], None]) -> None:
        self._on_unread = on_unread
        # The last asking of each subject.
        self.asked: dict[Subject, Asked] = {}
        # The subjects that have read each topic.
        self.readers: dict[Topic, tuple[Subject, ...] | set[Subject]] = {}
        self._timers: list[tuple[datetime, Subject]] = []

    def __len__(self) -> int:
        return len(self.asked) + len(self.readers)

    def remember(self, subject: Subject, record: Record, made: frozenset[Key], until: datetime | None) -> Asked | None:
        """Replace the last asking of a subject, and return the one before."""
        old = self.asked.get(subject)
        topics = old.topics if old else ()
        # Most decisions read the same as the last time. A tuple of topics names each once.
        if len(topics) != len(record.topics) or not record.topics.issuperset(topics):
            before, topics = set(topics), tuple(record.topics)
            for topic in before - record.topics:
                self._unread(topic, subject)
            for topic in record.topics - before:
                self._read(topic, subject)
        self.asked[subject] = Asked(topics, record.rooms, record.facts, made, until)
        if until is not None and (old is None or old.until != until):
            heapq.heappush(self._timers, (until, subject))
            self._trim_timers()
        return old

    def forget(self, subject: Subject) -> Asked | None:
        """Remove the last asking of a subject and return it."""
        asked = self.asked.pop(subject, None)
        if asked is not None:
            for topic in asked.topics:
                self._unread(topic, subject)
            self._trim_timers()
        return asked

    def next_instant(self) -> datetime | None:
        """Return the earliest `until`."""
        while self._timers and not self._stands(*self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def take_due(self, now: datetime) -> Subject | None:
        """Take out the first subject whose `until` has come; None: no subject is due."""
        while self._timers and self._timers[0][0] <= now:
            instant, subject = heapq.heappop(self._timers)
            if self._stands(instant, subject):
                return subject
        return None

    def _read(self, topic: Topic, subject: Subject) -> None:
        readers = self.readers.get(topic, ())
        if isinstance(readers, set):
            readers.add(subject)
        elif len(readers) < MOST_IN_TUPLE:
            self.readers[topic] = (*readers, subject)
        else:
            self.readers[topic] = {*readers, subject}

    def _unread(self, topic: Topic, subject: Subject) -> None:
        readers = self.readers[topic]
        if isinstance(readers, set):
            readers.discard(subject)
        elif len(readers) > 1:
            self.readers[topic] = tuple([reader for reader in readers if reader != subject])
            return
        else:
            # Most topics have one reader: this subject.
            readers = ()
        if not readers:
            del self.readers[topic]
            self._on_unread(topic)

    def _trim_timers(self) -> None:
        """Remove the timers of subjects that are gone or have another timer, once they are many."""
        if len(self._timers) > 2 * len(self.asked) + 8:
            self._timers = sorted(timer for timer in set(self._timers) if self._stands(*timer))

    def _stands(self, instant: datetime, subject: Subject) -> bool:
        asked = self.asked.get(subject)
        return asked is not None and asked.until == instant
