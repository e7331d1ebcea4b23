"""Serves HTTP/1.1 on one connection: parses requests, calls their handlers, and writes the answers (decision 0186)."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import cast
from urllib.parse import unquote, urlsplit

from haulout.kube.errors import one_line
from haulout.kube.http1.failures import WireError
from haulout.kube.http1.message import MessageParser, Part
from haulout.serve.exchange import Body, Malformed, Refused, Request, Response, StreamResponse, plain

log = logging.getLogger("haulout.http")

Handler = Callable[[Request], Awaitable[StreamResponse]]

# The most bytes that are received before a handler reads them.
BUFFERED = 32 * 2**10
# The most headers of one request. Prometheus sends 8 of them, browsers about 20.
MOST_HEADERS = 64
# How long the rest of a refused body is read, so that its sender receives the refusal.
LINGER_FOR = 0.1
COMPLAIN_EVERY = 1.0
# How long requests may go on when the server ends.
ENDS_WITHIN = 5.0

_LINE = re.compile(rb"([A-Z]{1,16}) ([\x21-\x7e]+) HTTP/1\.([01])")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Routes:
    """The handlers of a server by path. A path that ends in `{name:.*}` stands for all paths that begin so."""

    def __init__(self, routes: Mapping[str, Handler], method: str) -> None:
        self._methods = ("GET", "HEAD") if method == "GET" else (method,)
        self._exact = {path: handler for path, handler in routes.items() if "{" not in path}
        prefixes = ((path.partition("{"), handler) for path, handler in routes.items() if "{" in path)
        found = [(begin, name.partition(":")[0], handler) for (begin, _, name), handler in prefixes]
        self._prefixes = sorted(found, key=lambda each: -len(each[0]))

    def find(self, request: Request) -> Handler:
        """Return the handler of a request. Raises Refused."""
        handler = self._exact.get(request.path)
        if handler is None:
            for begin, name, each in self._prefixes:
                if request.path.startswith(begin):
                    handler, request.match_info = each, {name: request.path[len(begin) :]}
                    break
        if handler is None:
            raise Refused(plain(HTTPStatus.NOT_FOUND))
        if request.method not in self._methods:
            raise Refused(plain(HTTPStatus.METHOD_NOT_ALLOWED, Allow=",".join(self._methods)))
        return handler


class Application:
    """What a server serves: `respond` answers a request, `longest_body` limits its body."""

    def __init__(self, respond: Handler, longest_body: int) -> None:
        self.respond = respond
        self.longest_body = longest_body
        self.busy: set[asyncio.Task[None]] = set()
        self._quiet_until = 0.0

    def connection(self) -> HttpConnection:
        return HttpConnection(self)

    async def end(self) -> None:
        """Wait for a while until the requests have been answered that are being answered."""
        if self.busy:
            await asyncio.wait(self.busy, timeout=ENDS_WITHIN)

    def complain(self, problem: str) -> None:
        """Log what is wrong with a request, at most once a second. Any client can send such requests."""
        if time.monotonic() >= self._quiet_until:
            self._quiet_until = time.monotonic() + COMPLAIN_EVERY
            log.warning("malformed request", extra={"error": one_line(problem)})


class RequestParser(MessageParser):
    """The parser of one request. `method` is empty until the head has arrived."""

    def __init__(self) -> None:
        super().__init__("the request")
        self.method = self.path = ""
        self.is_old = False

    def take_head(self, first: bytes, headers: Mapping[str, str]) -> None:
        line = _LINE.fullmatch(first)
        if line is None or len(headers) > MOST_HEADERS:
            self.not_http()
        target = line[2].decode()
        path = target if target.startswith("/") else urlsplit(target).path
        self.path = unquote(path.partition("?")[0].partition("#")[0], errors="replace")
        self.headers, self.is_old = headers, line[3] == b"0"
        if not self.path.startswith("/") or "\0" in self.path:
            self.not_http()
        if not self.frame(is_old=self.is_old):
            self.part = Part.NOTHING
        self.method = line[1].decode()


class HttpConnection(asyncio.Protocol):
    """One connection of a caller. Its requests are answered one after the other."""

    def __init__(self, application: Application) -> None:
        self._application = application
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._remote = ""
        self._parser = RequestParser()
        self._body: Body | None = None
        self._task: asyncio.Task[None] | None = None
        # What has arrived after the request that is being answered.
        self._ahead = b""
        self._is_paused = self._is_full = False
        # The head of the answer has been written; what has arrived is not HTTP.
        self._has_begun = self._is_broken = False
        self._drained: asyncio.Future[None] | None = None

    # What `Request` and `StreamResponse` use.

    @property
    def transport(self) -> asyncio.Transport | None:
        return self._transport

    def begin(self, head: bytes) -> None:
        """Write the head of an answer."""
        self._has_begun = True
        closing = b"" if self._parser.keeps_connection else b"Connection: close\r\n"
        # A client of HTTP/1.0 has to be told that the connection is kept.
        if self._parser.keeps_connection and self._parser.is_old:
            closing = b"Connection: keep-alive\r\n"
        date = time.strftime("Date: %a, %d %b %Y %H:%M:%S GMT\r\n", time.gmtime()).encode()
        self._send(head + closing + date + b"\r\n")

    async def write(self, data: bytes | memoryview) -> None:
        self._send(data)
        await self._drain()

    def resume(self) -> None:
        if self._is_paused and self._transport is not None:
            self._is_paused = False
            self._transport.resume_reading()

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        peer = transport.get_extra_info("peername")
        self._remote = str(peer[0]) if isinstance(peer, tuple) else ""

    def data_received(self, data: bytes) -> None:
        if self._is_broken:
            return
        if self._task is not None and (self._body is None or self._parser.is_done):
            self._ahead += data
            self._pause(len(self._ahead))
            return
        self._feed(data)

    def pause_writing(self) -> None:
        self._is_full = True

    def resume_writing(self) -> None:
        self._is_full = False
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self.resume_writing()
        if self._body is not None:
            self._body.fail(ConnectionResetError("the caller has gone"))
        task, self._task = self._task, None
        if task is not None:
            # A handler works for its caller only. Its task is not kept, because it holds the answer, which may be long.
            task.cancel()

    def _feed(self, data: bytes) -> None:
        parser = self._parser
        try:
            pieces = parser.feed(data)
        except WireError as error:
            self._give_up(Malformed(str(error)))
            return
        if parser.method and self._body is None:
            self._body = Body(self, self._application.longest_body)
            self._task = self._loop.create_task(self._serve(parser, self._body))
            self._application.busy.add(self._task)
            self._task.add_done_callback(self._application.busy.discard)
        if self._body is not None:
            self._body.add(pieces, is_complete=parser.is_done)
            self._pause(self._body.held)
        if parser.rest:
            self._ahead, parser.rest = self._ahead + parser.rest, b""

    def _give_up(self, error: Malformed) -> None:
        """Refuse what is not HTTP, and close the connection."""
        self._is_broken, self._parser.keeps_connection = True, False
        if self._body is not None:
            # The handler of this request decides what becomes of it.
            self._body.fail(error)
            return
        self._application.complain(str(error))
        self._respond(plain(error.status))
        self.close()

    async def _serve(self, parser: RequestParser, body: Body) -> None:
        """Answer a request, and begin with the next one."""
        try:
            await self._answer(Request(parser.method, parser.path, parser.headers, body, self, self._remote))
        except ConnectionError:
            # The caller has gone.
            parser.keeps_connection = False
        if not body.is_eof():
            parser.keeps_connection = False
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER_FOR):
                    await body.discard()
        self._task = self._body = None
        if not parser.keeps_connection or self._transport is None:
            self.close()
            return
        self._parser, self._has_begun = RequestParser(), False
        rest, self._ahead = self._ahead, b""
        if rest:
            # To the protocol around this one, which follows the phases of the connection.
            cast("asyncio.Protocol", self._transport.get_protocol()).data_received(rest)
        if len(self._ahead) <= BUFFERED:
            self.resume()

    async def _answer(self, request: Request) -> None:
        """Write the answer to a request. Raises ConnectionError."""
        response = await self._response(request)
        if response is None:
            self._parser.keeps_connection = False
            return
        if response.closes or not request.content.is_eof():
            self._parser.keeps_connection = False
        if not response.is_begun:
            self._respond(response, with_body=request.method != "HEAD")
        await self._drain()

    async def _response(self, request: Request) -> StreamResponse | None:
        """Return the answer of the handler; None if it failed after it had begun to write."""
        try:
            _check(request)
            if request.headers.get("expect"):
                self._send(CONTINUE)
            return await self._application.respond(request)
        except Refused as refused:
            return refused.answer
        except Malformed as error:
            self._application.complain(str(error))
            answer = plain(error.status)
        except ConnectionError:
            raise
        except Exception:
            log.exception("request failed", extra={"path": one_line(request.path[:200])})
            answer = plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        answer.force_close()
        return None if self._has_begun else answer

    def _respond(self, response: StreamResponse, *, with_body: bool = True) -> None:
        self.begin(response.head())
        if with_body and isinstance(response, Response) and response.body:
            self._send(response.body)

    def _send(self, data: bytes | memoryview) -> None:
        if self._transport is not None:
            self._transport.write(data)

    async def _drain(self) -> None:
        """Wait until the caller has received enough. Raises ConnectionError."""
        if self._is_full and self._transport is not None:
            self._drained = self._loop.create_future()
            await self._drained
        if self._transport is None:
            raise ConnectionResetError("the caller has gone")

    def _pause(self, held: int) -> None:
        if held > BUFFERED and not self._is_paused and self._transport is not None:
            self._is_paused = True
            self._transport.pause_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


def _check(request: Request) -> None:
    """Raise Malformed for what no client of ours sends."""
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        # A short compressed body can unpack to gigabytes.
        status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        raise Malformed(f"a body with the encoding {request.headers.get('content-encoding')[:20]}", status)
    if request.headers.get("expect", "100-continue").lower() != "100-continue":
        raise Malformed("an expectation that is unknown", HTTPStatus.EXPECTATION_FAILED)
