"""Opens connections to one server: names, addresses, proxies and TLS."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, cast
from urllib.parse import urlsplit

import msgspec
from aiohappyeyeballs import start_connection

from haulout.kube.allowed_addresses import RECEIVE_BUFFER, Reach, check, socket_factory
from haulout.kube.auth import basic
from haulout.kube.endpoint import SOCKS, Basic
from haulout.kube.errors import ConfigInvalid
from haulout.kube.http1.connection import Connection
from haulout.kube.http1.failures import CONNECT_SECONDS, NotConnected, WireError, cause

_PORTS = {"http": 80, "https": 443, "socks5": 1080, "socks5h": 1080}
# The addresses of a name are used for so many seconds, so that connections opened at once ask for them once.
_ADDRESSES_FOR = 30.0
# If an address does not answer for so long, the next one of the name is tried beside it (RFC 8305).
_NEXT_ADDRESS_AFTER = 0.25

Addresses = Sequence[tuple[Any, Any, int, str, tuple[Any, ...]]]


class Proxy(msgspec.Struct, frozen=True):
    """A proxy with its login. `url`: its scheme is http, https, socks5 or socks5h."""

    url: str
    login: Basic | None = None


class Connector:
    """What is known of a server to open connections to it.

    `tls`: the context for the server, and for a proxy that is reached over TLS. `server_name`: the name in the server's
    certificate, if it is not that of the address.
    `reach`: the rule for the addresses to connect to. With a proxy, it applies to the proxy's address.
    `ahead`: how much of an answer is received before it is read.
    `is_foreign`: the server may be hostile, so receive buffers are small: the event loop decrypts everything in a buffer
    at once, and for the usual 256 KiB that takes 20 ms if a server sends many small records.
    """

    def __init__(
        self,
        server: str,
        *,
        tls: ssl.SSLContext | None = None,
        server_name: str = "",
        proxy: Proxy | None = None,
        reach: Reach | None = None,
        ahead: int = 2**16,
        is_foreign: bool = False,
    ) -> None:
        parts = urlsplit(server)
        self._host, self._port = parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 80)
        self._tls = tls if parts.scheme == "https" else None
        self._server_name = server_name or self._host
        self._proxy = proxy
        self._proxy_tls = tls
        self._reach = reach
        self._ahead = ahead
        self._is_foreign = is_foreign
        self._addresses: Addresses = ()
        self._addresses_until = 0.0
        if proxy is not None and _is_socks(proxy) and find_spec("python_socks") is None:
            raise ConfigInvalid("proxies of SOCKS need the extra `socks` (pip install 'haulout[socks]')")
        forwards = proxy is not None and self._tls is None and not _is_socks(proxy)
        # A proxy that forwards requests without TLS wants whole addresses, and its login in each request.
        self.target_prefix = f"{parts.scheme}://{parts.netloc}" if forwards else ""
        self.proxy_headers = _login(proxy) if forwards and proxy is not None else ()
        self._tunnels = proxy is not None and self._tls is not None and not _is_socks(proxy)

    async def open(self, within: float = CONNECT_SECONDS) -> Connection:
        """Return a new connection. Raises NotConnected, and UnicodeError for a host that cannot be a name."""
        try:
            async with asyncio.timeout(within):
                connection = await self._opened()
        except TimeoutError:
            raise NotConnected(f"no connection within {within:g} s") from None
        if self._is_foreign:
            limit = getattr(connection.transport, "set_read_buffer_limits", None)
            if limit is not None:
                limit(RECEIVE_BUFFER)
        return connection

    async def _opened(self) -> Connection:
        proxy = self._proxy
        if proxy is None:
            return await self._directly()
        if _is_socks(proxy):
            return await self._with_tls(await self._through_socks(proxy), self._tls, self._server_name)
        connection = await self._to_proxy(proxy)
        if not self._tunnels:
            return connection
        try:
            await self._tunnel(connection, proxy)
        except BaseException:
            connection.abort()
            raise
        return connection

    async def _directly(self) -> Connection:
        try:
            sock = await self._connected(self._host, self._port)
        except OSError as error:
            raise NotConnected(f"no connection: {cause(error)}") from error
        return await self._with_tls(sock, self._tls, self._server_name)

    async def _to_proxy(self, proxy: Proxy) -> Connection:
        parts = urlsplit(proxy.url)
        try:
            sock = await self._connected(parts.hostname or "", parts.port or _PORTS.get(parts.scheme, 80))
        except OSError as error:
            raise NotConnected(f"no connection to the proxy: {cause(error)}") from error
        tls = self._proxy_tls if parts.scheme == "https" else None
        return await self._with_tls(sock, tls, parts.hostname or "", to=" to the proxy")

    async def _tunnel(self, connection: Connection, proxy: Proxy) -> None:
        """Let the proxy open a tunnel to the server, and begin TLS in it."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        target = f"{host}:{self._port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}", *(f"{n}: {value}" for n, value in _login(proxy))]
        try:
            answer = await connection.ask("CONNECT", "".join(f"{line}\r\n" for line in (*lines, "")).encode())
        except WireError as error:
            raise NotConnected(f"no connection through the proxy: {error}") from None
        if answer.status != 200:
            raise NotConnected(f"the proxy answered with HTTP {answer.status}")
        assert self._tls is not None
        loop = asyncio.get_running_loop()
        try:
            secured = await loop.start_tls(
                connection.transport, connection, self._tls, server_hostname=self._server_name
            )
        except OSError as error:
            raise _no_tls(error) from error
        assert secured is not None
        connection.secured(secured)

    async def _with_tls(
        self, sock: socket.socket, tls: ssl.SSLContext | None, server_name: str, to: str = ""
    ) -> Connection:
        """Return a connection over a socket, which is closed if TLS fails."""
        loop = asyncio.get_running_loop()
        make: Callable[[], Connection] = lambda: Connection(self._ahead)  # noqa: E731
        try:
            _, connection = await loop.create_connection(
                make, sock=sock, ssl=tls, server_hostname=server_name if tls else None
            )
        except OSError as error:
            raise _no_tls(error, to) from error
        finally:
            _leave_to_transport(sock, loop)
        return connection

    async def _connected(self, host: str, port: int) -> socket.socket:
        """Return a socket that is connected to a host. Raises OSError."""
        factory = socket_factory(self._reach) if self._is_foreign or self._reach is not None else None
        found = await self._resolved(host, port)
        return await start_connection(found, happy_eyeballs_delay=_NEXT_ADDRESS_AFTER, socket_factory=factory)

    async def _resolved(self, host: str, port: int) -> Addresses:
        if (address := _address(host, port)) is not None:
            return address
        loop = asyncio.get_running_loop()
        if loop.time() >= self._addresses_until:
            # The answer is kept for the one host that this connector connects to.
            self._addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            self._addresses_until = loop.time() + _ADDRESSES_FOR
        return self._addresses

    async def _through_socks(self, proxy: Proxy) -> socket.socket:
        """Return a socket that a SOCKS proxy has connected to the server.

        The proxy resolves names, as in Go: a computer that needs a proxy may not be able to.
        """
        # Imported here because python_socks is an optional extra. The constructor has checked that it is installed.
        from python_socks import ProxyError, ProxyType
        from python_socks.async_.asyncio import Proxy as Socks

        parts, login = urlsplit(proxy.url), proxy.login
        port = parts.port or _PORTS[parts.scheme]
        user, password = (login.username, login.password.text) if login else (None, None)
        try:
            address = await self._proxy_address(parts.hostname or "", port)
            socks = Socks(ProxyType.SOCKS5, address, port, user, password, rdns=True)
            return await socks.connect(self._host, self._port, timeout=CONNECT_SECONDS)
        except ProxyError as error:
            raise NotConnected(f"no connection to the proxy: it refused: {error}") from error
        except TimeoutError:
            raise
        except OSError as error:
            raise NotConnected(f"no connection to the proxy: {cause(error)}") from error

    async def _proxy_address(self, host: str, port: int) -> str:
        """Return the proxy's address after checking that it is allowed.

        An address and not the name is returned, because the name could resolve to another address the next time.
        """
        if self._reach is None:
            return host
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        address = str(found[0][4][0])
        check(self._reach, address)
        return address


