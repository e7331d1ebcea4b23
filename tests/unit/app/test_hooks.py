"""Calls of the web servers that carry out steps, on the wire: signatures, tokens, time-outs, refusals and status URLs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from aiohttp import web

from haulout.app.announcements import signature
from haulout.app.hooks import Hooks
from haulout.kube.writer import Writer
from haulout.runtime.probes import ProbeFailed
from haulout.runtime.sender import SendFailed
from haulout.surfaces.notify.recipes.hooks import HookAnswer, HookCall, StatusQuestion
from tests.build.notices import options
from tests.unit.app.test_announcements import Secrets

CALL = HookCall("runner", "rec", "uid-maintenance-1", b'{"phase":"maintenance"}')
SECRETS = Secrets(
    hook={"hmac": base64.b64encode(b"key").decode(), "token": base64.b64encode(b"secret\n").decode()},
)


class Server:
    """A web server that answers with `status` and `body`, after `delay` seconds. `got`: what it was asked."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], bytes]] = []
        self.status, self.body, self.delay = 200, b"", 0.0

    async def handle(self, request: web.Request) -> web.Response:
        self.got.append((f"{request.method} {request.path}", dict(request.headers), await request.read()))
        await asyncio.sleep(self.delay)
        return web.Response(status=self.status, body=self.body)


