"""Statements and outcomes, without the rest of the kernel: what is reported once, what again, and the rows of messages."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import OUTCOME
from haulout.core.action import Evict, Refusal, Say, Send, Tell
from haulout.kernel.jobs import Batch, Job
from haulout.kernel.outbox import Outbox
from haulout.kernel.outcomes import Outcomes
from haulout.kernel.requests import Body, Done, Lost, Refused, Telling
from haulout.kernel.statements import Statements
from tests.build.rows import at, node
from tests.unit.kernel.wakes import A, subject

FULL, EMPTY = Say("full"), Say("empty")
MAIL = Send("mail", "smtp", "hello", settings="by one server")
ROW = Key("", OUTCOME, "", "mail")


def bodies(outbox: Outbox) -> list[Body]:
    return [request.body for request in outbox.take()]


def test_a_statement_is_made_once_for_as_long_as_it_stands() -> None:
    outbox = Outbox()
    statements = Statements(Store(), outbox)
    for _ in range(3):
        statements.retract(subject(), [Batch(tells=(FULL,))])
        statements.tell_news(subject(), (FULL,))
    assert bodies(outbox) == [FULL]


def test_a_statement_that_was_retracted_is_made_again() -> None:
    outbox = Outbox()
    statements = Statements(Store(), outbox)
    for stated in (FULL, EMPTY, FULL):
        statements.retract(subject(), [Batch(tells=(stated,))])
        statements.tell_news(subject(), (stated,))
    assert bodies(outbox) == [FULL, EMPTY, FULL]
    statements.forget(subject())
    assert statements.size() == 0


def test_each_subject_states_for_itself() -> None:
    outbox = Outbox()
    statements = Statements(Store(), outbox)
    statements.tell_news(subject("a"), (FULL,))
    statements.tell_news(subject("b"), (FULL,))
    assert bodies(outbox) == [FULL, FULL]


def test_an_event_names_its_object_as_it_is_stored() -> None:
    store, outbox = Store(), Outbox()
    event = Tell(A, "Cordoned", "Cordon", "it is", "haulout")
    Statements(store, outbox).tell([event])
    store.put(node("a"))
    Statements(store, outbox).tell([event])
    assert bodies(outbox) == [Telling(event, None), Telling(event, node("a"))]


def test_a_message_is_not_sent_twice_at_once() -> None:
    store, outbox = Store(), Outbox()
    outcomes = Outcomes(store, outbox)
    outcomes.send([MAIL, MAIL], at(0))
    assert bodies(outbox) == [MAIL]
    assert store.row(ROW) == Value(key=ROW, state="pending", value=at(0))
    outcomes.on_delivery(MAIL, Done(), at(1))
    assert store.row(ROW) == Value(key=ROW, state="done", value=at(1))


def test_a_failed_message_keeps_its_error_while_it_is_sent_again() -> None:
    store, outbox = Store(), Outbox()
    outcomes = Outcomes(store, outbox)
    outcomes.send([MAIL], at(0))
    outcomes.on_delivery(MAIL, Lost("no answer"), at(1))
    failed = Value(key=ROW, state="failed", value=at(1), error="no answer", failures=1, settings="by one server")
    assert store.row(ROW) == failed
    outcomes.send([MAIL], at(2))
    assert store.row(ROW) == Value(key=ROW, state="pending", value=at(2), error="no answer", failures=1)


def test_a_message_that_no_decision_reads_any_more_leaves_no_row() -> None:
    store = Store()
    Outcomes(store, Outbox()).on_delivery(MAIL, Done(), at(1))
    assert store.row(ROW) is None


def test_refusals_are_counted_in_the_row_that_the_write_names() -> None:
    store = Store()
    outcomes = Outcomes(store, Outbox())
    pod = Key("", "Pod", "n", "p")
    for _ in range(2):
        outcomes.on_refusal(Job(pod, other=Evict(pod, "u", outcome="mail")), Refused(500, "no"), at(0))
    outcomes.on_refusal(Job(pod, other=Evict(pod, "u")), Refused(500, "no"), at(0))
    refusal = Refusal(500, "no", "", at(0))
    assert store.row(ROW) == Value(key=ROW, state="failed", value=refusal, error="no", failures=2)