def _leave_to_transport(sock: socket.socket, loop: asyncio.AbstractEventLoop) -> None:
    """Let the transport alone close the socket that it was made of, whether it was made or not.

    A transport of uvloop closes the descriptor by itself. If the server resets the connection before uvloop has noted the
    socket object, that object does not hear of it, and would close the descriptor a second time when it is collected. By
    then the number may belong to another connection or file of the process. asyncio's transports close the object itself.
    """
    if isinstance(loop, asyncio.BaseEventLoop):
        return
    sock.detach()


def _is_socks(proxy: Proxy) -> bool:
    return urlsplit(proxy.url).scheme in SOCKS


def _login(proxy: Proxy) -> tuple[tuple[str, str], ...]:
    return (("Proxy-Authorization", basic(proxy.login, "the proxy")[1]),) if proxy.login else ()


def _no_tls(error: OSError, to: str = "") -> NotConnected:
    if isinstance(error, ssl.SSLCertVerificationError):
        return NotConnected(f"the server's certificate is not trusted: {cause(error)}")
    return NotConnected(f"no connection{to}: {cause(error)}")


def _address(host: str, port: int) -> Addresses | None:
    """Return the address that a host is, without a request to a resolver; None for a name.

    Resolvers also understand other spellings of addresses; for these, they are asked.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    if "%" in host:
        return None
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    where: tuple[Any, ...] = (host, port) if address.version == 4 else (host, port, 0, 0)
    return cast("Addresses", [(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", where)])
