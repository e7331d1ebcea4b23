"""Limits the connections of one server: their number, their rate, and which one is closed to make room.

See decision 0026.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Never, Protocol, cast

import msgspec

log = logging.getLogger("haulout.serve")

BACKLOG = 128
# A caller that sends or reads slowly but steadily keeps its place for this many times the grace.
GRACES = 5
# Without a free file descriptor every accept fails at once. Trying again without a pause would keep the loop busy.
ACCEPT_AGAIN_AFTER = 0.2


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits that all callers of one server share. Times are in seconds."""

    connections: int = 64
    # While all places are taken, a caller without progress keeps its place for this long. If it were shorter, many
    # honest callers at once would push each other out.
    grace_for: float = 1.0
    # The time for the headers of a request, from its first byte. On a new connection it includes the TLS handshake.
    headers_within: float = 10.0
    # The time for an answer that is sent in pieces.
    answer_within: float = 30.0
    # Longer than the 90 s that Go clients keep an idle connection. If the server closed it first, a review that is
    # being sent at that moment would be lost, since clients do not repeat a POST.
    idle_for: float = 120.0
    # A TLS handshake blocks the loop for one to two milliseconds, a request for about half of one.
    connections_per_second: float = 200.0
    handshakes_per_second: float = 60.0
    requests_per_second: float = 400.0

    def allowed_for(self, phase: Phase) -> float | None:
        """Return how long a phase may last; None: for any time, because the caller waits for us."""
        match phase:
            case Phase.HEADERS:
                return self.headers_within
            case Phase.ANSWER:
                return self.answer_within
            case Phase.IDLE:
                return self.idle_for
            case Phase.REQUEST | Phase.STREAM:
                return None


class Pace:
    """A rate limit. Calls pass at an even rate, after a first burst of the calls of `burst_for` seconds."""

    def __init__(self, per_second: float, *, burst_for: float = 0.1) -> None:
        self._interval = 1.0 / per_second
        self._burst_for = burst_for
        self._next_at = 0.0

    async def turn(self) -> None:
        """Wait until it is the caller's turn, in the order of calls."""
        now = asyncio.get_running_loop().time()
        turn_at = max(self._next_at, now - self._burst_for)
        self._next_at = turn_at + self._interval
        if turn_at > now:
            await asyncio.sleep(turn_at - now)


class Phase(Enum):
    """The phase of a connection.

    It sends headers, waits for our answer, reads a long answer, reads an answer without an end, or is idle.
    """

    HEADERS = "headers"
    REQUEST = "request"
    ANSWER = "answer"
    STREAM = "stream"
    IDLE = "idle"


class Arriving(Protocol):
    """The body of a request."""

    def is_eof(self) -> bool:
        """Whether all of it has arrived."""
        ...


class Received(Protocol):
    """A request, of one of our servers or of aiohttp."""

    @property
    def content(self) -> Arriving: ...


class Connection(asyncio.Protocol):
    """One connection. It is a protocol around the one that speaks HTTP, which has no limits of time.

    `peer`: the address of the caller. `since`: when its phase began. `progress_at`: when the caller last made progress
    in this phase. `on_overdue` is called when a phase has lasted longer than `limits` allow.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        peer: str,
        limits: Limits,
        on_change: Callable[[], None],
        on_overdue: Callable[[Connection], None],
    ) -> None:
        self.peer = peer
        self.ended = asyncio.Event()
        self._inner = inner
        self.limits = limits
        self._on_change = on_change
        self._on_overdue = on_overdue
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._begin(Phase.HEADERS)

    def enter(self, phase: Phase, request: Received | None = None) -> None:
        self._begin(phase, request)
        self._on_change()

    def _begin(self, phase: Phase, request: Received | None = None) -> None:
        loop = asyncio.get_running_loop()
        self.phase, self._request = phase, request
        self.since = self.progress_at = loop.time()
        self.forget_limit()
        allowed = self.limits.allowed_for(phase)
        if allowed is not None:
            self._timer = loop.call_at(self.since + allowed, self._on_overdue, self)

    def forget_limit(self) -> None:
        """Let the current phase last for any time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def waits_for_peer(self) -> bool:
        """Whether we wait for the caller, which has to send the rest of a request or to read. Only then it may be closed."""
        return self._request is None or not self._request.content.is_eof()

    @property
    def goes_at(self) -> float:
        """From when on the connection may be closed to make room for another caller."""
        return min(self.progress_at + self.limits.grace_for, self.since + GRACES * self.limits.grace_for)

    def progressed(self) -> None:
        """Note that the caller has read a piece of its answer."""
        self.progress_at = asyncio.get_running_loop().time()

    def abort(self) -> None:
        """Close the connection at once. A graceful close would wait for a caller that does not read."""
        if self._transport is not None:
            self._transport.abort()
        self.ended.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.phase is Phase.IDLE:
            self.enter(Phase.HEADERS)
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._inner.connection_lost(exc)
        self.ended.set()


