"""Delays of writes (K13), without the rest of the kernel: which write waits until when, and what ends the wait."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.key import Key, node_key
from haulout.core.action import Evict, Label
from haulout.kernel.delays import AWAY, HOME, Delays, Spans
from haulout.kernel.jobs import Job
from haulout.kernel.requests import Done, Refused
from tests.build.rows import at, node
from tests.unit.kernel.wakes import A, B, NotedWakes, subject

FAR = node_key("far", "elsewhere")


def labelling(target: Key = A, value: str = "1") -> Job:
    return Job(target, (Label(target, "x", value),))


def evicting(uid: str = "u") -> Job:
    key = Key("", "Pod", "n", "p")
    return Job(key, other=Evict(key, uid))


def test_the_delay_doubles_with_each_failure_up_to_the_longest() -> None:
    spans = Spans(timedelta(seconds=1), timedelta(seconds=10))
    assert [spans.after(failures).total_seconds() for failures in (1, 2, 3, 4, 5, 1000)] == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize("target, spans", [(A, HOME), (FAR, AWAY)], ids=["own cluster", "workload cluster"])
def test_a_refusal_delays_the_same_write_of_the_same_subject(target: Key, spans: Spans) -> None:
    delays = Delays(NotedWakes())
    until = delays.on_refusal(subject(), labelling(target), Refused(500), None, at(0))
    assert until == at(0) + spans.first
    assert delays.until(subject(), labelling(target), at(0)) == until
    assert delays.until(subject(), labelling(target), until) is None
    assert delays.until(subject("b"), labelling(target), at(0)) is None
    assert delays.until(subject(), labelling(target, "2"), at(0)) is None


def test_failures_in_a_row_count_until_the_write_succeeds() -> None:
    delays = Delays(NotedWakes())
    waits = [delays.on_refusal(subject(), evicting(), Refused(500), None, at(0)) for _ in range(3)]
    assert waits == [at(1), at(2), at(4)]
    delays.on_success(subject(), evicting())
    assert delays.size() == 0
    assert delays.on_refusal(subject(), evicting(), Refused(500), None, at(0)) == at(1)


def test_a_budgets_refusals_do_not_double() -> None:
    delays = Delays(NotedWakes())
    refusal = Refused(429, retry_after=10.0, cause="DisruptionBudget")
    assert {delays.on_refusal(subject(), evicting(), refusal, None, at(0)) for _ in range(5)} == {at(1)}
    assert delays.until(subject("b"), labelling(B), at(0)) is None


def test_a_conflict_ends_with_the_newer_version() -> None:
    loop = NotedWakes()
    delays = Delays(loop)
    delays.on_refusal(subject(), labelling(), Refused(409), node("a", version=3), at(0))
    assert delays.has_conflict(A)
    # As long as the newer version has not arrived, the same write would conflict again.
    assert delays.until(subject(), labelling(), at(5)) == at(6)
    delays.end_conflict(A)
    assert loop.woken == [subject()]
    assert delays.until(subject(), labelling(), at(0)) is None
    assert delays.size() == 0


def test_a_servers_pause_delays_every_write_to_it_and_none_to_others() -> None:
    delays = Delays(NotedWakes())
    delays.note_pause("", Refused(429, retry_after=7.0), at(0))
    assert delays.until(subject("b"), labelling(B), at(0)) == at(7)
    assert delays.until(subject("b"), labelling(FAR), at(0)) is None
    assert (delays.is_paused(""), delays.is_paused("elsewhere")) == (True, False)
    delays.tick(at(6.9))
    assert delays.is_paused("")
    delays.tick(at(7))
    assert not delays.is_paused("")


@pytest.mark.parametrize(
    "answer",
    [
        Done(),
        Refused(500, retry_after=7.0),
        Refused(429),
        Refused(429, retry_after=7.0, cause="DisruptionBudget"),
        Refused(429, 'admission webhook "x" denied the request', retry_after=7.0),
    ],
    ids=repr,
)
def test_no_other_answer_pauses_a_server(answer: Done | Refused) -> None:
    delays = Delays(NotedWakes())
    delays.note_pause("", answer, at(0))
    assert not delays.is_paused("")


def test_a_pause_is_obeyed_for_five_minutes_at_most() -> None:
    delays = Delays(NotedWakes())
    delays.note_pause("", Refused(429, retry_after=1e12), at(0))
    assert delays.until(subject(), labelling(), at(0)) == at(300)


def test_a_cluster_that_is_reached_again_has_no_delays() -> None:
    loop = NotedWakes()
    delays = Delays(loop)
    delays.on_refusal(subject(), labelling(FAR), Refused(0), None, at(0))
    delays.on_refusal(subject("b"), labelling(B), Refused(500), None, at(0))
    delays.note_pause("elsewhere", Refused(429, retry_after=7.0), at(0))
    delays.on_reconnect("elsewhere")
    assert loop.woken == [subject()]
    assert delays.until(subject(), labelling(FAR), at(0)) is None
    assert delays.until(subject("b"), labelling(B), at(0)) == at(1)


def test_delays_that_are_long_over_are_forgotten_by_a_subject_at_rest() -> None:
    delays = Delays(NotedWakes())
    delays.on_refusal(subject(), labelling(), Refused(500), None, at(0))
    delays.rest(subject(), at(61))
    assert delays.size() == 1
    delays.rest(subject(), at(61.1))
    assert delays.size() == 0
