"""Outcomes: what became of a message, kept for as long as a decision reads it."""

from __future__ import annotations

from datetime import datetime

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import OUTCOME, View
from haulout.core.action import Label, Send
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.kernel.requests import Answer, Done, Lost, Refused
from tests.build.desk import Cluster, Desk, Script, steps
from tests.build.rows import at, node

A, B = node_key("a"), node_key("b")
MAIL = Key("", OUTCOME, "", "mail")
HELLO = Send("mail", "smtp", "hello")


def tells(key: Key, view: View, now: datetime) -> Decision:
    """Send a mail, try again after a failure, and store that it was delivered."""
    row = view.get(key, NodeRow)
    if row is None or "told" in row.labels:
        return NOTHING
    outcome = view.outcome("mail")
    match outcome.state if outcome else "unsent":
        case "unsent" | "failed":
            return steps(HELLO)
        case "done":
            return steps(Label(key, "told", "yes"))
    return NOTHING


def reads_only(view: View, now: datetime) -> Decision:
    view.outcome("mail")
    return NOTHING


def desk_of_tellers() -> Desk:
    return Desk(Decider("teller", "Node", tells), world=Cluster(node("a"))).begin()


def outcome(desk: Desk) -> tuple[str, str] | None:
    row = desk.store.row(MAIL)
    return (row.state, row.error) if isinstance(row, Value) else None


def test_a_message_is_pending_as_soon_as_it_is_sent_and_blocks_nobody() -> None:
    desk = desk_of_tellers()
    assert [request.body for request in desk.tray] == [HELLO]
    assert outcome(desk) == ("pending", "")
    desk.world.label(A, note="1")
    desk.watch()
    assert len(desk.handed_out) == 1


def test_done_is_read_and_forgotten_once_the_state_is_stored() -> None:
    desk = desk_of_tellers()
    desk.answer(desk.only(), Done())
    assert outcome(desk) == ("done", "")
    desk.meet(desk.only())
    assert desk.world.objects[A].labels == {"told": "yes"}
    assert outcome(desk) is None


@pytest.mark.parametrize(
    "answer, error", [(Refused(0, "ValueError: no"), "ValueError: no"), (Lost("timed out"), "timed out")]
)
def test_a_failure_is_an_outcome_and_the_decision_sends_again(answer: Answer, error: str) -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, lambda view, now: steps(HELLO) if view.outcome("mail") is None else NOTHING)
    desk.answer(desk.only(), answer)
    assert outcome(desk) == ("failed", error)
    desk.wants(script, A, lambda view, now: steps(HELLO) if view.outcome("mail") else NOTHING)
    # Why the last attempt failed stands until this one has an end.
    assert outcome(desk) == ("pending", error)
    assert len(desk.tray) == 1
    desk.answer(desk.only(), Refused(0, "again"))
    # It was sent once more at once.
    assert outcome(desk) == ("pending", "again")
    row = desk.store.row(MAIL)
    assert isinstance(row, Value)
    assert row.failures == 2


def test_a_decision_that_cannot_be_made_for_once_does_not_send_again_what_it_sent() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    told = lambda view, now: steps(HELLO) if view.outcome("mail") is None else NOTHING  # noqa: E731
    desk.wants(script, A, told)
    desk.answer(desk.only(), Done())
    desk.wants(script, A, ValueError("a bug"))
    desk.wants(script, A, told)
    assert len(desk.handed_out) == 1


def test_while_it_is_pending_the_same_message_is_not_sent_again() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, lambda view, now: steps(HELLO) if view.outcome("mail") or now == at(0) else NOTHING)
    desk.poke(script)
    desk.poke(script)
    assert len(desk.handed_out) == 1


def test_it_is_kept_while_anybody_reads_it() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"), node("b"))).begin()
    desk.wants(script, A, lambda view, now: steps(HELLO) if view.outcome("mail") is None else NOTHING)
    desk.wants(script, B, reads_only)
    desk.answer(desk.only(), Done())
    desk.wants(script, A, NOTHING)
    assert outcome(desk) == ("done", "")
    desk.wants(script, B, NOTHING)
    assert outcome(desk) is None


def test_what_became_of_a_message_that_nobody_asks_about_any_more_is_not_written_down() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, lambda view, now: steps(HELLO) if view.outcome("mail") is None else NOTHING)
    desk.wants(script, A, NOTHING)
    assert outcome(desk) is None
    desk.answer(desk.only(), Done())
    assert outcome(desk) is None


def test_the_outcomes_of_a_node_that_is_gone_go_with_it() -> None:
    desk = desk_of_tellers()
    desk.world.delete(A)
    desk.watch()
    assert outcome(desk) is None
    desk.answer(desk.only(), Done())
    assert desk.kernel.size() == 0


def test_a_message_waits_for_the_write_of_its_step_and_for_those_before() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, steps(Label(A, "x", "1"), HELLO))
    assert HELLO not in desk.bodies()
    script.wishes[A] = reads_only
    desk.meet(desk.only())
    assert desk.bodies() == [HELLO]


def test_a_refused_write_withholds_the_message() -> None:
    script = Script()
    desk = Desk(script.decider, world=Cluster(node("a"))).begin()
    desk.wants(script, A, Decision(actions=((Label(A, "x", "1"), HELLO),)))
    script.wishes.clear()
    desk.meet(desk.only(), "422")
    assert not desk.tray
    assert outcome(desk) is None
