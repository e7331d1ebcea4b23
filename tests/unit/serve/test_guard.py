"""Which callers may read the metrics."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import Any

import pytest

from haulout.kube.errors import ConnectionFailed, KubeError
from haulout.kube.excerpt import Shape
from haulout.kube.transport import JSON, Reply
from haulout.serve.exchange import Request, Response
from haulout.serve.guard import MOST_KEPT, Guard, guard_handler
from tests.build.clock import ManualClock
from tests.build.requests import request_of
from tests.build.rows import START

TOKENS = {"good": "alice", "poor": "bob"}


class Reviews:
    """An API server that answers both kinds of review: alice and bob are known, and alice is allowed."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.fault: KubeError | None = None
        self.garbled = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 30.0,
        keep: Shape | None = None,
    ) -> Reply:
        await asyncio.sleep(0)
        if self.fault is not None:
            raise self.fault
        review = json.loads(body or b"")
        self.asked.append(review)
        user = TOKENS.get(review["spec"].get("token", ""))
        if review["kind"] == "SubjectAccessReview":
            status: Any = {"allowed": review["spec"]["user"] == "alice"}
        elif user is not None:
            status = {"authenticated": True, "user": {"username": user, "groups": ["g"], "extra": {"scopes": ["s"]}}}
        else:
            status = {"error": "invalid bearer token"}
        return Reply(201, b"{" if self.garbled else json.dumps({"status": status}).encode())

    def stream(self, path: str, **more: Any) -> AbstractAsyncContextManager[Any]:
        raise NotImplementedError

    async def close(self) -> None: ...

    @property
    def kinds(self) -> list[str]:
        return [review["kind"] for review in self.asked]


@pytest.fixture
def reviews() -> Reviews:
    return Reviews()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def guard(reviews: Reviews, clock: ManualClock) -> Guard:
    return Guard(reviews, clock)


async def asks(guard: Guard, authorization: str) -> int:
    return await guard.code(authorization, "/metrics", "get")


@pytest.mark.parametrize(
    ("authorization", "code", "questions"),
    [
        pytest.param("", 401, 0, id="no token"),
        pytest.param("Bearer", 401, 0, id="no token after all"),
        pytest.param("Basic good", 401, 0, id="a password"),
        pytest.param(f"Bearer {'x' * 20_000}", 401, 0, id="a novel"),
        pytest.param("Bearer \udcff", 401, 0, id="no text"),
        pytest.param("Bearer nonsense", 401, 1, id="a token that nobody has"),
        pytest.param("Bearer poor", 403, 2, id="a user who may not"),
        pytest.param("Bearer good", 200, 2, id="a user who may"),
        pytest.param("bearer  good ", 200, 2, id="written otherwise"),
    ],
)
async def test_codes(guard: Guard, reviews: Reviews, authorization: str, code: int, questions: int) -> None:
    assert await asks(guard, authorization) == code
    assert len(reviews.asked) == questions


async def test_what_is_asked(guard: Guard, reviews: Reviews) -> None:
    await asks(guard, "Bearer good")
    assert reviews.asked[1]["spec"] == {
        "user": "alice",
        "uid": "",
        "groups": ["g"],
        "extra": {"scopes": ["s"]},
        "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
    }


@pytest.mark.parametrize(
    ("token", "seconds", "asked"),
    [
        pytest.param("good", 59, [], id="all is known for a minute"),
        pytest.param("good", 61, ["TokenReview"], id="then the token is asked for"),
        pytest.param("good", 301, ["TokenReview", "SubjectAccessReview"], id="a permission holds five minutes"),
        pytest.param("poor", 29, [], id="a refusal holds for a while"),
        pytest.param("poor", 31, ["SubjectAccessReview"], id="and no longer"),
    ],
)
async def test_answers_are_kept(
    guard: Guard, reviews: Reviews, clock: ManualClock, token: str, seconds: int, asked: list[str]
) -> None:
    await asks(guard, f"Bearer {token}")
    reviews.asked.clear()
    clock.move_to(START + timedelta(seconds=seconds))
    await asks(guard, f"Bearer {token}")
    assert reviews.kinds == asked


async def test_many_at_once_ask_once(guard: Guard, reviews: Reviews) -> None:
    assert set(await asyncio.gather(*(asks(guard, "Bearer good") for _ in range(20)))) == {200}
    assert len(reviews.asked) == 2


async def test_made_up_tokens_do_not_pile_up(guard: Guard) -> None:
    for number in range(MOST_KEPT + 10):
        await asks(guard, f"Bearer {number}")
    assert len(guard._refused_tokens._answers) == MOST_KEPT


async def test_made_up_tokens_do_not_push_out_those_of_known_callers(guard: Guard, reviews: Reviews) -> None:
    assert await asks(guard, "Bearer good") == 200
    for number in range(MOST_KEPT + 1):
        assert await asks(guard, f"Bearer made-up-{number}") == 401
    before = len(reviews.asked)
    assert (await asks(guard, "Bearer good"), len(reviews.asked)) == (200, before)


async def test_where_nobody_can_be_asked_nobody_may(guard: Guard, reviews: Reviews) -> None:
    reviews.fault = ConnectionFailed("refused")
    assert await asks(guard, "Bearer good") == 500
    reviews.fault, reviews.garbled = None, True
    assert await asks(guard, "Bearer good") == 500
    reviews.garbled = False
    assert await asks(guard, "Bearer good") == 200


@pytest.mark.parametrize(("token", "code"), [("", 401), ("poor", 403), ("good", 200)])
async def test_the_handler_is_reached_only_with_permission(guard: Guard, token: str, code: int) -> None:
    reached = []

    async def handler(request: Request) -> Response:
        reached.append(request.path)
        return Response(text="metrics")

    headers = {"authorization": f"Bearer {token}"} if token else {}
    answer = await guard_handler(handler, guard)(request_of("GET", "/metrics", headers))
    assert (answer.status, len(reached)) == (code, int(code == 200))