class Connections:
    """The connections of one server, which accepts them within `limits`.

    When all places are taken, one of the address with the most connections is closed: the one that has kept us waiting
    longest. A new caller waits while every place is taken by a request that we are answering, or by a caller that has
    just begun to send or to read.
    """

    def __init__(self, make: Callable[[], asyncio.Protocol], limits: Limits, tls: ssl.SSLContext | None = None) -> None:
        self._make = make
        self._limits = limits
        self._tls = tls
        self._open: dict[Connection, asyncio.Task[None]] = {}
        # Many TLS handshakes at once would block the event loop, so they are limited more than plain connections.
        handshakes = Pace(limits.handshakes_per_second, burst_for=0.05)
        self._pace = Pace(limits.connections_per_second) if tls is None else handshakes
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[Never]] = []

    def __len__(self) -> int:
        return len(self._open)

    def start(self, listeners: list[socket.socket]) -> None:
        self._tasks = [asyncio.create_task(self._accept(listener)) for listener in listeners]

    async def stop_accepting(self) -> None:
        await _cancelled(self._tasks)

    async def close(self) -> None:
        await _cancelled(list(self._open.values()))

    async def _accept(self, listener: socket.socket) -> Never:
        loop = asyncio.get_running_loop()
        while True:
            try:
                sock, address = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("connection not accepted", extra={"error": str(error)})
                await asyncio.sleep(ACCEPT_AGAIN_AFTER)
                continue
            try:
                await self._make_room()
                await self._pace.turn()
            except asyncio.CancelledError:
                sock.close()
                raise
            connection = Connection(self._make(), str(address[0]), self._limits, self._changed.set, self._end)
            task = self._open[connection] = asyncio.create_task(self._host(connection, sock))
            task.add_done_callback(lambda _, connection=connection: self._forget(connection))  # type: ignore[misc]

    async def _make_room(self) -> None:
        while len(self._open) >= self._limits.connections:
            self._changed.clear()
            crowd = Counter(connection.peer for connection in self._open)
            now, waiting = asyncio.get_running_loop().time(), [each for each in self._open if each.waits_for_peer]
            if late := [each for each in waiting if each.goes_at <= now]:
                # A stream is in use for as long as it lasts, so it goes only if every other connection is in use, too.
                self._end(min(late, key=lambda each: (each.phase is Phase.STREAM, -crowd[each.peer], each.since)))
            first_at = min((each.goes_at for each in waiting), default=None)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if late or first_at is None else max(first_at - now, 0.0) + 0.001):
                    await self._changed.wait()

    async def _host(self, connection: Connection, sock: socket.socket) -> None:
        """Serve a connection until it has ended. This task keeps its place taken all the time."""
        loop = asyncio.get_running_loop()
        within = self._limits.headers_within if self._tls else None
        try:
            await loop.connect_accepted_socket(lambda: connection, sock, ssl=self._tls, ssl_handshake_timeout=within)
            await connection.ended.wait()
        except (OSError, TimeoutError):
            # Scanners fail the handshake all day. A line for each would let them fill the log.
            sock.close()
        except asyncio.CancelledError:
            connection.abort()
            sock.close()
            raise

    def _end(self, connection: Connection) -> None:
        """End a connection by cancelling its task, because a connection in its handshake has no transport to abort."""
        self._open[connection].cancel()

    def _forget(self, connection: Connection) -> None:
        connection.forget_limit()
        del self._open[connection]
        self._changed.set()


async def bind(host: str | None, port: int) -> list[socket.socket]:
    """Return a listening socket for each address of the host; without a host, for all interfaces. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listeners: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            with contextlib.suppress(_NotHere):
                listeners.append(_listener(family, kind, protocol, address))
    except OSError:
        for listener in listeners:
            listener.close()
        raise
    if not listeners:
        raise OSError(errno.EADDRNOTAVAIL, "no such address on this computer")
    return listeners


class _NotHere(Exception):
    """Raised when the computer lacks this family of addresses, such as IPv6."""


def _listener(
    family: socket.AddressFamily, kind: socket.SocketKind, protocol: int, address: tuple[object, ...]
) -> socket.socket:
    try:
        listener = socket.socket(family, kind, protocol)
    except OSError:
        raise _NotHere from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
        listener.setblocking(False)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRNOTAVAIL and family == socket.AF_INET6:
            raise _NotHere from None
        raise
    return listener


async def _cancelled(tasks: list[asyncio.Task[Never]] | list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