async def served() -> AsyncIterator[tuple[str, Server]]:
    made, app = Server(), web.Application()
    app.router.add_route("*", "/{tail:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}", made
    await runner.cleanup()


@pytest.fixture
async def server() -> AsyncIterator[tuple[str, Server]]:
    async for each in served():
        yield each


@pytest.fixture
async def other() -> AsyncIterator[tuple[str, Server]]:
    async for each in served():
        yield each


def hooks(url: str, secrets: Secrets = SECRETS, **recipe: Any) -> Hooks:
    keys = {name: {"name": "hook", "key": key} for name, key in (("hmacSecret", "hmac"), ("tokenSecret", "token"))}
    made = {"name": "rec", "type": "webhook", "url": f"{url}/jobs", **keys, **recipe}
    content = {"slaPeriod": "1h", "operators": {"runner": {"enabled": True, "recipes": [made]}}}
    read = options(json.dumps(content))
    return Hooks(cast("Writer", secrets), lambda: read)


async def test_a_call_is_signed_and_has_its_key(server: tuple[str, Server]) -> None:
    url, made = server
    made.body = b'{"result":"success"}'
    assert await hooks(url).call(CALL) == HookAnswer("success")
    [(what, headers, body)] = made.got
    assert (what, body) == ("POST /jobs", CALL.body)
    assert headers["X-Signature-256"] == signature(b"key", CALL.body)
    assert (headers["Idempotency-Key"], headers["Authorization"]) == ("uid-maintenance-1", "Bearer secret")
    assert headers["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("status", "body", "answer"),
    [
        (200, b'{"result":"success"}', HookAnswer("success")),
        (200, b'{"result":"failure","message":"broken"}', HookAnswer("failure", "broken")),
        (200, b'{"result":"pending","statusURL":"/1"}', HookAnswer("pending", "", "/1")),
        (202, b'{"statusURL":"/1"}', HookAnswer("pending", "", "/1")),
        (200, b'{"result":"pending"}', HookAnswer("accepted")),
        (202, b"", HookAnswer("accepted")),
        (202, b"thanks", HookAnswer("accepted")),
        (200, b"", HookAnswer("failure", "the answer names no result")),
        (200, b"[" * 30_000, HookAnswer("failure", "the answer names no result")),
        (202, b'{"x":' * 10_000, HookAnswer("accepted")),
        (404, b"", HookAnswer("failure", "answered with 404")),
        (307, b"", HookAnswer("failure", "answered with 307")),
    ],
)
async def test_what_an_answer_means(server: tuple[str, Server], status: int, body: bytes, answer: HookAnswer) -> None:
    url, made = server
    made.status, made.body = status, body
    assert await hooks(url).call(CALL) == answer


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_what_passes_is_tried_again(server: tuple[str, Server], status: int) -> None:
    url, made = server
    made.status = status
    with pytest.raises(SendFailed, match=f"POST was answered with {status}"):
        await hooks(url).call(CALL)


async def test_a_server_that_is_too_slow_or_not_there_is_tried_again(server: tuple[str, Server]) -> None:
    url, made = server
    made.delay = 5
    with pytest.raises(SendFailed, match=r"^POST failed: no answer within 1 s$"):
        await hooks(url, requestTimeout="1s").call(CALL)
    with pytest.raises(SendFailed, match="POST failed"):
        await hooks("http://127.0.0.1:1").call(CALL)


async def test_an_answer_without_end_is_not_read_whole(server: tuple[str, Server]) -> None:
    url, made = server
    made.body = b"x" * 200_000
    with pytest.raises(SendFailed, match="POST failed: the answer is longer than 65536 bytes"):
        await hooks(url).call(CALL)


async def test_credentials_that_are_missing_are_named(server: tuple[str, Server]) -> None:
    url, made = server
    with pytest.raises(SendFailed, match="hook has no key hmac"):
        await hooks(url, Secrets(hook={"token": "eA=="})).call(CALL)
    assert made.got == []


async def test_the_status_is_asked_where_the_answer_says(server: tuple[str, Server]) -> None:
    url, made = server
    made.body = b'{"result":"success"}'
    assert await hooks(url).status(StatusQuestion("runner", "rec", "/jobs/7")) == HookAnswer("success")
    made.status = 503
    with pytest.raises(ProbeFailed):
        await hooks(url).status(StatusQuestion("runner", "rec", f"{url}/jobs/8"))
    assert [(what, headers["Authorization"]) for what, headers, _ in made.got] == [
        ("GET /jobs/7", "Bearer secret"),
        ("GET /jobs/8", "Bearer secret"),
    ]


async def test_the_token_is_not_sent_to_another_server(server: tuple[str, Server], other: tuple[str, Server]) -> None:
    elsewhere, made = other
    made.body = b'{"result":"success"}'
    await hooks(server[0]).status(StatusQuestion("runner", "rec", f"{elsewhere}/jobs/7"))
    [(_, headers, _)] = made.got
    assert "Authorization" not in headers


@pytest.mark.parametrize("url", ["http://[", "file:///etc/passwd", "http://127.0.0.1:99999/"])
async def test_an_address_that_cannot_be_asked_is_no_answer(server: tuple[str, Server], url: str) -> None:
    with pytest.raises(ProbeFailed):
        await hooks(server[0]).status(StatusQuestion("runner", "rec", url))


@pytest.mark.parametrize(
    ("recipe", "url", "why"),
    [
        ("https://hooks.example", "http://other.example/1", "the statusURL has no TLS"),
        ("https://192.0.2.1", "https://169.254.169.254/latest", "the statusURL leads to this computer or its link"),
        ("https://192.0.2.1", "https://127.0.0.1:10250/pods", "the statusURL leads to this computer or its link"),
        ("https://192.0.2.1", "https://[::ffff:169.254.169.254]/", "the statusURL leads to this computer or its link"),
        (
            "https://192.0.2.1",
            "https://localhost:1/",
            "GET failed: no connection: the statusURL leads to this computer or its link",
        ),
    ],
)
async def test_a_server_does_not_lead_us_to_what_only_we_can_reach(recipe: str, url: str, why: str) -> None:
    with pytest.raises(ProbeFailed, match=f"^{why}$"):
        await hooks(recipe).status(StatusQuestion("runner", "rec", url))


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (b'{"result":"failure","message":"\xff"}', HookAnswer("failure", "the answer names no result")),
        (b'{"result":"failure","message":"a\\nb\\u0000c\\u202e"}', HookAnswer("failure", "a b c")),
        (
            json.dumps({"result": "pending", "statusURL": "/" * 3000}).encode(),
            HookAnswer("failure", "the statusURL has more than 2048 characters"),
        ),
    ],
)
async def test_a_hostile_answer_is_one_line_or_a_failure(
    server: tuple[str, Server], body: bytes, answer: HookAnswer
) -> None:
    url, made = server
    made.body = body
    assert await hooks(url).call(CALL) == answer


async def test_a_message_of_a_server_is_shortened(server: tuple[str, Server]) -> None:
    url, made = server
    made.body = json.dumps({"result": "failure", "message": "x" * 50_000}).encode()
    assert len((await hooks(url).call(CALL)).message) == 1000
