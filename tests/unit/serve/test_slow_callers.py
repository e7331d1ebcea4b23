"""Callers of every endpoint that stop reading, read byte by byte, or send half a request: the others are still served."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from haulout.app.info import info_route
from haulout.cluster.store import Store
from haulout.core.admission import ALLOWED, Webhook
from haulout.runtime.metrics import Metrics
from haulout.serve.admission import LONGEST_BODY, Admission
from haulout.serve.certificates import make_self_signed
from haulout.serve.connections import Limits
from haulout.serve.guard import Guard, guard_handler
from haulout.serve.http import Handler
from haulout.serve.pages import static_route, to_static
from haulout.serve.tls import ServerIdentity
from haulout.serve.web import MOST_HELD, Server, listen, metrics_route, probe_routes
from tests.build.clock import ManualClock
from tests.build.objects import Objects
from tests.build.rows import START
from tests.unit.app.test_info import around
from tests.unit.serve.test_admission import Thing
from tests.unit.serve.test_guard import Reviews
from tests.unit.serve.test_web import until

PATIENCE = 20
LIMITS = Limits(connections=4, grace_for=0.1, headers_within=0.5, answer_within=0.5, idle_for=60.0)
ANSWERS = ("200", "301", "401", "403", "404")
# More than all buffers between a server and a caller that does not read.
LONG = 16 * 2**20
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {"uid": "u", "operation": "CREATE"},
}


class Endpoint:
    """A path of one of the operator's servers, without TLS unless it is `encrypted`. Reviews have a `body`.

    `long`: its answers are longer than all buffers.
    """

    def __init__(
        self, path: str, *, long: bool = False, body: bytes = b"", encrypted: bool = False, token: str = ""
    ) -> None:
        self.long = long
        self.reviews, self.encrypted = bool(body), encrypted or bool(body)
        line = f"{'POST' if body else 'GET'} {path} HTTP/1.1\r\nHost: x\r\n"
        line += f"Authorization: Bearer {token}\r\n" if token else ""
        head = f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n" if body else ""
        self.request = f"{line}{head}\r\n".encode() + body


ENDPOINTS = {
    "metrics": Endpoint("/metrics", long=True),
    "information": Endpoint("/api/v1/info", long=True),
    "a file of the page": Endpoint("/static/long.js", long=True),
    "the page": Endpoint("/static/"),
    "another path": Endpoint("/"),
    "no path": Endpoint("/none"),
    "healthz": Endpoint("/healthz"),
    "readyz": Endpoint("/readyz"),
    # The metrics of the node-maintenance drop-in.
    "guarded metrics": Endpoint("/guarded", long=True, encrypted=True, token="good"),
    "guarded metrics of another caller": Endpoint("/guarded", encrypted=True, token="poor"),
    "guarded metrics without a token": Endpoint("/guarded", encrypted=True),
    "a webhook": Endpoint("/review", body=json.dumps(REVIEW).encode()),
}


def routes(page: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Handler]:
    metrics = Metrics()
    monkeypatch.setattr("haulout.app.info._infos", _long_infos)
    monkeypatch.setattr("haulout.runtime.metrics.Snapshot.render", lambda _: b"m 1\n" * (LONG // 4))
    return {
        "/metrics": metrics_route(metrics),
        "/guarded": guard_handler(metrics_route(metrics), Guard(Reviews(), ManualClock(START))),
        "/api/v1/info": info_route(around(leads=lambda: True), Objects()),
        "/static/{path:.*}": static_route(page),
        "/": to_static,
        **probe_routes("healthz", lambda: ""),
        **probe_routes("readyz", lambda: ""),
    }


async def _long_infos(*_: object) -> bytes:
    return b"x" * LONG


class Callers:
    """Connections to a server by sockets that receive only when they are told to."""

    def __init__(self, server: Server, tls: ssl.SSLContext | None) -> None:
        self.server = server
        self._tls = tls
        self._all: list[socket.socket] = []

    async def call(self, request: bytes) -> socket.socket:
        made = socket.socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        made.settimeout(PATIENCE)
        self._all.append(made)
        await asyncio.to_thread(made.connect, ("127.0.0.1", self.server.port))
        if self._tls is not None:
            made = self._tls.wrap_socket(made, do_handshake_on_connect=False)
            self._all[-1] = made
            await asyncio.to_thread(made.do_handshake)
        await asyncio.to_thread(made.sendall, request)
        return made

    async def status(self, request: bytes) -> str:
        """Ask, and return the status of the answer."""
        made = await self.call(request)
        return (await asyncio.to_thread(made.recv, 12)).decode()[9:]

    def leave(self) -> None:
        for each in self._all:
            each.close()


@contextlib.asynccontextmanager
async def serving(
    handlers: dict[str, Handler], limits: Limits, *, encrypted: bool, reviews: bool = False
) -> AsyncIterator[Callers]:
    identity = ServerIdentity()
    identity.use(make_self_signed(["localhost"], datetime.now(UTC)))
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    hook = Webhook("v.thing.io", "/review", lambda request, view: ALLOWED, Thing, "things")
    server = await listen(
        "127.0.0.1:0",
        Admission(Store(), Metrics()).routes((hook,)) if reviews else handlers,
        method="POST" if reviews else "GET",
        tls=identity.context if encrypted else None,
        longest_body=LONGEST_BODY,
        limits=limits,
    )
    assert server is not None
    callers = Callers(server, trusting if encrypted else None)
    try:
        yield callers
    finally:
        callers.leave()
        await server.cleanup()


@pytest.fixture(params=ENDPOINTS)
def endpoint(request: pytest.FixtureRequest) -> Endpoint:
    return ENDPOINTS[request.param]


@pytest.fixture
def handlers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Handler]:
    (tmp_path / "long.js").write_bytes(b"x" * LONG)
    (tmp_path / "index.html").write_text("<html></html>")
    return routes(tmp_path, monkeypatch)


async def test_those_who_do_not_read_keep_no_other_out(
    endpoint: Endpoint, handlers: dict[str, Handler], caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(handlers, LIMITS, encrypted=endpoint.encrypted, reviews=endpoint.reviews) as callers:
        for _ in range(3 * LIMITS.connections):
            await callers.call(endpoint.request)
        for _ in range(3):
            assert await callers.status(endpoint.request) in ANSWERS
        assert len(callers.server.connections) <= LIMITS.connections
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_an_answer_that_is_not_read_is_given_up(endpoint: Endpoint, handlers: dict[str, Handler]) -> None:
    limits = Limits(connections=4, answer_within=0.3, idle_for=0.3)
    async with serving(handlers, limits, encrypted=endpoint.encrypted, reviews=endpoint.reviews) as callers:
        await callers.call(endpoint.request)
        await until(lambda: len(callers.server.connections) == 1)
        await until(lambda: len(callers.server.connections) == 0)


async def test_an_answer_that_is_read_byte_by_byte_is_given_up(
    endpoint: Endpoint, handlers: dict[str, Handler]
) -> None:
    limits = Limits(connections=4, answer_within=0.3, idle_for=0.3)
    async with serving(handlers, limits, encrypted=endpoint.encrypted, reviews=endpoint.reviews) as callers:
        reading = await callers.call(endpoint.request)
        reading.settimeout(0.01)

        def read() -> None:
            with contextlib.suppress(TimeoutError, ssl.SSLError, ConnectionError):
                reading.recv(1)

        await until(lambda: len(callers.server.connections) == 1)
        async with asyncio.timeout(PATIENCE):
            while len(callers.server.connections):
                await asyncio.to_thread(read)


async def test_requests_without_a_reader_are_not_received(endpoint: Endpoint, handlers: dict[str, Handler]) -> None:
    """A caller that sends one request after the other and reads no answer has to stop sending."""
    async with serving(
        handlers, Limits(connections=4, grace_for=PATIENCE), encrypted=endpoint.encrypted, reviews=endpoint.reviews
    ) as callers:
        sending = await callers.call(endpoint.request)
        sending.settimeout(1.0)
        sent = await asyncio.to_thread(_sent, sending, endpoint.request * 100)
    assert sent < LONG


def _sent(sending: socket.socket, data: bytes) -> int:
    """Send the same again and again, until the server does not receive it any more. Return how many bytes it took."""
    sent = 0
    with contextlib.suppress(TimeoutError, ssl.SSLError, ConnectionError):
        while sent < LONG:
            sent += sending.send(data)
    return sent


async def test_half_a_request_is_given_up(
    endpoint: Endpoint, handlers: dict[str, Handler], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("haulout.serve.admission.BODY_WITHIN", 0.3)
    limits = Limits(connections=4, headers_within=0.3, idle_for=0.3)
    async with serving(handlers, limits, encrypted=endpoint.encrypted, reviews=endpoint.reviews) as callers:
        await callers.call(endpoint.request[:-1])
        await until(lambda: len(callers.server.connections) == 1)
        await until(lambda: len(callers.server.connections) == 0)


async def test_five_hundred_connections_keep_no_other_out(endpoint: Endpoint, handlers: dict[str, Handler]) -> None:
    quick = Limits(grace_for=0.1, connections_per_second=5000.0, handshakes_per_second=5000.0)
    async with serving(handlers, quick, encrypted=False) as callers:
        for _ in range(500):
            made = socket.socket()
            made.setblocking(False)
            callers._all.append(made)
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", callers.server.port))
            made.send(endpoint.request[:20])
        other = endpoint.request if not endpoint.encrypted else ENDPOINTS["healthz"].request
        assert await callers.status(other) in ANSWERS
        assert len(callers.server.connections) <= quick.connections


class Body(bytes):
    """A long answer that counts how many of its kind are in memory."""

    alive = 0

    def __init__(self, *_: object) -> None:
        Body.alive += 1

    def __del__(self) -> None:
        Body.alive -= 1


@pytest.mark.parametrize("name", ["metrics", "information"])
async def test_answers_that_are_not_read_take_bounded_memory(
    name: str, handlers: dict[str, Handler], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each caller asks when the answer for the one before has been made, so that none can share it."""
    made: list[int] = []

    def body() -> bytes:
        made.append(Body.alive + 1)
        return Body(LONG)

    async def infos(*_: object) -> bytes:
        return body()

    monkeypatch.setattr("haulout.app.info._infos", infos)
    monkeypatch.setattr("haulout.runtime.metrics.Snapshot.render", lambda _: body())
    async with serving(handlers, Limits(grace_for=0.1), encrypted=False) as callers:
        for number in range(20):
            await callers.call(ENDPOINTS[name].request)
            await until(lambda number=number: len(made) > number)  # type: ignore[misc]
    assert max(made) <= MOST_HELD + 2
