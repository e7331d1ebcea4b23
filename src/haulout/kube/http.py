"""The transport over HTTP: requests with deadlines, answers within bounds."""

from __future__ import annotations

import asyncio
import math
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import quote, quote_plus, urlsplit

import msgspec

from haulout import __version__
from haulout.base.clock import Clock
from haulout.kube.auth import AuthProof, Header
from haulout.kube.bounds import HOME, Bounds, Text
from haulout.kube.deadline import Deadline
from haulout.kube.endpoint import Endpoint, is_loopback
from haulout.kube.errors import (
    ApiError,
    Compressed,
    ConnectionFailed,
    RequestTimeout,
    Status,
    TooLarge,
    Unauthorized,
    error_from_reply,
    error_from_status,
)
from haulout.kube.excerpt import Shape
from haulout.kube.handshakes import MOST, REFUSED_FOR, metered_client
from haulout.kube.http1.connection import Connection, HttpAnswer
from haulout.kube.http1.failures import CONNECT_SECONDS, Unanswered, WireError, failure
from haulout.kube.lines import Lines
from haulout.kube.login import Login
from haulout.kube.pools import Pool, Pools
from haulout.kube.transport import JSON, Reply
from haulout.kube.turns import MOST_SAVED, PER_RECORD, Allowance, Shared

USER_AGENT = f"haulout/{__version__}"
# Characters that are written as they are in the path of a URL. Paths are made of names of objects, and need no others.
_PATH_MARKS = "/%:@!$&'()*+,;=~"
_PLAIN_PATH = re.compile(rf"[A-Za-z0-9\-._{_PATH_MARKS}]+")
# Requests that have no effect, and may be sent again when their connection breaks before the answer.
_SAFE = frozenset({"GET", "HEAD"})

# Called with the host, the method and the code of every answer, as Go's client names them.
Answered = Callable[[str, str, str], None]
NO_ANSWER = "<error>"


class _Call(msgspec.Struct, frozen=True):
    method: str
    path: str
    query: Mapping[str, str] | None = None
    body: bytes | None = None
    headers: tuple[tuple[str, str], ...] = ()
    # The seconds without a byte after which the server counts as unreachable.
    silence: float | None = None
    # The `monotonic()` from which on the request must not be sent any more.
    ends_at: float = math.inf


