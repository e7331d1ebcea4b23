"""Connections through proxies: those of HTTP are aiohttp's business, SOCKS5 is not among them."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any

import aiohttp
import aiohttp.tracing
import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from haulout.kube.allowed_addresses import Reach, check, socket_factory
from haulout.kube.endpoint import SOCKS
from haulout.kube.errors import ConfigInvalid

_PORT = 1080


class Steps(msgspec.Struct, frozen=True):
    """The functions that are called before a connection is opened, and once it is open. Either may raise."""

    before: Callable[[], Awaitable[None]]
    after: Callable[[], None]


def through(
    proxy: URL | None, reach: Reach | None = None, steps: Steps | None = None, **settings: Any
) -> dict[str, Any]:
    """Return what a session needs to go through the proxy, if any; the settings are those of its connector.

    `reach`: the rule for the addresses that are connected to. Behind a proxy, that is the proxy's address.
    """
    if proxy is not None and proxy.scheme in SOCKS:
        return {"connector": SocksConnector(proxy, reach, steps, **settings)}
    if reach is not None:
        settings["socket_factory"] = socket_factory(reach)
    return {"connector": Connector(steps, **settings), "proxy": proxy}


class Connector(aiohttp.TCPConnector):
    """Opens connections, with a step of ours before and after each."""

    def __init__(self, steps: Steps | None, **settings: Any) -> None:
        super().__init__(**settings)
        self._steps = steps

    async def _create_connection(
        self, req: aiohttp.ClientRequest, traces: list[aiohttp.tracing.Trace], timeout: aiohttp.ClientTimeout
    ) -> ResponseHandler:
        if self._steps is None:
            return await super()._create_connection(req, traces, timeout)
        await self._steps.before()
        connection = await super()._create_connection(req, traces, timeout)
        try:
            self._steps.after()
        except BaseException:
            connection.close()
            raise
        return connection


class SocksConnector(Connector):
    """Connects to an API server through a SOCKS proxy.

    The proxy resolves names, as in Go: a computer that needs a proxy may not be able to.

    The connection behind the proxy is aiohttp's own: what aiohttp-socks makes of it forgets `tls-server-name`.
    """

    def __init__(self, proxy: URL, reach: Reach | None, steps: Steps | None, **settings: Any) -> None:
        if find_spec("python_socks") is None:
            raise ConfigInvalid("proxies of SOCKS need the extra `socks` (pip install 'haulout[socks]')")
        super().__init__(steps, resolver=_Unresolved(), **settings)
        self._proxy = proxy
        self._reach = reach

    async def _wrap_create_connection(
        self,
        *args: Any,
        addr_infos: list[aiohttp.AddrInfoType],
        req: aiohttp.ClientRequest,
        timeout: aiohttp.ClientTimeout,
        client_error: type[Exception] = aiohttp.ClientConnectorError,
        **kwargs: Any,
    ) -> tuple[asyncio.Transport, ResponseHandler]:
        host, port = addr_infos[0][4][:2]
        try:
            sock = await self._through(str(host), int(port), timeout.sock_connect)
        except TimeoutError:
            raise
        except OSError as error:
            raise aiohttp.ClientProxyConnectionError(req.connection_key, error) from error
        return await self._wrap_existing_connection(
            *args, req=req, timeout=timeout, client_error=client_error, sock=sock, **kwargs
        )

    async def _through(self, host: str, port: int, seconds: float | None) -> socket.socket:
        # The extra is installed, or this function would not be called.
        from python_socks import ProxyError, ProxyType
        from python_socks.async_.asyncio import Proxy

        url = self._proxy
        address = await self._address(url.host or "", url.port or _PORT)
        proxy = Proxy(ProxyType.SOCKS5, address, url.port or _PORT, url.user, url.password, rdns=True)
        try:
            return await proxy.connect(host, port, timeout=seconds)
        except ProxyError as error:
            raise OSError(0, f"it refused: {error}") from error

    async def _address(self, host: str, port: int) -> str:
        """Return an address that may be connected to, and not a name that may lead to another one the next time."""
        if self._reach is None:
            return host
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        address = str(found[0][4][0])
        check(self._reach, address)
        return address


class _Unresolved(AbstractResolver):
    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host=host, port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None:
        pass
