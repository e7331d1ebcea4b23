"""Interruptions of watches: long, repeated and denied ones are reported, ordinary ones are not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.store import Store
from haulout.runtime.metrics import Metrics
from haulout.runtime.outages import Outage
from haulout.runtime.tables import TableSink
from tests.build.clock import ManualClock

START = datetime(2026, 3, 1, 10, tzinfo=UTC)


class Watch:
    """A watch of nodes that the test interrupts. Its outages are collected, in seconds."""

    def __init__(self) -> None:
        self.clock = ManualClock(START)
        self.outages: list[Outage] = []
        projector = Projector(RESOURCES["Node"], "c", Keep())
        self._sink = TableSink(Store(), projector, self.clock, Metrics(), lambda: None, self.outages.append)

    def down(self, code: str = "unreachable", *, seconds: float = 0.0, why: str = "") -> Watch:
        self._sink.trouble(code, why or code)
        return self.passes(seconds)

    def up(self, *, seconds: float = 0.0) -> Watch:
        self._sink.fine()
        return self.passes(seconds)

    def passes(self, seconds: float) -> Watch:
        self.clock.move_to(self.clock.now() + timedelta(seconds=seconds))
        return self

    @property
    def told(self) -> list[tuple[str, float, float]]:
        """Return cause, begin and length of each report."""
        return [
            (outage.why, (outage.began_at - START).total_seconds(), outage.lasted_for.total_seconds())
            for outage in self.outages
        ]


@pytest.mark.parametrize("code", ["unreachable", "failing", "throttled", "garbled"])
def test_a_short_one_is_ordinary(code: str) -> None:
    assert Watch().down(code, seconds=9.9).up().told == []


def test_a_long_one_is_told_when_it_is_over_with_its_last_cause() -> None:
    watch = Watch().passes(60).down("failing", seconds=5).down("unreachable", why="Connection refused", seconds=30)
    assert watch.told == []
    assert watch.up().up().told == [("Connection refused", 60, 35)]
    (outage,) = watch.outages
    assert (outage.cluster, outage.kind, outage.code) == ("c", "Node", "unreachable")


@pytest.mark.parametrize("code", ["unauthorized", "unreadable"])
def test_a_denial_is_told_however_short_and_whatever_came_with_it(code: str) -> None:
    watch = Watch().down("unreachable", seconds=0.5).down(code, seconds=0.5).down("failing", seconds=0.5).up()
    assert watch.told == [(code, 0, 1.5)]


def test_versions_that_grow_old_are_no_outage() -> None:
    assert Watch().down("expired", seconds=60).up().told == []
    assert Watch().down("expired", seconds=60).down("failing", seconds=10).up().told == [("failing", 60, 10)]


def test_one_that_comes_and_goes_is_told_once() -> None:
    watch = Watch()
    for _ in range(10):
        watch.down(seconds=1).up(seconds=5)
    assert watch.told == [("unreachable", 0, 13)]
    watch.passes(5).down(seconds=1).up()
    assert len(watch.told) == 1, "after a calm it is another, and short"


def test_a_denial_among_short_ones_is_told_once_too() -> None:
    watch = Watch().down(seconds=9).up(seconds=5).down(seconds=1).up(seconds=5)
    for _ in range(2):
        watch.down("unauthorized", seconds=1).up(seconds=5)
    assert watch.told == [("unreachable", 0, 15), ("unauthorized", 0, 21)]


def test_a_long_one_in_the_middle_of_short_ones_is_told_itself() -> None:
    watch = Watch().down(seconds=10).up(seconds=5).down(seconds=1).up(seconds=4).down(seconds=20).up()
    assert watch.told == [("unreachable", 0, 10), ("unreachable", 20, 20)]