class HttpTransport:
    """The transport to one API server over HTTP.

    It follows the files of its endpoint: when a CA or client certificate is replaced, new requests use new connections,
    and old connections end with their last request.

    `answered`: called with each answer, for metrics.
    `bounds`: the most memory that an answer may take, whatever the server sends.
    `tls`: the context of an endpoint whose certificates never change; without it, one is made when needed.
    `shared`: the turns that the transports to other clusters take; None for our own cluster.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Clock,
        answered: Answered | None = None,
        bounds: Bounds = HOME,
        *,
        tls: ssl.SSLContext | None = None,
        shared: Shared | None = None,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self._endpoint = endpoint
        self._clock = clock
        self._bounds = bounds
        self._shared = shared
        self._reading = shared.reading if shared else None
        self._on_close = on_close
        # No connection is opened before this `monotonic()`, because a handshake took too long.
        self._costly_until = -math.inf
        if tls is not None and shared is not None:
            tls.sslobject_class = metered_client(self._handshake_took, self._record_came)
        # The processor time that receiving small TLS records may take.
        self._receiving = Allowance(shared.receiving, clock, allotted=MOST_SAVED) if shared is not None else None
        self._host = urlsplit(endpoint.server).netloc
        self._answered = answered or (lambda host, method, code: None)
        self._login = Login(endpoint, clock)
        self._pools = Pools(endpoint, clock, bounds, self._before_connecting, tls, is_foreign=shared is not None)
        self._target, self._headers = _preamble(endpoint, bounds)
        # The connections whose answers are not read to their end.
        self._busy: set[Connection] = set()
        self._closed = False

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
        headers: tuple[tuple[str, str], ...] = (("Accept", accept),)
        if body is not None:
            headers += (("Content-Type", content_type),)
        call = _Call(method, path, query, body, headers, ends_at=self._clock.monotonic() + timeout)
        await self._ask_human()
        try:
            async with Deadline(self._clock, timeout):
                answer = await self._answer(call)
                try:
                    whole = self._bounds.body if keep is None else self._bounds.object
                    return Reply(answer.http.status, await self._body(call, answer.http, whole, keep))
                except WireError as error:
                    raise failure(self._act(call), error) from error
                finally:
                    self._end(answer)
        except TimeoutError:
            raise self._too_late(call, timeout) from None

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        call = _Call("GET", path, query, headers=(("Accept", JSON),), silence=silence)
        await self._ask_human()
        try:
            async with Deadline(self._clock, silence):
                answer = await self._answer(call)
        except TimeoutError:
            raise self._too_late(call, silence) from None
        try:
            yield Lines(self._act(call), answer.http, self._bounds, keep, self._reading, self._receiving)
        finally:
            self._end(answer)

    async def close(self) -> None:
        self._closed = True
        await self._login.close()
        await self._pools.close()
        self._on_close()

    async def _ask_human(self) -> None:
        if self._login.interactive:
            await self._login.proof()

    def _too_late(self, call: _Call, seconds: float) -> RequestTimeout:
        return RequestTimeout(f"{self._act(call)}: no answer within {seconds:g} s")

    async def _answer(self, call: _Call) -> _Answer:
        """Send a request and return the answer with its body unread. The caller has to pass it to `_end`.

        If the credentials are refused and others can be had, the request is sent a second time.
        """
        proof = await self._login.proof()
        answer = await self._send(call, proof)
        if answer.http.status == 401 and self._login.forget(proof):
            self._end(answer)
            answer = await self._send(call, await self._login.proof())
        try:
            if not 200 <= answer.http.status < 300:
                raise await self._refusal(call, answer.http)
            self._check_encoding(call, answer.http)
        except BaseException:
            self._end(answer)
            raise
        return answer

    async def _send(self, call: _Call, proof: AuthProof) -> _Answer:
        if self._closed:
            raise ConnectionFailed(f"{self._endpoint.name}: the transport is closed")
        pool = self._pools.take(proof.certificate)
        try:
            http = await self._exchange(call, pool, proof)
        except BaseException as error:
            self._pools.give_back(pool)
            # UnicodeError: the host's name cannot be encoded for DNS.
            if isinstance(error, (WireError, UnicodeError)):
                self._answered(self._host, call.method, NO_ANSWER)
                raise failure(self._act(call), error) from error
            if isinstance(error, asyncio.CancelledError):
                self._answered(self._host, call.method, NO_ANSWER)
            raise
        self._answered(self._host, call.method, str(http.status))
        return _Answer(pool, http)

    async def _exchange(self, call: _Call, pool: Pool, proof: AuthProof) -> HttpAnswer:
        """Send a request over a connection of the pool, and return the answer once its head has arrived."""
        self._check_time(call)
        request = self._request(call, (*proof.headers, *pool.connector.proxy_headers), pool.connector.target_prefix)
        is_stream = call.silence is not None
        try:
            return await self._ask(call, pool, request, await self._connection(pool, fresh=is_stream))
        except Unanswered:
            if call.method not in _SAFE:
                # A PUT or DELETE that took effect would be answered with 409 or 404 the second time.
                raise
        return await self._ask(call, pool, request, await self._connection(pool, fresh=True))

    async def _connection(self, pool: Pool, *, fresh: bool) -> Connection:
        return await pool.connection(fresh=fresh, within=CONNECT_SECONDS)

    async def _ask(self, call: _Call, pool: Pool, request: bytes, connection: Connection) -> HttpAnswer:
        try:
            # The computer may have been suspended while it connected.
            self._check_time(call)
            self._busy.add(connection)
            return await connection.ask(call.method, request, call.silence)
        except BaseException:
            self._busy.discard(connection)
            pool.free(connection)
            raise

    def _request(self, call: _Call, headers: tuple[Header, ...], prefix: str) -> bytes:
        """Return the bytes of a request."""
        path = call.path if _PLAIN_PATH.fullmatch(call.path) else quote(call.path, safe=_PATH_MARKS)
        query = ""
        if call.query:
            query = "?" + "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in call.query.items())
        lines = [f"{call.method} {prefix}{self._target}{path}{query} HTTP/1.1\r\n{self._headers}"]
        for name, value in (*call.headers, *headers):
            if "\n" in value or "\r" in value:
                raise ConnectionFailed(f"{self._act(call)}: the header {name} has a line break in it")
            lines.append(f"{name}: {value}\r\n")
        if call.body is None and call.method in _SAFE:
            lines.append("\r\n")
            return "".join(lines).encode()
        body = call.body or b""
        lines.append(f"Content-Length: {len(body)}\r\n\r\n")
        return "".join(lines).encode() + body

    def _end(self, answer: _Answer) -> None:
        self._busy.discard(answer.http.connection)
        # A connection whose answer was read to its end is used again, any other is closed.
        answer.pool.free(answer.http.connection)
        self._pools.give_back(answer.pool)

    async def _before_connecting(self) -> None:
        """Wait for a turn to connect. Raises `ConnectionFailed` for a while after a handshake that took too long."""
        if self._clock.monotonic() < self._costly_until:
            raise ConnectionFailed(f"{self._endpoint.name}: the server's certificates take too long to verify")
        # A cluster with an open watch is connected already. Further connections are only for our own writes, which
        # should not wait.
        if self._shared is not None and not self._busy:
            async with self._shared.connecting.turn():
                pass

    def _handshake_took(self, seconds: float) -> None:
        if self._shared is not None:
            self._shared.connecting.charge(seconds)
        if seconds > MOST:
            self._costly_until = self._clock.monotonic() + REFUSED_FOR

    def _record_came(self) -> None:
        if self._receiving is not None:
            self._receiving.spend(PER_RECORD)

    def _check_time(self, call: _Call) -> None:
        """Raise `ConnectionFailed` if the request's deadline has passed, perhaps while the computer was suspended."""
        if self._clock.monotonic() >= call.ends_at:
            raise ConnectionFailed(f"{self._act(call)}: its deadline passed before it was sent")

    def _check_encoding(self, call: _Call, answer: HttpAnswer) -> None:
        if not self._bounds.compressed and answer.encoding != "identity":
            raise Compressed(f"{self._act(call)}: the answer is compressed, which was not asked for, and is not read")

    async def _refusal(self, call: _Call, answer: HttpAnswer) -> ApiError:
        if answer.status < 400:
            message = f"{self._act(call)}: answered with HTTP {answer.status}, a redirect, which is not followed"
            return error_from_status(Status(code=answer.status, message=message))
        body = b""
        # If the body cannot be read, the status code says enough.
        with suppress(TooLarge, WireError):
            if self._bounds.compressed or answer.encoding == "identity":
                body = await self._body(call, answer, self._bounds.refusal, None)
        error = error_from_reply(answer.status, body, answer.headers.get("retry-after"))
        return self._not_accepted(error) if isinstance(error, Unauthorized) else error

    async def _body(self, call: _Call, answer: HttpAnswer, whole: int, keep: Shape | None) -> bytes:
        text = Text(self._act(call), whole, self._bounds.most, keep, self._reading)
        await text.read(answer, self._receiving)
        body = text.take()
        self._bounds.check_values(self._act(call), body)
        return body

    def _not_accepted(self, error: Unauthorized) -> Unauthorized:
        """Return the error for a 401, with a message that names the server and the credentials, as its own does not."""
        whose = f"the credentials of {self._endpoint.name}" if self._endpoint.credentials else "anonymous requests"
        right = "renew them if they have expired" if self._endpoint.credentials else "credentials are needed"
        message = f"{self._endpoint.server} does not accept {whose}: {error} ({right})"
        return Unauthorized(msgspec.structs.replace(error.status, message=message), error.retry_after)

    def _act(self, call: _Call) -> str:
        return f"{call.method} {self._endpoint.server}{call.path}"


class _Answer(msgspec.Struct, frozen=True):
    """An answer whose body is not read yet, and the pool that its connection belongs to."""

    pool: Pool
    http: HttpAnswer


def _preamble(endpoint: Endpoint, bounds: Bounds) -> tuple[str, str]:
    """Return the path that precedes those of all requests, and the headers that all of them have."""
    parts = urlsplit(endpoint.server)
    compresses = bounds.compressed and endpoint.compress and not is_loopback(parts.hostname or "")
    host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    headers = f"Host: {host}\r\nUser-Agent: {USER_AGENT}\r\nAccept-Encoding: {'gzip' if compresses else 'identity'}\r\n"
    return parts.path, headers
