"""A reverse proxy between an operator and the API server that injects faults by rules."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import json
import re
import socket
import ssl
import struct
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import aiohttp
from aiohttp import web
from yarl import URL

from tests.rig.api import Json, decode
from tests.rig.loops import abort_connections
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.wait import eventually

T = TypeVar("T")

REASONS = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
# And what either side must say anew about a message of its own.
HOP_BY_HOP = {
    "connection",
    "content-length",
    "date",
    "host",
    "keep-alive",
    "server",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
}
LONGEST_LINE = 2**26
END_OF_LIST = b'"k8s.io/initial-events-end":"true"'


def any_event(event: Json) -> bool:
    return True


@dataclasses.dataclass(frozen=True)
class Delay:
    """Waits before the request is passed on, or after the answer has come.

    `late`: pass it on even if the client has left.
    """

    before: float = 0
    after: float = 0
    late: bool = False


@dataclasses.dataclass(frozen=True)
class CutBefore:
    """Breaks the connection. The server never receives the request."""


@dataclasses.dataclass(frozen=True)
class CutAfter:
    """Breaks the connection once the server has answered. The write has happened, and the client does not know."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """Answers in the server's place, with a Status unless a body is given. The server never receives the request."""

    code: int
    reason: str = ""
    message: str = "as the test wished"
    retry_after: int | None = None
    body: Any = None


@dataclasses.dataclass(frozen=True)
class Stall:
    """Goes silent until released, as a half-open connection: after so many events of a watch, or instead of an answer."""

    events: int = 0


@dataclasses.dataclass(frozen=True)
class CutStream:
    """Ends a watch after so many events: by RST, by FIN, after half of the next event, or regularly."""

    events: int = 0
    how: Literal["reset", "close", "torn", "end"] = "reset"


@dataclasses.dataclass(frozen=True)
class InsertEvent:
    """Inserts an event of the test after so many events of a watch."""

    event: Json
    events: int = 0


@dataclasses.dataclass(frozen=True)
class DropEvents:
    where: Callable[[Json], bool] = any_event


@dataclasses.dataclass(frozen=True)
class DelayEvents:
    """Delays events of a watch. Later events wait behind a delayed one, because a stream keeps its order."""

    seconds: float
    where: Callable[[Json], bool] = any_event


@dataclasses.dataclass(frozen=True)
class RepeatEvents:
    where: Callable[[Json], bool] = any_event
    times: int = 2


StreamAction = Stall | CutStream | InsertEvent | DropEvents | DelayEvents | RepeatEvents
Action = Delay | CutBefore | CutAfter | Answer | StreamAction


@dataclasses.dataclass(eq=False)
class Rule:
    """A fault and when it applies: to matching requests, after `skip` of them, at most `times`."""

    action: Action
    method: str | None = None
    path: re.Pattern[str] | None = None
    watch: bool | None = None
    query: str = ""
    skip: int = 0
    times: int | None = None
    seen: int = 0
    acted: int = 0
    events: int = 0
    released: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)

    def matches(self, call: Call) -> bool:
        return (
            (self.method is None or self.method == call.method)
            and (self.path is None or self.path.search(call.path) is not None)
            and (self.watch is None or self.watch == call.watch)
            and self.query in call.target.partition("?")[2]
        )

    def due(self, call: Call) -> bool:
        """Whether the fault applies to a request. A matching request is counted."""
        if not self.matches(call):
            return False
        self.seen += 1
        if self.seen <= self.skip or (self.times is not None and self.acted >= self.times):
            return False
        self.acted += 1
        return True


@dataclasses.dataclass(frozen=True)
class Call:
    method: str
    path: str
    target: str
    watch: bool
    headers: dict[str, str]
    body: bytes


@dataclasses.dataclass(frozen=True)
class Write:
    """A request that is not a GET, before it is passed on or after its answer. After the answer it has a code."""

    number: int
    method: str
    path: str
    body: Any
    moment: Literal["before", "after"]
    code: int | None = None

    def __str__(self) -> str:
        return f"write {self.number}: {self.method} {self.path}"


@dataclasses.dataclass(frozen=True)
class Reply:
    code: int
    headers: dict[str, str]
    body: bytes


class CutError(Exception):
    """Raised to break the connection to the client."""

    def __init__(self, *, politely: bool = False) -> None:
        super().__init__()
        self.politely = politely


def pass_all(write: Write) -> bool:
    return True


