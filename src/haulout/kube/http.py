"""The transport over HTTP: requests with deadlines, answers within bounds."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from urllib.parse import urlsplit

import aiohttp
import msgspec

from haulout.base.clock import Clock
from haulout.kube.allowed_addresses import RECEIVE_BUFFER
from haulout.kube.auth import AuthProof
from haulout.kube.bounds import HOME, Bounds, Text
from haulout.kube.deadline import Deadline
from haulout.kube.endpoint import Endpoint
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
from haulout.kube.failures import BROKEN, CONNECT_SECONDS, failure
from haulout.kube.handshakes import MOST, REFUSED_FOR, metered_client
from haulout.kube.lines import Lines
from haulout.kube.login import Login
from haulout.kube.pools import Pool, Pools
from haulout.kube.proxies import Steps
from haulout.kube.transport import JSON, Reply
from haulout.kube.turns import MOST_SAVED, PER_RECORD, Allowance, Shared

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


# The request for which the running task opens a connection. aiohttp's traces could carry it, too. But a session with
# traces makes a dozen objects for each request, which is a quarter of the cost of a request.
_SENDING: ContextVar[_Call] = ContextVar("sending")


def _bound(silence: float | None) -> aiohttp.ClientTimeout:
    """Return aiohttp's timeouts for connecting and for silence. `Deadline` limits the time of a whole request."""
    return aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence)


_UNBOUND = _bound(None)


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
        steps = Steps(self._before_connecting, self._after_connecting)
        self._pools = Pools(endpoint, clock, bounds, steps, tls)
        self._open: set[aiohttp.ClientResponse] = set()
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
                    return Reply(answer.response.status, await self._body(call, answer.response, whole, keep))
                except BROKEN as error:
                    raise failure(self._act(call), error) from error
                finally:
                    await self._end(answer)
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
            yield Lines(self._act(call), answer.response, self._bounds, keep, self._reading, self._receiving)
        finally:
            await self._end(answer)

    async def close(self) -> None:
        self._closed = True
        await self._login.close()
        # If only the session were closed, the readers of its responses would never stop waiting.
        for response in tuple(self._open):
            response.close()
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
        if answer.response.status == 401 and self._login.forget(proof):
            await self._end(answer)
            answer = await self._send(call, await self._login.proof())
        try:
            if not 200 <= answer.response.status < 300:
                raise await self._refusal(call, answer.response)
            self._check_encoding(call, answer.response)
        except BaseException:
            await self._end(answer)
            raise
        return answer

    async def _send(self, call: _Call, proof: AuthProof) -> _Answer:
        if self._closed:
            raise ConnectionFailed(f"{self._endpoint.name}: the transport is closed")
        pool = self._pools.take(proof.certificate)
        sending = _SENDING.set(call)
        try:
            self._check_time(call)
            response = await pool.session.request(
                call.method,
                f"{self._endpoint.server}{call.path}",
                params=call.query,
                data=call.body,
                headers=(*call.headers, *proof.headers),
                server_hostname=self._endpoint.tls_server_name or None,
                # Following a redirect would send the token to the server that the redirect names.
                allow_redirects=False,
                timeout=_UNBOUND if call.silence is None else _bound(call.silence),
            )
        except BaseException as error:
            await self._pools.give_back(pool)
            # UnicodeError: the host's name cannot be encoded for DNS.
            if isinstance(error, (aiohttp.ClientError, UnicodeError)):
                self._answered(self._host, call.method, NO_ANSWER)
                raise failure(self._act(call), error) from error
            if isinstance(error, asyncio.CancelledError):
                self._answered(self._host, call.method, NO_ANSWER)
            raise
        finally:
            _SENDING.reset(sending)
        self._answered(self._host, call.method, str(response.status))
        self._open.add(response)
        self._limit_received(response)
        return _Answer(pool, response)

    def _limit_received(self, response: aiohttp.ClientResponse) -> None:
        """Limit the receive buffer of a connection to another cluster.

        The event loop decrypts everything in the buffer at once. For the usual 256 KiB that takes 20 ms if a server
        sends many small records.
        """
        transport = response.connection.transport if response.connection is not None else None
        limit = getattr(transport, "set_read_buffer_limits", None)
        if self._shared is not None and limit is not None:
            limit(RECEIVE_BUFFER)

    async def _end(self, answer: _Answer) -> None:
        self._open.discard(answer.response)
        # A connection whose answer was read to its end is used again, any other is closed.
        answer.response.release()
        await self._pools.give_back(answer.pool)

    async def _before_connecting(self) -> None:
        """Wait for a turn to connect. Raises `ConnectionFailed` for a while after a handshake that took too long."""
        if self._clock.monotonic() < self._costly_until:
            raise ConnectionFailed(f"{self._endpoint.name}: the server's certificates take too long to verify")
        # A cluster with an open watch is connected already. Further connections are only for our own writes, which
        # should not wait.
        if self._shared is not None and not self._open:
            async with self._shared.connecting.turn():
                pass

    def _after_connecting(self) -> None:
        """Check the request's deadline again.

        If the computer was suspended while it connected, the request may be out of date by now.
        """
        self._check_time(_SENDING.get())

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

    def _check_encoding(self, call: _Call, response: aiohttp.ClientResponse) -> None:
        if not self._bounds.compressed and response.headers.get("Content-Encoding", "identity") != "identity":
            raise Compressed(f"{self._act(call)}: the answer is compressed, which was not asked for, and is not read")

    async def _refusal(self, call: _Call, response: aiohttp.ClientResponse) -> ApiError:
        if response.status < 400:
            message = f"{self._act(call)}: answered with HTTP {response.status}, a redirect, which is not followed"
            return error_from_status(Status(code=response.status, message=message))
        body = b""
        # If the body cannot be read, the status code says enough.
        with suppress(TooLarge, *BROKEN):
            body = await self._body(call, response, self._bounds.refusal, None)
        error = error_from_reply(response.status, body, response.headers.get("Retry-After"))
        return self._not_accepted(error) if isinstance(error, Unauthorized) else error

    async def _body(self, call: _Call, response: aiohttp.ClientResponse, whole: int, keep: Shape | None) -> bytes:
        text = Text(self._act(call), whole, self._bounds.most, keep, self._reading)
        await text.read(response.content, self._receiving)
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
    response: aiohttp.ClientResponse
