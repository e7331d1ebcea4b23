"""The readers of a topic, from one subject to many and back."""

from __future__ import annotations

import pytest

from haulout.cluster.key import node_key
from haulout.cluster.topics import Topic
from haulout.cluster.view import Record
from haulout.kernel.askings import MOST_IN_TUPLE, Askings
from haulout.kernel.rooms import Subject

TOPIC = node_key("a")


def record(*topics: Topic) -> Record:
    made = Record()
    made.topics.update(topics)
    return made


@pytest.mark.parametrize("many", [1, 2, MOST_IN_TUPLE, MOST_IN_TUPLE + 1, 3 * MOST_IN_TUPLE])
def test_every_reader_of_a_topic_is_known_until_it_reads_something_else(many: int) -> None:
    unread: list[Topic] = []
    askings = Askings(unread.append)
    subjects = [Subject("d", node_key(f"n{number}")) for number in range(many)]
    for number, subject in enumerate(subjects, 1):
        askings.remember(subject, record(TOPIC), frozenset(), None)
        askings.remember(subject, record(TOPIC), frozenset(), None)
        assert sorted(askings.readers.get(TOPIC, ())) == sorted(subjects[:number])
    for number, subject in enumerate(subjects, 1):
        assert unread == []
        askings.remember(subject, record(), frozenset(), None)
        assert sorted(askings.readers.get(TOPIC, ())) == sorted(subjects[number:])
    assert unread == [TOPIC]
    assert askings.readers == {}