class FaultProxy:
    """A proxy on loopback in a thread of its own. Without rules it only passes requests on.

    `on_write` is called in that thread before each write is passed on and again when the server has answered. While it
    runs, nothing else passes. If it returns False, the client's connection is broken at that moment. Upgrades (exec,
    attach) do not pass.
    """

    def __init__(self, plane: ControlPlane, *, tls: bool = True) -> None:
        self.port = free_port()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.on_write: Callable[[Write], bool] = pass_all
        self.writes: list[Write] = []
        # The open watches, by path.
        self.watched: Counter[str] = Counter()
        self.watch_opened_at = 0.0
        self._upstream = plane.server
        self._upstream_tls = ssl.create_default_context(cafile=plane.ca)
        self._tls: ssl.SSLContext | None = None
        if tls:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            plane.authority.issue_cert("127.0.0.1", "localhost").configure_cert(self._tls)
        self._rules: list[Rule] = []
        self._numbers = itertools.count(1)
        self._sending: set[asyncio.Task[Reply]] = set()
        self._handling = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="fault-proxy", daemon=True)

    def start(self) -> Self:
        self._thread.start()
        self._run(self._open())
        return self

    def stop(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def rule(
        self,
        action: Action,
        *,
        method: str | None = None,
        path: str | None = None,
        watch: bool | None = None,
        query: str = "",
        skip: int = 0,
        times: int | None = None,
    ) -> Rule:
        """Add a rule. The first rule that applies to a request is used. `path` is a regular expression to search for.

        `query`: a text that the query has to contain.
        """
        if not isinstance(action, Delay | CutBefore | CutAfter | Answer | Stall):
            watch = True
        made = Rule(action, method, re.compile(path) if path else None, watch, query, skip, times)
        self._rules.append(made)
        return made

    def clear(self) -> None:
        """Remove all rules. Stalled requests go on."""
        for rule in self._rules:
            self.release(rule)
        self._rules.clear()

    def release(self, rule: Rule) -> None:
        self._loop.call_soon_threadsafe(rule.released.set)

    def refuse(self) -> None:
        """Stop listening, and break open connections."""
        self._run(self._site.stop())
        self.cut_all()

    def accept(self) -> None:
        self._run(self._listen())

    def cut_all(self) -> None:
        """Break every open connection. New ones are accepted."""
        self._run(self._cut_all())

    def wait_idle(self) -> None:
        """Wait until no request is under way, except for watches."""
        eventually(lambda: not self._sending and not self._handling, "no request in flight through the proxy")

    def wait_deserted(self) -> None:
        """Wait until the last client has disconnected and its requests are finished."""
        eventually(lambda: self._run(self._connections()) == 0, "no connection to the proxy")
        self.wait_idle()

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(abort_connections())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()

    async def _open(self) -> None:
        connector = aiohttp.TCPConnector(limit=0, ssl=self._upstream_tls)
        self._session = aiohttp.ClientSession(
            connector=connector, auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None)
        )
        app = web.Application(client_max_size=2**28)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        await self._listen()

    async def _listen(self) -> None:
        self._site = web.TCPSite(self._runner, "127.0.0.1", self.port, ssl_context=self._tls)
        await self._site.start()

    async def _close(self) -> None:
        await self._cut_all()
        await self._runner.cleanup()
        # No client waits any more for answers of a slow server. Without this its sockets would stay open.
        for sending in self._sending:
            sending.cancel()
        await asyncio.gather(*self._sending, return_exceptions=True)
        await self._session.close()

    async def _connections(self) -> int:
        server = self._runner.server
        assert server is not None
        return len(server.connections)

    async def _cut_all(self) -> None:
        # This includes connections in their handshake, which the web server does not know yet.
        for transport in list(self._loop._transports.values()):  # type: ignore[attr-defined]
            if transport.get_extra_info("sockname")[1] == self.port:
                cut(transport, politely=False)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        watch = request.query.get("watch", "") in {"true", "1"}
        headers = passed_on(request.headers)
        if watch:
            headers.pop("Accept-Encoding", None)
        call = Call(request.method, request.path, request.raw_path, watch, headers, body)
        rule = next((rule for rule in self._rules if rule.due(call)), None)
        try:
            if watch:
                return await self._stream(request, call, rule)
            self._handling += 1
            try:
                return await self._exchange(call, rule)
            finally:
                self._handling -= 1
        except (CutError, aiohttp.ClientError) as gone:
            if request.transport is not None:
                cut(request.transport, politely=isinstance(gone, CutError) and gone.politely)
            return web.Response()

    async def _exchange(self, call: Call, rule: Rule | None) -> web.StreamResponse:
        action = rule.action if rule else None
        late = action.before if isinstance(action, Delay) and action.late else 0
        if made := await self._first(action):
            return made
        sending = self._loop.create_task(self._deliver(call, late))
        self._sending.add(sending)
        sending.add_done_callback(self._delivered)
        # If the client leaves now, its request goes on.
        reply = await asyncio.shield(sending)
        match action:
            case CutAfter():
                raise CutError
            case Stall():
                assert rule is not None
                await rule.released.wait()
            case Delay():
                await asyncio.sleep(action.after)
        return web.Response(status=reply.code, headers=reply.headers, body=reply.body)

    async def _first(self, action: Action | None) -> web.Response | None:
        """Apply what a fault does before the server receives a request."""
        match action:
            case Delay(late=False):
                await asyncio.sleep(action.before)
            case CutBefore():
                raise CutError
            case Answer():
                return answer_of(action)
        return None

    async def _deliver(self, call: Call, late: float) -> Reply:
        await asyncio.sleep(late)
        if call.method in {"GET", "HEAD", "OPTIONS"}:
            return await self._send(call)
        write = Write(next(self._numbers), call.method, call.path, decode(call.body), "before")
        if not self.on_write(write):
            raise CutError
        reply = await self._send(call)
        done = dataclasses.replace(write, moment="after", code=reply.code)
        self.writes.append(done)
        if not self.on_write(done):
            raise CutError
        return reply

    def _delivered(self, sending: asyncio.Task[Reply]) -> None:
        self._sending.discard(sending)
        if not sending.cancelled():
            # Retrieve the error, or asyncio would log it when the client has left.
            sending.exception()

    async def _send(self, call: Call) -> Reply:
        async with self._request(call) as upstream:
            return Reply(upstream.status, passed_on(upstream.headers), await upstream.read())

    def _request(self, call: Call) -> contextlib.AbstractAsyncContextManager[aiohttp.ClientResponse]:
        url = URL(self._upstream + call.target, encoded=True)
        # With an empty body aiohttp would send a content type, which some paths of the server refuse.
        body = call.body or None
        return self._session.request(call.method, url, headers=call.headers, data=body, allow_redirects=False)

    async def _stream(self, request: web.Request, call: Call, rule: Rule | None) -> web.StreamResponse:
        action = rule.action if rule else None
        if made := await self._first(action):
            return made
        async with self._request(call) as upstream:
            if upstream.status != 200:
                return web.Response(
                    status=upstream.status, headers=passed_on(upstream.headers), body=await upstream.read()
                )
            if isinstance(action, CutAfter):
                raise CutError
            out = web.StreamResponse(headers=passed_on(upstream.headers))
            out.enable_chunked_encoding()
            await out.prepare(request)
            # A client that is cut off while it reads a list begins again. One that watches resumes.
            watches = "sendInitialEvents=true" not in call.target
            self.watched[call.path] += watches
            self.watch_opened_at = time.monotonic()
            try:
                async for line in events(lines(upstream.content), rule):
                    await out.write(line)
                    if not watches and END_OF_LIST in line:
                        watches = True
                        self.watched[call.path] += 1
                await out.write_eof()
            finally:
                self.watched[call.path] -= watches
            return out

    @property
    def watching(self) -> int:
        """Return how many watches are open and have delivered their list."""
        return self.watched.total()

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()


