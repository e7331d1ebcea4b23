"""One request over a connection of its own."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import msgspec

from haulout.kube.http1.connection import HttpAnswer
from haulout.kube.http1.connector import Connector, Proxy


class Exchange(msgspec.Struct, frozen=True):
    """A request to any server."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@asynccontextmanager
async def exchange(asked: Exchange, *, tls: ssl.SSLContext, proxy: Proxy | None = None) -> AsyncIterator[HttpAnswer]:
    """Send a request, and yield the answer. Raises WireError and UnicodeError. The caller limits the time.

    Redirects are not followed, and compressed answers are not asked for.
    """
    parts = urlsplit(asked.url)
    server = f"{parts.scheme}://{parts.netloc}"
    connector = Connector(server, tls=tls, proxy=proxy)
    target = parts._replace(scheme="", netloc="").geturl() or "/"
    headers = (
        *(("Host", parts.netloc), ("Accept-Encoding", "identity"), ("Connection", "close")),
        *asked.headers,
        *connector.proxy_headers,
        *((("Content-Length", str(len(asked.body))),) if asked.body else ()),
    )
    lines = [
        f"{asked.method} {connector.target_prefix}{target} HTTP/1.1",
        *(f"{name}: {text}" for name, text in headers),
    ]
    if any("\r" in line or "\n" in line for line in lines):
        raise UnicodeError("a line of the request has a line break in it")
    connection = await connector.open()
    try:
        yield await connection.ask(asked.method, "\r\n".join([*lines, "", ""]).encode() + asked.body)
    finally:
        connection.close()
