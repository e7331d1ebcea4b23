"""The bearer door: what is believed of a caller, for how long, and while the API server does not answer."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.console.callers import BELIEVED_FOR, OUTAGE_FOR, BearerDoor, Caller, Unknown
from haulout.console.sight import NODES
from haulout.kube.errors import ConnectionFailed, RequestTimeout
from tests.build.clock import ManualClock
from tests.build.rows import START
from tests.unit.serve.test_guard import TOKENS, Reviews

GONE = RequestTimeout("no answer")


async def entered(door: BearerDoor, token: str) -> Caller:
    return await door.caller({"Authorization": f"Bearer {token}"}, {})


async def test_an_answer_is_believed_for_half_a_minute() -> None:
    clock, reviews = ManualClock(START), Reviews()
    door = BearerDoor(reviews, clock)
    for _ in range(3):
        caller = await entered(door, "good")
        assert await door.allowed(caller, [NODES]) == {NODES: True}
    assert reviews.kinds == ["TokenReview", "SubjectAccessReview"]
    clock.move_to(clock.now() + timedelta(seconds=BELIEVED_FOR + 1))
    await entered(door, "good")
    assert reviews.kinds == ["TokenReview", "SubjectAccessReview", "TokenReview"]


async def test_a_token_that_has_ended_closes_the_door_at_the_next_review(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, reviews = ManualClock(START), Reviews()
    door = BearerDoor(reviews, clock)
    await entered(door, "good")
    monkeypatch.delitem(TOKENS, "good")
    clock.move_to(clock.now() + timedelta(seconds=BELIEVED_FOR + 1))
    with pytest.raises(Unknown):
        await entered(door, "good")
    reviews.fault = GONE
    clock.move_to(clock.now() + timedelta(seconds=BELIEVED_FOR + 1))
    with pytest.raises(RequestTimeout):
        await entered(door, "good")


async def test_in_an_outage_a_caller_keeps_what_the_api_server_last_said() -> None:
    clock, reviews = ManualClock(START), Reviews()
    door = BearerDoor(reviews, clock)
    rights = {}
    for token in ("good", "poor"):
        rights[token] = await door.allowed(await entered(door, token), [NODES])
    reviews.fault = GONE
    clock.move_to(clock.now() + timedelta(seconds=BELIEVED_FOR + 1))
    for token, known in rights.items():
        assert await door.allowed(await entered(door, token), [NODES]) == known
    clock.move_to(clock.now() + timedelta(seconds=OUTAGE_FOR))
    with pytest.raises(RequestTimeout):
        await entered(door, "good")


async def test_in_an_outage_a_new_caller_is_not_let_in() -> None:
    reviews = Reviews()
    reviews.fault = ConnectionFailed("refused")
    with pytest.raises(ConnectionFailed):
        await entered(BearerDoor(reviews, ManualClock(START)), "good")