async def lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    while line := await content.readline(max_line_length=LONGEST_LINE):
        yield line


async def events(source: AsyncIterator[bytes], rule: Rule | None) -> AsyncIterator[bytes]:
    """Yield the lines of a watch as a fault changes them."""
    action = rule.action if rule else None
    passed = 0
    while True:
        if rule is not None:
            async for extra in between(action, rule, passed):
                yield extra
            if isinstance(action, CutStream) and action.how == "end" and passed >= action.events:
                return
        line = await anext(source, None)
        if line is None:
            return
        if isinstance(action, CutStream) and passed >= action.events:
            yield line[: len(line) // 2]
            raise CutError
        for copy in await altered(line, action, rule):
            yield copy
        passed += 1


async def between(action: Action | None, rule: Rule, passed: int) -> AsyncIterator[bytes]:
    """Apply what happens after the first `passed` events, before the next one has come."""
    match action:
        case Stall() if passed == action.events:
            await rule.released.wait()
        case InsertEvent() if passed == action.events:
            rule.events += 1
            yield json.dumps(action.event).encode() + b"\n"
        case CutStream(how="reset" | "close") if passed >= action.events:
            raise CutError(politely=action.how == "close")


async def altered(line: bytes, action: Action | None, rule: Rule | None) -> list[bytes]:
    """Yield one event as a fault changes it: dropped, delayed, repeated, or as it is."""
    if not isinstance(action, DropEvents | DelayEvents | RepeatEvents) or not action.where(json.loads(line)):
        return [line]
    assert rule is not None
    rule.events += 1
    match action:
        case DropEvents():
            return []
        case DelayEvents():
            await asyncio.sleep(action.seconds)
            return [line]
        case RepeatEvents():
            return [line] * action.times


def answer_of(action: Answer) -> web.Response:
    status: Json = {
        "apiVersion": "v1",
        "kind": "Status",
        "metadata": {},
        "status": "Failure",
        "code": action.code,
        "reason": action.reason or REASONS.get(action.code, ""),
        "message": action.message,
    }
    headers = {"Content-Type": "application/json"}
    if action.retry_after is not None:
        headers["Retry-After"] = str(action.retry_after)
        status["details"] = {"retryAfterSeconds": action.retry_after}
    body = status if action.body is None else action.body
    return web.Response(status=action.code, headers=headers, body=json.dumps(body).encode())


def passed_on(headers: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in headers.items() if key.lower() not in HOP_BY_HOP}


def cut(transport: asyncio.BaseTransport, *, politely: bool) -> None:
    """Close a connection by FIN, or by RST, which a socket without lingering sends."""
    assert isinstance(transport, asyncio.WriteTransport)
    handle = transport.get_extra_info("socket")
    if not politely and handle is not None:
        with contextlib.suppress(OSError):
            handle.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
