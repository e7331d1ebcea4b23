"""The bearer door: what is believed of a caller, for how long, and while the API server does not answer."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest

from haulout.console.callers import (
    BELIEVED_FOR,
    OUTAGE_FOR,
    STRANGERS_AT_ONCE,
    BearerDoor,
    Caller,
    Unknown,
)
from haulout.console.sight import NODES
from haulout.console.stranger_queue import QueueFull
from haulout.kube.errors import ConnectionFailed, RequestTimeout
from tests.build.clock import ManualClock
from tests.build.rows import START
from tests.unit.serve.test_guard import TOKENS, Reviews

GONE = RequestTimeout("no answer")
PATIENCE = 20.0


async def entered(door: BearerDoor, token: str, address: str = "") -> Caller:
    return await door.caller({"Authorization": f"Bearer {token}"}, {}, address)


class SlowReviews(Reviews):
    """An API server that does not come to an end with tokens that it does not know."""

    def __init__(self) -> None:
        super().__init__()
        self.under_way = 0
        self.told = asyncio.Event()

    async def request(self, method: str, path: str, **more: Any) -> Any:
        if b"made-up" in more["body"]:
            self.under_way += 1
            try:
                await self.told.wait()
            finally:
                self.under_way -= 1
        return await super().request(method, path, **more)


@asynccontextmanager
async def guesses(door: BearerDoor, count: int, address: str = "") -> AsyncIterator[list[asyncio.Task[Caller]]]:
    """Let callers with made-up tokens knock, and go again."""
    tasks = [asyncio.create_task(entered(door, f"made-up-{number}", address)) for number in range(count)]
    for _ in range(5):
        await asyncio.sleep(0)
    try:
        yield tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_made_up_tokens_do_not_keep_a_known_caller_waiting() -> None:
    clock, reviews = ManualClock(START), SlowReviews()
    door = BearerDoor(reviews, clock)
    await entered(door, "good")
    clock.move_to(clock.now() + timedelta(seconds=BELIEVED_FOR + 1))
    async with guesses(door, 500), asyncio.timeout(PATIENCE):
        caller = await entered(door, "good")
        assert await door.allowed(caller, [NODES]) == {NODES: True}
    assert reviews.kinds == ["TokenReview", "TokenReview", "SubjectAccessReview"]


async def test_the_queue_of_new_tokens_has_an_end() -> None:
    reviews = SlowReviews()
    door = BearerDoor(reviews, ManualClock(START))
    async with guesses(door, 500) as tasks:
        refused = [task.exception() for task in tasks if task.done()]
        assert {type(each) for each in refused} == {QueueFull}
        assert reviews.under_way == STRANGERS_AT_ONCE


async def test_one_address_does_not_take_the_whole_queue() -> None:
    reviews = SlowReviews()
    door = BearerDoor(reviews, ManualClock(START))
    async with guesses(door, 500, "192.0.2.1"), asyncio.timeout(PATIENCE):
        newcomer = asyncio.create_task(entered(door, "good", "192.0.2.2"))
        reviews.told.set()
        assert (await newcomer).user.username == "alice"


async def test_a_review_ends_when_nobody_waits_for_it(caplog: pytest.LogCaptureFixture) -> None:
    reviews = SlowReviews()
    door = BearerDoor(reviews, ManualClock(START))
    async with guesses(door, 30):
        assert reviews.under_way == STRANGERS_AT_ONCE
    async with guesses(door, 30) as again:
        reviews.fault = ConnectionFailed("refused")
        reviews.told.set()
        await asyncio.wait(again)
        assert {type(task.exception()) for task in again} == {ConnectionFailed}
    assert reviews.under_way == 0
    gc.collect()
    assert "never retrieved" not in caplog.text


async def test_while_the_api_server_is_known_to_be_silent_a_known_caller_does_not_wait_for_it() -> None:
    clock, reviews, silent = ManualClock(START), Reviews(), [False]
    door = BearerDoor(reviews, clock, lambda: silent[0])
    before = await door.allowed(await entered(door, "good"), [NODES])
    silent[0] = True
    clock.move_to(clock.now() + timedelta(seconds=BELIEVED_FOR + 1))
    assert await door.allowed(await entered(door, "good"), [NODES]) == before
    assert reviews.kinds == ["TokenReview", "SubjectAccessReview"]


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
