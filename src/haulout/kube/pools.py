"""Pools of connections to one API server, one for each TLS identity."""

from __future__ import annotations

import ssl
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from haulout import __version__
from haulout.base.clock import Clock
from haulout.kube.auth import pem_reader
from haulout.kube.bounds import Bounds
from haulout.kube.endpoint import Endpoint, is_loopback
from haulout.kube.errors import ConfigInvalid
from haulout.kube.failures import failure
from haulout.kube.proxies import Steps, through
from haulout.kube.tls import CertPair, client_context

USER_AGENT = f"haulout/{__version__}"

# Shorter than the minute after which many load balancers drop idle connections.
_KEEPALIVE_SECONDS = 50.0

Identity = tuple[bytes | None, CertPair | None]


class Pool:
    """The connections of one TLS identity, and how many requests and streams use them."""

    def __init__(self, identity: Identity, session: aiohttp.ClientSession) -> None:
        self.identity = identity
        self.session = session
        self.users = 0


class Pools:
    """The connection pools of one endpoint.

    A new CA or client certificate makes a new pool. An old pool is closed when its last request has ended.

    `steps`: the functions that are called before and after a connection is opened.
    `tls`: the context of an endpoint whose certificates never change.
    """

    def __init__(
        self, endpoint: Endpoint, clock: Clock, bounds: Bounds, steps: Steps, tls: ssl.SSLContext | None = None
    ) -> None:
        self._endpoint = endpoint
        self._bounds = bounds
        self._steps = steps
        self._tls = tls
        self._ca = pem_reader(endpoint.ca, clock, endpoint.name) if endpoint.ca is not None else None
        self._proxy = _proxy(endpoint)
        self._pools: set[Pool] = set()
        self._current: Pool | None = None
        # The last CA and certificate that could not be used. They are not tried again until they change.
        self._unusable: Identity | None = None

    def take(self, certificate: CertPair | None) -> Pool:
        """Return the pool for a new request, and count the request as a user. The caller has to call `give_back`."""
        pool = self._pool((self._ca() if self._ca else None, certificate))
        pool.users += 1
        return pool

    async def give_back(self, pool: Pool) -> None:
        """Count one user of a pool less. Close the pools without users, except the one for new requests."""
        pool.users -= 1
        if len(self._pools) > 1:
            for old in [each for each in self._pools if each is not self._current and not each.users]:
                self._pools.discard(old)
                await old.session.close()

    async def close(self) -> None:
        for pool in tuple(self._pools):
            await pool.session.close()

    def _pool(self, identity: Identity) -> Pool:
        if self._current is not None and identity in (self._current.identity, self._unusable):
            return self._current
        try:
            session = self._session(*identity)
        except ConfigInvalid:
            # Certificate and key are replaced one after the other, and do not match in between. The old pool works on.
            if self._current is None:
                raise
            self._unusable = identity
            return self._current
        self._current = Pool(identity, session)
        self._pools.add(self._current)
        return self._current

    def _session(self, ca: bytes | None, pair: CertPair | None) -> aiohttp.ClientSession:
        endpoint = self._endpoint
        compress = (
            self._bounds.compressed and endpoint.compress and not is_loopback(urlsplit(endpoint.server).hostname or "")
        )
        # Reading the certificates that the computer trusts takes tens of milliseconds, so it is not done without TLS.
        tls = endpoint.server.startswith("https:") or endpoint.proxy_url.startswith("https:")
        context: ssl.SSLContext | bool = True
        if tls:
            context = self._tls or client_context(ca=ca, insecure=endpoint.insecure, pair=pair, where=endpoint.name)
        # The proxy of our own environment decides itself which addresses may be reached.
        reach = None if endpoint.proxy_url and endpoint.proxy_is_ours else endpoint.reach
        return aiohttp.ClientSession(
            # No limit on connections: each watched kind needs one for its watch, and the writer limits its requests
            # itself. A limit would only make watches and writes wait for each other.
            **through(
                self._proxy,
                reach,
                self._steps,
                ssl=context,
                limit=0,
                keepalive_timeout=_KEEPALIVE_SECONDS,
                ttl_dns_cache=30,
            ),
            headers={"User-Agent": USER_AGENT, "Accept-Encoding": "gzip" if compress else "identity"},
            cookie_jar=aiohttp.DummyCookieJar(),
            # If more than this is unread, aiohttp stops reading from the socket until the reader has caught up.
            read_bufsize=self._bounds.ahead,
            auto_decompress=self._bounds.compressed,
            middlewares=(_never_twice,),
        )


async def _never_twice(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Send a request, and keep aiohttp from sending a write again when its connection breaks.

    A PUT or DELETE that took effect would be answered with 409 or 404 the second time.
    """
    try:
        return await handler(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method in {"GET", "HEAD"}:
            raise
        raise failure(f"{request.method} {request.url.with_query(None)}", error) from error


def _proxy(endpoint: Endpoint) -> URL | None:
    if not endpoint.proxy_url:
        return None
    url, login = URL(endpoint.proxy_url), endpoint.proxy_login
    return url.with_user(login.username).with_password(login.password.text) if login else url
