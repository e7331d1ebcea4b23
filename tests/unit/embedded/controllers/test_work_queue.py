"""The work queue: an object whose sync fails delays no other object."""

from datetime import timedelta

import pytest

from haulout.embedded import VirtualTimers
from haulout.embedded.controllers.work_queue import WorkQueue
from tests.build.workloads import START


class Looks:
    def __init__(self, *unreadable: str) -> None:
        self.timers = VirtualTimers(START)
        self.unreadable = set(unreadable)
        self.seen: list[str] = []
        self.work: WorkQueue[str] = WorkQueue(self.timers, self.sync)

    def sync(self, key: str) -> None:
        self.seen.append(key)
        if key in self.unreadable:
            raise TypeError(f"{key} cannot be read")


def test_an_object_that_cannot_be_read_is_reported_and_stalls_nobody() -> None:
    looks = Looks("b")
    for key in "abc":
        looks.work.add(key)
    with pytest.raises(TypeError, match="b cannot be read"):
        looks.timers.run_due()
    looks.timers.run_due()
    assert looks.seen == ["a", "b", "c"]


def test_it_is_synced_again_later() -> None:
    looks = Looks("a")
    looks.work.add("a")
    with pytest.raises(TypeError):
        looks.timers.run_due()
    looks.unreadable.clear()
    looks.timers.run_for(timedelta(seconds=1))
    assert looks.seen == ["a", "a"]
