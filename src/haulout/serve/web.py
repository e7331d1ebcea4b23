"""Starts small HTTP servers, with limits for their callers, and has the handlers for metrics and probes."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from socket import socket
from typing import Generic, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Middleware

from haulout.base.address import OFF, AddressError, split_address
from haulout.kube.errors import one_line
from haulout.runtime.metrics import Metrics
from haulout.serve.connections import Connection, Connections, Limits, Pace, Phase, bound
from haulout.serve.single_flight import Flight

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
T = TypeVar("T")

# The most bytes of a request's body that are received before its handler reads it.
BUFFERED = 32 * 2**10
# The most headers of one request. Prometheus sends 8 of them, browsers about 20.
MOST_HEADERS = 64
# How long the rest of a refused body is read, so that its sender receives the refusal.
LINGER_FOR = 0.1
# How much is written at once, so that the loop can do other work in between.
PIECE = 32 * 2**10
COMPLAIN_EVERY = 1.0
# The most different answers of one endpoint that are in memory at a time, besides the one that is made. Callers that ask
# at the same time share one.
MOST_HELD = 4


class Server:
    """A running HTTP server with one or more listening sockets. `cleanup` ends it."""

    def __init__(self, runner: web.AppRunner, connections: Connections, listeners: list[socket]) -> None:
        self.connections = connections
        self._runner = runner
        self._listeners = listeners

    @property
    def port(self) -> int:
        return int(self._listeners[0].getsockname()[1])

    async def cleanup(self) -> None:
        await self.connections.stop_accepting()
        for listener in self._listeners:
            listener.close()
        await self._runner.cleanup()
        await self.connections.close()


async def listen(
    address: str,
    routes: Mapping[str, Handler],
    *,
    method: str = "GET",
    tls: ssl.SSLContext | None = None,
    longest_body: int = 2**20,
    limits: Limits | None = None,
) -> Server | None:
    """Start a server for the routes. Return None if the address is one that switches it off. Raises AddressError."""
    if address in OFF:
        return None
    app = web.Application(client_max_size=longest_body)
    for path, handler in routes.items():
        if method == "GET":
            app.router.add_get(path, handler)
        else:
            app.router.add_route(method, path, handler)
    return await serve_app(address, app, tls=tls, limits=limits)


async def serve_app(
    address: str,
    app: web.Application,
    *,
    tls: ssl.SSLContext | None = None,
    limits: Limits | None = None,
    longest_header: int = 8190,
) -> Server:
    """Start a server for an application, within the limits for callers. Raises AddressError."""
    limits = limits or Limits()
    host, port = split_address(address)
    app.middlewares.insert(0, _follow(Pace(limits.requests_per_second)))
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        shutdown_timeout=5,
        handler_cancellation=True,
        keepalive_timeout=limits.idle_for,
        lingering_time=LINGER_FOR,
        read_bufsize=BUFFERED,
        max_headers=MOST_HEADERS,
        max_field_size=longest_header,
        logger=_logger(),
    )
    await runner.setup()
    assert runner.server is not None
    try:
        listeners = await bound(host, port)
    except OSError as error:
        await runner.cleanup()
        raise AddressError(f"cannot listen on {address}: {error.strerror or error}") from error
    connections = Connections(runner.server, limits, tls)
    connections.start(listeners)
    return Server(runner, connections, listeners)


class _Malformed(logging.Filter):
    """A log filter that shortens errors about malformed requests to a line without traceback, at most one a second.

    Any client can send such requests.
    """

    def __init__(self) -> None:
        super().__init__()
        self._quiet_until = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        # aiohttp raises UnicodeEncodeError when it quotes a header that is no text (`Expect`).
        if not isinstance(error, HttpProcessingError | web.RequestPayloadError | UnicodeEncodeError):
            return True
        if time.monotonic() < self._quiet_until:
            return False
        self._quiet_until = time.monotonic() + COMPLAIN_EVERY
        record.levelno, record.levelname = logging.WARNING, "WARNING"
        record.msg, record.args, record.exc_info = "malformed request", (), None
        record.error = one_line(str(error))
        return True


@functools.cache
def _logger() -> logging.Logger:
    made = logging.getLogger("haulout.http")
    made.addFilter(_Malformed())
    return made


def _follow(pace: Pace) -> Middleware:
    """Return a middleware that notes the phase of each connection, and limits the rate of requests."""

    @web.middleware
    async def follow(request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = connection_of(request)
        if connection is None:
            return await handler(request)
        connection.enter(Phase.REQUEST, request)
        try:
            await pace.turn()
            return await handler(request)
        finally:
            connection.enter(Phase.IDLE)

    return follow


def connection_of(request: web.Request) -> Connection | None:
    """Return the connection of a request; None if it is closed, or if another kind of server runs the handler."""
    protocol = request.transport.get_protocol() if request.transport is not None else None
    return protocol if isinstance(protocol, Connection) else None


async def send(request: web.Request, body: bytes, content_type: str, status: int = 200) -> web.StreamResponse:
    """Answer with a body of any length. A long one is written in pieces, without a copy for each caller."""
    if len(body) <= PIECE or request.method == "HEAD":
        return web.Response(body=body, status=status, content_type=content_type, charset="utf-8")
    response = web.StreamResponse(status=status)
    response.content_type, response.charset = content_type, "utf-8"

    async def piece(start: int) -> memoryview:
        return memoryview(body)[start : start + PIECE]

    return await send_pieces(request, response, len(body), piece)


async def send_pieces(
    request: web.Request,
    response: web.StreamResponse,
    length: int,
    piece: Callable[[int], Awaitable[bytes | memoryview]],
) -> web.StreamResponse:
    """Answer with a body of this length, of which `piece` returns the part that begins at an offset, `PIECE` bytes each."""
    connection = connection_of(request)
    if connection is not None:
        connection.enter(Phase.ANSWER)
    response.content_length = length
    # The connection may be closed while a piece is read: by the caller, or because the caller does not read the answer.
    with contextlib.suppress(ConnectionError):
        await response.prepare(request)
        for start in range(0, length if request.method != "HEAD" else 0, PIECE):
            await response.write(await piece(start))
            if connection is not None:
                connection.progressed()
        await response.write_eof()
    return response


class LongAnswers(Generic[T]):
    """The answers of one endpoint. Each is computed once, for all callers that ask at the same time.

    A caller that does not read keeps its answer in memory. If there are many different ones, the caller that has not
    read for longest loses its connection before another one is computed.
    """

    def __init__(self, compute: Callable[[], Awaitable[T]]) -> None:
        self._flight = Flight(compute)
        self._held: dict[Connection, T] = {}
        self._freed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def answer(self, request: web.Request) -> AsyncIterator[T]:
        """Yield the answer for a caller, to be sent within the `with` block."""
        await self._make_room()
        found = await self._flight.get()
        connection = connection_of(request)
        if connection is not None:
            self._held[connection] = found
        try:
            yield found
        finally:
            if connection is not None:
                del self._held[connection]
            self._freed.set()

    async def _make_room(self) -> None:
        while len({id(each) for each in self._held.values()}) >= MOST_HELD:
            self._freed.clear()
            slowest = min(self._held, key=lambda each: each.goes_at)
            grace = slowest.goes_at - asyncio.get_running_loop().time()
            if grace <= 0:
                slowest.abort()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(grace, 0.0) + 0.001):
                    await self._freed.wait()


def metrics_route(metrics: Metrics, on_scrape: Callable[[], None] = lambda: None) -> Handler:
    async def rendered() -> bytes:
        # Rendering many series takes long, so it is done in a thread.
        return await asyncio.to_thread(metrics.snapshot().render)

    answers = LongAnswers(rendered)

    async def answer(request: web.Request) -> web.StreamResponse:
        async with answers.answer(request) as text:
            on_scrape()
            return await send(request, text, "text/plain")

    return answer


def probe_routes(name: str, is_well: Callable[[], str], remarks: Callable[[], str] = lambda: "") -> dict[str, Handler]:
    """Return the routes of a probe, which answers 200 `ok` with the remarks while there is no problem, else 503 with the problem.

    The originals are managers of controller-runtime with one check, which has the name of its probe. Such a manager
    answers for the probe at `/name` and `/name/`, for the check at `/name/name`, and 404 below that for anything else.
    """

    async def answer(request: web.Request) -> web.Response:
        problem = is_well()
        return web.Response(text=problem or f"ok{remarks()}", status=503 if problem else 200)

    return dict.fromkeys((f"/{name}", f"/{name}/", f"/{name}/{name}"), answer)
