"""Starts small HTTP servers, with limits for their callers, and has the handlers for metrics and probes."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from socket import socket
from typing import Any, Generic, Protocol, TypeVar

from haulout.base.address import OFF, AddressError, split_address
from haulout.runtime.metrics import Metrics
from haulout.serve.connections import Connection, Connections, Limits, Pace, Phase, bind
from haulout.serve.exchange import Request, Response, StreamResponse
from haulout.serve.http import Application, Handler, Routes
from haulout.serve.single_flight import Flight

T = TypeVar("T")

OPENMETRICS = "application/openmetrics-text"
# How much is written at once, so that the loop can do other work in between.
PIECE = 32 * 2**10
# The most different answers of one endpoint that are in memory at a time, besides the one that is made. Callers that ask
# at the same time share one.
MOST_HELD = 4


class Asked(Protocol):
    """A request to one of our servers, or to one of aiohttp."""

    @property
    def method(self) -> str: ...

    @property
    def transport(self) -> asyncio.Transport | None: ...


class Streamed(Protocol):
    """An answer that is written in pieces, of one of our servers or of aiohttp."""

    @property
    def content_length(self) -> int | None: ...

    @content_length.setter
    def content_length(self, value: int | None) -> None: ...

    async def prepare(self, request: Any) -> Any: ...

    async def write(self, data: Any) -> None: ...

    async def write_eof(self) -> None: ...


AnswerT = TypeVar("AnswerT", bound=Streamed)


class Server:
    """A running HTTP server with one or more listening sockets. `cleanup` ends it.

    `end`: waits for the requests that are being answered.
    """

    def __init__(self, end: Callable[[], Awaitable[None]], connections: Connections, listeners: list[socket]) -> None:
        self.connections = connections
        self._end = end
        self._listeners = listeners

    @property
    def port(self) -> int:
        return int(self._listeners[0].getsockname()[1])

    async def cleanup(self) -> None:
        await self.connections.stop_accepting()
        for listener in self._listeners:
            listener.close()
        await self._end()
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
    limits = limits or Limits()
    host, port = split_address(address)
    application = Application(_respond(Routes(routes, method), Pace(limits.requests_per_second)), longest_body)
    try:
        listeners = await bind(host, port)
    except OSError as error:
        raise AddressError(f"cannot listen on {address}: {error.strerror or error}") from error
    connections = Connections(application.connection, limits, tls)
    connections.start(listeners)
    return Server(application.end, connections, listeners)


def _respond(routes: Routes, pace: Pace) -> Handler:
    """Return the handler of all requests, which notes the phase of each connection, and limits the rate of requests."""

    async def respond(request: Request) -> StreamResponse:
        connection = connection_of(request)
        if connection is None:
            return await routes.find(request)(request)
        connection.enter(Phase.REQUEST, request)
        try:
            await pace.turn()
            return await routes.find(request)(request)
        finally:
            connection.enter(Phase.IDLE)

    return respond


def connection_of(request: Asked) -> Connection | None:
    """Return the connection of a request; None if it is closed, or if another kind of server runs the handler."""
    protocol = request.transport.get_protocol() if request.transport is not None else None
    return protocol if isinstance(protocol, Connection) else None


async def send(request: Request, body: bytes, content_type: str, status: int = 200) -> StreamResponse:
    """Answer with a body of any length. A long one is written in pieces, without a copy for each caller."""
    if len(body) <= PIECE or request.method == "HEAD":
        return Response(body=body, status=status, content_type=content_type, charset="utf-8")
    response = StreamResponse(status=status)
    response.content_type, response.charset = content_type, "utf-8"

    async def piece(start: int) -> memoryview:
        return memoryview(body)[start : start + PIECE]

    return await send_pieces(request, response, len(body), piece)


async def send_pieces(
    request: Asked,
    response: AnswerT,
    length: int,
    piece: Callable[[int], Awaitable[bytes | memoryview]],
) -> AnswerT:
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
    async def answer(self, request: Asked) -> AsyncIterator[T]:
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
    """Return the handler of scrapes. A scraper that asks for OpenMetrics gets it where there may be exemplars."""

    async def rendered() -> bytes:
        # Rendering many series takes long, so it is done in a thread.
        return await asyncio.to_thread(metrics.snapshot().render)

    async def rendered_openmetrics() -> bytes:
        return await asyncio.to_thread(metrics.snapshot().render_openmetrics)

    plain, openmetrics = LongAnswers(rendered), LongAnswers(rendered_openmetrics)

    async def answer(request: Request) -> StreamResponse:
        is_open = metrics.offers_openmetrics and accepts_openmetrics(request.headers.get("accept", ""))
        async with (openmetrics if is_open else plain).answer(request) as text:
            on_scrape()
            return await send(request, text, f"{OPENMETRICS}; version=1.0.0" if is_open else "text/plain")

    return answer


def accepts_openmetrics(accept: str) -> bool:
    """Whether the header Accept of a scraper prefers OpenMetrics to plain text, as that of Prometheus does."""
    wishes: dict[str, float] = {}
    for entry in accept.lower().split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        weight = next((part.removeprefix("q=") for part in parameters if part.startswith("q=")), "1")
        with contextlib.suppress(ValueError):
            wishes[kind] = max(wishes.get(kind, 0.0), float(weight))
    return wishes.get(OPENMETRICS, 0.0) > wishes.get("text/plain", 0.0)


def probe_routes(name: str, is_well: Callable[[], str], remarks: Callable[[], str] = lambda: "") -> dict[str, Handler]:
    """Return the routes of a probe, which answers 200 `ok` with the remarks while there is no problem, else 503 with the problem.

    The originals are managers of controller-runtime with one check, which has the name of its probe. Such a manager
    answers for the probe at `/name` and `/name/`, for the check at `/name/name`, and 404 below that for anything else.
    """

    async def answer(request: Request) -> Response:
        problem = is_well()
        return Response(text=problem or f"ok{remarks()}", status=503 if problem else 200)

    return dict.fromkeys((f"/{name}", f"/{name}/", f"/{name}/{name}"), answer)
