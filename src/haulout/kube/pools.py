"""Pools of connections to one API server, one for each TLS identity."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from ssl import SSLContext
from urllib.parse import urlsplit

from haulout.base.clock import Clock
from haulout.kube.auth import pem_reader
from haulout.kube.bounds import Bounds
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ConfigInvalid
from haulout.kube.http1.connection import Connection
from haulout.kube.http1.connector import Connector, Proxy
from haulout.kube.http1.failures import CONNECT_SECONDS
from haulout.kube.tls import CertPair, client_context

# Shorter than the minute after which many load balancers drop idle connections.
KEPT_FOR = 50.0
# So many connections for requests are opened at a time; meanwhile other requests wait for one that becomes free. A
# handshake costs as much as several requests, so a burst of writes should not open one for each of them.
OPENED_AT_ONCE = 2

Identity = tuple[bytes | None, CertPair | None]


class Pool:
    """The connections of one TLS identity, and how many requests and streams use them.

    `before`: called before a connection is opened. It may raise to prevent that.
    """

    def __init__(self, identity: Identity, connector: Connector, before: Callable[[], Awaitable[None]]) -> None:
        self.identity = identity
        self.connector = connector
        self.users = 0
        self._before = before
        # The connection that was used last is at the end, and is used first.
        self._idle: list[Connection] = []
        self._open: set[Connection] = set()
        self._opening = 0
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    async def connection(self, *, fresh: bool = False, within: float = CONNECT_SECONDS) -> Connection:
        """Return a connection for one request. The caller has to call `free`. Raises NotConnected and UnicodeError.

        `fresh`: a connection that carried no request before, at once. A stream keeps its connection, so that waiting for one would be in vain.
        """
        if fresh:
            return await self._opened(within)
        while True:
            if (found := self._take_idle()) is not None:
                return found
            if self._opening < OPENED_AT_ONCE:
                return await self._opened_in_turn(within)
            if (found := await self._next()) is not None:
                self._idle.append(found)

    def free(self, connection: Connection) -> None:
        """Take back a connection. It is kept for further requests if its answer was read to the end."""
        if not connection.can_be_used_again:
            self._open.discard(connection)
            connection.close()
            self._offer(None)
            return
        if self._offer(connection):
            return
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._timer is None:
            self._timer = loop.call_later(KEPT_FOR, self._close_idle)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._open:
            connection.abort()
        self._open.clear()
        self._idle.clear()

    async def _opened_in_turn(self, within: float) -> Connection:
        self._opening += 1
        try:
            return await self._opened(within)
        finally:
            self._opening -= 1
            self._offer(None)

    async def _opened(self, within: float) -> Connection:
        await self._before()
        made = await self.connector.open(within)
        self._open.add(made)
        return made

    def _take_idle(self) -> Connection | None:
        while self._idle:
            found = self._idle.pop()
            if found.can_be_used_again:
                return found
            self._open.discard(found)
            found.close()
        return None

    async def _next(self) -> Connection | None:
        """Wait for a connection that becomes free; None when one may be opened instead."""
        future: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            # What has been offered at the very moment of the cancellation passes on.
            if future.done() and not future.cancelled():
                found = future.result()
                self._offer(None) if found is None else self.free(found)
            raise

    def _offer(self, connection: Connection | None) -> bool:
        """Give a connection to the request that has waited longest, or let it open one. Return whether any waits."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(connection)
                return True
        return False

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        kept_until = loop.time() - KEPT_FOR
        for old in [each for each in self._idle if each.idle_since <= kept_until or each.is_lost]:
            self._idle.remove(old)
            self._open.discard(old)
            old.close()
        if self._idle:
            self._timer = loop.call_at(self._idle[0].idle_since + KEPT_FOR, self._close_idle)


class Pools:
    """The connection pools of one endpoint.

    A new CA or client certificate makes a new pool. An old pool is closed when its last request has ended.

    `before`: called before a connection is opened. `tls`: the context of an endpoint whose certificates never change.
    `is_foreign`: the server may be hostile.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        clock: Clock,
        bounds: Bounds,
        before: Callable[[], Awaitable[None]],
        tls: SSLContext | None = None,
        *,
        is_foreign: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._bounds = bounds
        self._before = before
        self._tls = tls
        self._is_foreign = is_foreign
        self._ca = pem_reader(endpoint.ca, clock, endpoint.name) if endpoint.ca is not None else None
        self._pools: set[Pool] = set()
        self._current: Pool | None = None
        # The last CA and certificate that could not be used. They are not tried again until they change.
        self._unusable: Identity | None = None

    def take(self, certificate: CertPair | None) -> Pool:
        """Return the pool for a new request, and count the request as a user. The caller has to call `give_back`."""
        pool = self._pool((self._ca() if self._ca else None, certificate))
        pool.users += 1
        return pool

    def give_back(self, pool: Pool) -> None:
        """Count one user of a pool less. Close the pools without users, except the one for new requests."""
        pool.users -= 1
        if len(self._pools) > 1:
            for old in [each for each in self._pools if each is not self._current and not each.users]:
                self._pools.discard(old)
                old.close()

    async def close(self) -> None:
        for pool in self._pools:
            pool.close()
        # The event loop ends aborted connections in its next turn.
        await asyncio.sleep(0)

    def _pool(self, identity: Identity) -> Pool:
        if self._current is not None and identity in (self._current.identity, self._unusable):
            return self._current
        try:
            connector = self._connector(*identity)
        except ConfigInvalid:
            # Certificate and key are replaced one after the other, and do not match in between. The old pool works on.
            if self._current is None:
                raise
            self._unusable = identity
            return self._current
        self._current = Pool(identity, connector, self._before)
        self._pools.add(self._current)
        return self._current

    def _connector(self, ca: bytes | None, pair: CertPair | None) -> Connector:
        endpoint = self._endpoint
        # Reading the certificates that the computer trusts takes tens of milliseconds, so it is not done without TLS.
        tls = None
        if urlsplit(endpoint.server).scheme == "https" or endpoint.proxy_url.startswith("https:"):
            tls = self._tls or client_context(ca=ca, insecure=endpoint.insecure, pair=pair, where=endpoint.name)
        return Connector(
            endpoint.server,
            tls=tls,
            server_name=endpoint.tls_server_name,
            proxy=Proxy(endpoint.proxy_url, endpoint.proxy_login) if endpoint.proxy_url else None,
            # The proxy of our own environment decides itself which addresses may be reached.
            reach=None if endpoint.proxy_url and endpoint.proxy_is_ours else endpoint.reach,
            # If more than this is unread, nothing is read from the socket until the reader has caught up.
            ahead=self._bounds.ahead,
            is_foreign=self._is_foreign,
        )
