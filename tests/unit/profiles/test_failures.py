"""Failures of profiles, counted for as long as they last."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK
from haulout.surfaces.profiles.failures import FAILING, Failing, Growth

START = datetime(2026, 3, 1, tzinfo=UTC)
REQUEUE = timedelta(seconds=30)


def mark(node: str, since: datetime = START, profile: str = "os") -> Value:
    return Value(key=Key("", MARK, FAILING, f"{node}/{profile}"), value=Failing(profile, since))


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_failure_that_lasts_counts_once_an_interval() -> None:
    growth = Growth()
    found = [growth.due([mark("a")], REQUEUE, after(seconds)) for seconds in (0, 29, 30, 31, 95)]
    assert found == [{}, {}, {"os": 1}, {}, {"os": 2}]


def test_nodes_add_up_and_profiles_do_not() -> None:
    marks = [mark("a"), mark("b"), mark("c", profile="bios")]
    assert Growth().due(marks, REQUEUE, after(60)) == {"os": 4, "bios": 2}


def test_a_failure_that_ends_and_begins_again_starts_from_zero() -> None:
    growth = Growth()
    growth.due([mark("a")], REQUEUE, after(60))
    assert growth.due([], REQUEUE, after(90)) == {}
    assert growth.due([mark("a", after(100))], REQUEUE, after(120)) == {}
    assert growth.due([mark("a", after(100))], REQUEUE, after(130)) == {"os": 1}


def test_a_clock_that_was_set_back_takes_nothing_away() -> None:
    growth = Growth()
    growth.due([mark("a")], REQUEUE, after(90))
    assert growth.due([mark("a")], REQUEUE, after(0)) == {}
    assert growth.due([mark("a")], REQUEUE, after(120)) == {"os": 1}


def test_no_interval_is_shorter_than_a_second() -> None:
    assert Growth().due([mark("a")], timedelta(0), after(2)) == {"os": 2}
