"""A server with callers that hold it up, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
import uvloop
from aiohttp import ClientSession

from haulout.base.address import AddressError
from haulout.runtime.logs import fields
from haulout.runtime.metrics import Metrics, Snapshot
from haulout.serve.certificates import make_self_signed
from haulout.serve.connections import Limits, Pace
from haulout.serve.exchange import Request, Response, StreamResponse
from haulout.serve.http import Handler
from haulout.serve.single_flight import Flight
from haulout.serve.tls import ServerIdentity
from haulout.serve.web import Server, listen, metrics_route, probe_routes, send

GET = b"GET /ok HTTP/1.1\r\nHost: x\r\n\r\n"
HALF = GET[:-2]
PATIENCE = 20
IMPATIENT = Limits(connections=4, headers_within=0.3, answer_within=0.5, idle_for=60.0)
PATIENT = Limits(connections=4, grace_for=0.1)
CROWDED = Limits(connections=4, grace_for=PATIENCE)
LONG = b"x" * 20_000_000


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110 - the server has no bell for it
            await asyncio.sleep(0.005)


class Caller:
    """One connection to the server, driven by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def say(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):
            self._writer.write(data)
            await self._writer.drain()

    async def answer(self) -> str:
        """Read an answer, and return its status line; empty if the connection was closed."""
        try:
            async with asyncio.timeout(PATIENCE):
                head = await self._reader.readuntil(b"\r\n\r\n")
                length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
                await self._reader.readexactly(int(length.split(b":")[1]))
        except (asyncio.IncompleteReadError, ConnectionError):
            return ""
        return head.split(b"\r\n")[0].decode()

    async def closed(self) -> bool:
        """Wait, and return whether the server closes the connection."""
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(PATIENCE):
                while await self._reader.read(65536):
                    pass
        return True

    def leave(self) -> None:
        self._writer.close()


class Callers:
    def __init__(self, server: Server, tls: ssl.SSLContext | None = None) -> None:
        self.server = server
        self._tls = tls
        self._all: list[Caller] = []

    async def call(self, first: bytes = b"", *, shakes_hands: bool = True) -> Caller:
        tls = self._tls if shakes_hands else None
        caller = Caller(*await asyncio.open_connection("127.0.0.1", self.server.port, ssl=tls))
        self._all.append(caller)
        await caller.say(first)
        return caller

    async def has(self, count: int) -> None:
        await until(lambda: len(self.server.connections) == count)

    def leave(self) -> None:
        for caller in self._all:
            caller.leave()


async def ok(request: Request) -> Response:
    return Response(text="ok")


async def read(request: Request) -> Response:
    return Response(text=str(len(await request.read())))


async def long(request: Request) -> StreamResponse:
    return await send(request, LONG, "text/plain")


@contextlib.asynccontextmanager
async def serving(
    limits: Limits, *, encrypted: bool = False, routes: dict[str, Handler] | None = None, **more: Handler
) -> AsyncIterator[Callers]:
    identity = ServerIdentity()
    identity.use(make_self_signed(["localhost"], datetime.now(UTC)))
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    handlers: dict[str, Handler] = {"/ok": ok, "/long": long, **(routes or {})}
    handlers |= {f"/{path}": each for path, each in more.items()}
    server = await listen("127.0.0.1:0", handlers, tls=identity.context if encrypted else None, limits=limits)
    assert server is not None
    callers = Callers(server, trusting if encrypted else None)
    try:
        yield callers
    finally:
        callers.leave()
        await server.cleanup()


@pytest.mark.parametrize("encrypted", [False, True], ids=["plain", "TLS"])
async def test_headers_that_do_not_end_are_not_waited_for(encrypted: bool) -> None:
    async with serving(IMPATIENT, encrypted=encrypted) as callers:
        silent, half = await callers.call(), await callers.call(HALF)
        assert await silent.closed()
        assert await half.closed()
        await callers.has(0)


async def test_headers_that_come_a_byte_at_a_time_are_not_waited_for() -> None:
    async with serving(IMPATIENT) as callers:
        slow = await callers.call(GET[:1])

        async def drip() -> None:
            while True:
                await slow.say(b"x")
                await asyncio.sleep(0.02)

        dripping = asyncio.create_task(drip())
        assert await slow.closed()
        dripping.cancel()


