"""Connections through proxies. aiohttp itself supports HTTP proxies; SOCKS5 is added here (decision 0071)."""

from __future__ import annotations

import asyncio
import functools
import re
import socket
from collections.abc import Awaitable, Callable
from importlib.util import find_spec
from typing import Any, cast

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
# The end of one answer's head and the beginning of the next answer. No JSON contains it.
_NEXT_ANSWER = re.compile(rb"\n\r?\nHTTP/1\.")
# More answers than any server sends at once.
MOST_ANSWERS = 16


class Steps(msgspec.Struct, frozen=True):
    """The functions to call before a connection is opened, and once it is open. Either may raise to prevent its use."""

    before: Callable[[], Awaitable[None]]
    after: Callable[[], None]


def through(
    proxy: URL | None, reach: Reach | None = None, steps: Steps | None = None, **settings: Any
) -> dict[str, Any]:
    """Return the arguments of an aiohttp session that goes through the proxy, if there is one.

    `reach`: the rule for the addresses to connect to. With a proxy, it applies to the proxy's address.
    `settings`: the arguments of the session's connector.
    """
    if proxy is not None and proxy.scheme in SOCKS:
        return {"connector": SocksConnector(proxy, reach, steps, **settings)}
    if reach is not None:
        settings["socket_factory"] = socket_factory(reach)
    return {"connector": Connector(steps, is_foreign=reach is not None, **settings), "proxy": proxy}


class Receiver(ResponseHandler):
    """aiohttp's side of a connection to a foreign server, which ends if that sends many answers at once.

    aiohttp parses all that have arrived in one go, each for 30 us. A full buffer of interim answers (HTTP 100 to 199), or
    of empty ones, blocks the event loop for 80 ms.
    """

    def data_received(self, data: bytes) -> None:
        if len(_NEXT_ANSWER.findall(data)) > MOST_ANSWERS and self.transport is not None:
            self.transport.abort()
            return
        super().data_received(data)


class Connector(aiohttp.TCPConnector):
    """An aiohttp connector that calls functions of ours before and after it opens a connection.

    `is_foreign`: the server may be hostile.
    """

    def __init__(self, steps: Steps | None = None, *, is_foreign: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self._steps = steps
        if is_foreign:
            # There is no public way to choose the class.
            self._factory = functools.partial(cast("type[ResponseHandler]", Receiver), loop=self._loop)

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
    """An aiohttp connector that connects to an API server through a SOCKS proxy.

    The proxy resolves names, as in Go: a computer that needs a proxy may not be able to.

    TLS over the proxied socket is left to aiohttp. The library aiohttp-socks would ignore `tls-server-name`.
    """

    def __init__(self, proxy: URL, reach: Reach | None, steps: Steps | None, **settings: Any) -> None:
        if find_spec("python_socks") is None:
            raise ConfigInvalid("proxies of SOCKS need the extra `socks` (pip install 'haulout[socks]')")
        super().__init__(steps, is_foreign=reach is not None, resolver=_Unresolved(), **settings)
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
        # Imported here because python_socks is an optional extra. The constructor has checked that it is installed.
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
        """Return the proxy's address after checking that it is allowed.

        An address and not the name is returned, because the name could resolve to another address the next time.
        """
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
