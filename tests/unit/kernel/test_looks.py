"""Looks and timers, without the rest of the kernel."""

from __future__ import annotations

import pytest

from haulout.cluster.store import Store
from haulout.kernel.looks import Looks
from haulout.kernel.outbox import Outbox
from haulout.kernel.requests import Answer, Done, Look, Lost, Refused, Withdrawn
from haulout.kernel.timers import Timers
from tests.build.rows import at, node
from tests.unit.kernel.wakes import A, B, subject


def looked(store: Store, answer: Answer, *meanwhile: int) -> bool:
    outbox = Outbox()
    looks = Looks(store, outbox)
    looks.send(A)
    (request,) = outbox.take()
    assert request.body == Look(A)
    for version in meanwhile:
        store.put(node("a", version=version))
    return looks.on_answer(A, request.id, answer)


def test_the_answer_to_a_look_becomes_the_row() -> None:
    store = Store()
    store.begin_list("", "Node")
    store.end_list("", "Node", 1)
    assert looked(store, Done(row=node("a", version=2)))
    assert store.row(A) == node("a", version=2)


def test_an_object_that_a_look_does_not_find_is_removed() -> None:
    store = Store()
    store.put(node("a"))
    assert looked(store, Refused(404))
    assert store.row(A) is None


def test_a_row_that_is_newer_than_the_look_stays() -> None:
    store = Store()
    store.put(node("a"))
    assert looked(store, Refused(404), 7)
    assert store.row(A) == node("a", version=7)


@pytest.mark.parametrize("answer", [Refused(500), Lost(), Withdrawn()], ids=repr)
def test_a_look_that_shows_nothing_is_to_be_repeated(answer: Answer) -> None:
    store = Store()
    store.put(node("a"))
    assert not looked(store, answer)
    assert store.row(A) == node("a")


def test_timers_are_taken_in_order_and_once() -> None:
    timers = Timers()
    timers.at(at(2), B)
    timers.at(at(1), subject())
    timers.at(at(2), A)
    assert timers.next_instant() == at(1)
    assert timers.take_due(at(0.9)) is None
    assert [timers.take_due(at(2)) for _ in range(4)] == [subject(), B, A, None]
    assert timers.next_instant() is None