async def test_the_second_request_of_a_connection_is_not_waited_for_either() -> None:
    async with serving(IMPATIENT) as callers:
        caller = await callers.call(GET)
        assert await caller.answer() == "HTTP/1.1 200 OK"
        await caller.say(HALF)
        assert await caller.closed()


async def test_an_idle_connection_is_kept_for_its_next_request() -> None:
    async with serving(IMPATIENT) as callers:
        caller = await callers.call(GET)
        assert await caller.answer() == "HTTP/1.1 200 OK"
        await asyncio.sleep(3 * IMPATIENT.headers_within)
        await caller.say(GET)
        assert await caller.answer() == "HTTP/1.1 200 OK"


async def test_a_server_without_callers_sets_no_timer() -> None:
    """A process at rest is measured by how often it wakes up."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, asyncio.BaseEventLoop)
    async with serving(Limits()):
        await asyncio.sleep(0)
        assert [timer for timer in loop._scheduled if not timer.cancelled()] == []  # type: ignore[attr-defined]


async def test_an_idle_connection_is_closed_in_the_end() -> None:
    async with serving(Limits(idle_for=0.1, headers_within=0.1)) as callers:
        caller = await callers.call(GET)
        assert await caller.answer() == "HTTP/1.1 200 OK"
        assert await caller.closed()
        await callers.has(0)


async def test_a_handshake_that_does_not_end_is_not_waited_for() -> None:
    async with serving(IMPATIENT, encrypted=True) as callers:
        mute = await callers.call(shakes_hands=False)
        half = await callers.call(b"\x16\x03\x01\x02\x00\x01", shakes_hands=False)
        wrong = await callers.call(GET, shakes_hands=False)
        for caller in (mute, half, wrong):
            assert await caller.closed()
        await callers.has(0)


async def test_a_caller_that_does_not_read_its_answer_is_not_waited_for() -> None:
    async with serving(IMPATIENT) as callers:
        await callers.call(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n")
        await callers.has(1)
        await callers.has(0)


@pytest.mark.parametrize(
    ("first", "shakes_hands", "encrypted"),
    [
        pytest.param(HALF, True, False, id="half-sent headers"),
        pytest.param(GET, True, False, id="idle"),
        pytest.param(
            b"GET /read HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{", True, False, id="half-sent bodies"
        ),
        pytest.param(b"GET /long HTTP/1.1\r\nHost: x\r\n\r\n", True, False, id="unread answers"),
        pytest.param(HALF, True, True, id="half-sent headers, TLS"),
        pytest.param(b"", False, True, id="unfinished handshakes"),
    ],
)
async def test_a_full_server_makes_room_for_who_comes(first: bytes, shakes_hands: bool, encrypted: bool) -> None:
    """No time-out has passed when the connections that came first are closed for those that come later."""
    async with serving(PATIENT, encrypted=encrypted, read=read) as callers:
        holding = [await callers.call(first, shakes_hands=shakes_hands) for _ in range(3 * PATIENT.connections)]
        for _ in range(5):
            caller = await callers.call(GET)
            assert await caller.answer() == "HTTP/1.1 200 OK"
        assert len(callers.server.connections) == PATIENT.connections
        for caller in holding:
            assert await caller.closed()


@pytest.mark.parametrize("path", ["ok", "long"])
async def test_more_callers_at_once_than_places_are_all_answered(path: str) -> None:
    asking = f"GET /{path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode()

    async def sent(request: Request) -> StreamResponse:
        return await send(request, LONG[:1_000_000], "text/plain")

    async with serving(CROWDED, long=sent) as callers:

        async def asked() -> str:
            return await (await callers.call(asking)).answer()

        answers = await asyncio.gather(*(asked() for _ in range(10 * CROWDED.connections)))
    assert set(answers) == {"HTTP/1.1 200 OK"}


async def test_whoever_is_being_answered_keeps_the_connection() -> None:
    release = asyncio.Event()
    begun: list[int] = []

    async def slow(request: Request) -> Response:
        begun.append(1)
        await release.wait()
        return Response(text="at last")

    async with serving(PATIENT, slow=slow) as callers:
        busy = [await callers.call(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(PATIENT.connections)]
        await until(lambda: len(begun) == PATIENT.connections)
        later = await callers.call(GET)
        release.set()
        assert [await caller.answer() for caller in busy] == ["HTTP/1.1 200 OK"] * PATIENT.connections
        assert await later.answer() == "HTTP/1.1 200 OK"


async def test_a_full_server_leaves_the_others_reachable() -> None:
    async with serving(PATIENT) as full, serving(PATIENT, routes=probe_routes("healthz", lambda: "")) as health:
        for _ in range(5 * PATIENT.connections):
            await full.call(HALF)
        caller = await health.call(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert await caller.answer() == "HTTP/1.1 200 OK"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((path, 200) for path in ("/healthz", "/healthz/", "/healthz/healthz", "/healthz?verbose")),
        *((path, 404) for path in ("/healthz/ping", "/healthz/readyz", "/healthz/healthz/healthz", "/")),
        *((path, 503) for path in ("/readyz", "/readyz/", "/readyz/readyz")),
    ],
)
async def test_a_probe_answers_for_its_one_check_too(path: str, status: int) -> None:
    """As a manager of controller-runtime does, whose places the drop-ins take."""
    routes = {**probe_routes("healthz", lambda: ""), **probe_routes("readyz", lambda: "not yet")}
    async with serving(PATIENT, routes=routes) as callers:
        caller = await callers.call(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert (await caller.answer()).split()[1] == str(status)


async def test_a_server_that_ends_leaves_no_connection_open() -> None:
    async with serving(PATIENT, encrypted=True) as callers:
        held = [await callers.call(HALF), await callers.call(GET), await callers.call(shakes_hands=False)]
        await callers.has(3)
        await callers.server.cleanup()
        for caller in held:
            assert await caller.closed()
        assert len(callers.server.connections) == 0


async def test_headers_have_an_end() -> None:
    many = b"".join(b"X-%d: y\r\n" % number for number in range(100))
    async with serving(PATIENT) as callers:
        caller = await callers.call(b"GET /ok HTTP/1.1\r\nHost: x\r\n" + many + b"\r\n")
        assert (await caller.answer()).startswith("HTTP/1.1 400")


async def test_what_is_not_http_is_logged_once_in_a_while_without_a_traceback(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("haulout.serve.http.COMPLAIN_EVERY", 60.0)
    async with serving(Limits()) as callers:
        for _ in range(20):
            caller = await callers.call(b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n")
            await caller.answer()
            caller = await callers.call(b"GET /ok HTTP/1.1\r\nHost: x\r\nExpect: \xff\r\n\r\n")
            await caller.answer()
            gzip = b"Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}"
            caller = await callers.call(b"GET /ok HTTP/1.1\r\nHost: x\r\n" + gzip)
            await caller.answer()
            assert await caller.closed()
    [line] = [record for record in caplog.records if record.name == "haulout.http"]
    assert (line.getMessage(), line.levelname, line.exc_info) == ("malformed request", "WARNING", None)
    assert fields(line)["error"].isprintable()


async def test_an_address_that_is_taken_is_an_error() -> None:
    async with serving(PATIENT) as callers:
        with pytest.raises(AddressError, match=r"cannot listen on 127.0.0.1:\d+: .*[Aa]ddress already in use"):
            await listen(f"127.0.0.1:{callers.server.port}", {})


@pytest.mark.parametrize("address", ["127.0.0.1:0", "localhost:0", ":0"])
async def test_addresses_as_go_programs_take_them(address: str) -> None:
    server = await listen(address, {"/ok": ok})
    assert server is not None
    caller = Caller(*await asyncio.open_connection("127.0.0.1", server.port))
    await caller.say(GET)
    assert await caller.answer() == "HTTP/1.1 200 OK"
    caller.leave()
    await server.cleanup()


async def test_a_pace_lets_no_more_pass_than_it_says() -> None:
    pace = Pace(per_second=1000)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for _ in range(400):
        await pace.turn()
    # A burst of a tenth of a second's worth, then one a millisecond.
    assert loop.time() - began >= 0.29


async def test_equal_reads_share_one_computation() -> None:
    computed: list[int] = []
    release = asyncio.Event()

    async def compute() -> int:
        computed.append(len(computed))
        await release.wait()
        return computed[-1]

    flight = Flight(compute)
    first = asyncio.create_task(flight.get())
    await asyncio.sleep(0.01)
    others = [asyncio.create_task(flight.get()) for _ in range(100)]
    others[0].cancel()
    release.set()
    # A caller that came while the first result was computed gets one that was computed after its call.
    assert (await first, {await other for other in others[1:]}, computed) == (0, {1}, [0, 1])


async def test_what_cannot_be_computed_fails_those_who_asked_and_nobody_later() -> None:
    async def compute() -> int:
        if not failed:
            failed.append(1)
            raise ZeroDivisionError
        return 7

    failed: list[int] = []
    flight = Flight(compute)
    with pytest.raises(ZeroDivisionError):
        await flight.get()
    assert await flight.get() == 7


async def test_scrapes_that_come_together_are_rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scrapes, metrics, released = 40, Metrics(), threading.Event()
    taken: list[Snapshot] = []
    asked: list[int] = []

    class Held(Snapshot):
        def render(self) -> bytes:
            released.wait(PATIENCE)
            return b"m 1\n"

    def snapshot() -> Snapshot:
        taken.append(Held((), {}, (), {}))
        return taken[-1]

    async def counted(request: Request) -> StreamResponse:
        asked.append(1)
        if len(asked) == scrapes:
            released.set()
        return await route(request)

    monkeypatch.setattr(metrics, "snapshot", snapshot)
    route = metrics_route(metrics)
    async with serving(Limits(), metrics=counted) as callers:
        scrapers = [await callers.call(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(scrapes)]
        assert {await scraper.answer() for scraper in scrapers} == {"HTTP/1.1 200 OK"}
    # The first had begun when the others asked.
    assert len(taken) == 2


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;version=0.0.1;q=0.5,"
    "text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    "accept, offered, kind, end",
    [
        (PROMETHEUS, True, "application/openmetrics-text; version=1.0.0; charset=utf-8", b"# EOF\n"),
        (PROMETHEUS, False, "text/plain; charset=utf-8", b""),
        ("text/plain, application/openmetrics-text;q=0.1", True, "text/plain; charset=utf-8", b""),
        ("application/openmetrics-text;q=x", True, "text/plain; charset=utf-8", b""),
        ("*/*", True, "text/plain; charset=utf-8", b""),
        ("", True, "text/plain; charset=utf-8", b""),
    ],
    ids=["asked for", "no exemplars", "text preferred", "no number", "anything", "nothing"],
)
async def test_a_scraper_that_asks_for_openmetrics_gets_it_where_there_are_exemplars(
    accept: str, offered: bool, kind: str, end: bytes
) -> None:
    metrics = Metrics()
    metrics.offers_openmetrics = offered
    metrics.count("haulout_maintenances_total", outcome="Completed", surface="notify")
    server = await listen("127.0.0.1:0", {"/metrics": metrics_route(metrics)})
    assert server is not None
    try:
        async with ClientSession() as session:
            address = f"http://127.0.0.1:{server.port}/metrics"
            async with session.get(address, headers={"Accept": accept}) as response:
                body = await response.read()
    finally:
        await server.cleanup()
    assert response.headers["Content-Type"] == kind
    assert b"haulout_maintenances_total{" in body
    assert body.endswith(end)
    assert (b"# EOF" in body) == bool(end)


@pytest.mark.parametrize(
    "scene",
    [
        partial(test_headers_that_do_not_end_are_not_waited_for, True),
        test_a_handshake_that_does_not_end_is_not_waited_for,
        test_a_caller_that_does_not_read_its_answer_is_not_waited_for,
        partial(test_a_full_server_makes_room_for_who_comes, b"", False, True),
        partial(test_a_full_server_makes_room_for_who_comes, GET, True, False),
        test_whoever_is_being_answered_keeps_the_connection,
        test_a_server_that_ends_leaves_no_connection_open,
    ],
)
def test_the_loop_of_production_does_the_same(scene: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scene())
