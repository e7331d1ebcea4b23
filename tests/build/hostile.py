"""Hostile servers on loopback: what they send to a client that has asked them something, over TCP or TLS."""

from __future__ import annotations

import asyncio
import gzip
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta

import msgspec
import trustme

from tests.build.server import server_context

# Seconds between two bytes of a server that sends slowly. It never lets a time limit for a single read pass.
DRIP = 0.02
OK = b"HTTP/1.1 200 OK\r\n"
_LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")


class Call:
    """One connection to a hostile server. `request`: what the client has sent. `sent`: how many bytes it was sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.request = b""
        self.sent = 0

    async def read_request(self) -> None:
        """Read a request with its body."""
        self.request = await self._reader.readuntil(b"\r\n\r\n")
        if length := _LENGTH.search(self.request):
            self.request += await self._reader.readexactly(int(length[1]))

    async def read_line(self) -> bytes:
        self.request = await self._reader.readuntil(b"\n")
        return self.request

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        self.sent += len(data)

    async def encrypt(self, context: ssl.SSLContext) -> None:
        await self._writer.start_tls(context)

    async def wait(self) -> None:
        """Wait until the client closes the connection."""
        while await self._reader.read(2**16):
            pass


Attack = Callable[[Call], Awaitable[None]]


class Peer:
    """A running hostile server. `calls`: the connections to it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.calls: list[Call] = []

    @property
    def sent(self) -> int:
        return sum(call.sent for call in self.calls)


@asynccontextmanager
async def serving(attack: Attack, tls: ssl.SSLContext | None = None) -> AsyncIterator[Peer]:
    """Run a server that does the same to every client. Yield it."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        call = Call(reader, writer)
        peer.calls.append(call)
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError):
            await attack(call)
        writer.transport.abort()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    peer = Peer(server.sockets[0].getsockname()[1])
    try:
        yield peer
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


def answering(*pieces: bytes, repeat: bytes = b"", every: float | None = None, hangs_up: bool = False) -> Attack:
    """Return an attack that answers a request with pieces, and then with the same bytes for ever."""

    async def attack(call: Call) -> None:
        await call.read_request()
        await _send(call, *pieces, repeat=repeat, every=every, hangs_up=hangs_up)

    return attack


def greeting(*pieces: bytes, repeat: bytes = b"", every: float | None = None, hangs_up: bool = False) -> Attack:
    """Return an attack that sends before the client does."""

    async def attack(call: Call) -> None:
        await _send(call, *pieces, repeat=repeat, every=every, hangs_up=hangs_up)

    return attack


async def _send(call: Call, *pieces: bytes, repeat: bytes, every: float | None, hangs_up: bool) -> None:
    for piece in pieces:
        await call.send(piece)
    while repeat:
        await call.send(repeat)
        await asyncio.sleep(every or 0)
    if not hangs_up:
        await call.wait()


def body(content: bytes, head: bytes = OK, *headers: str) -> bytes:
    """Return a whole answer. It has the token of Keystone, so that the client of OpenStack reads on."""
    fields = (f"Content-Length: {len(content)}", "X-Subject-Token: tok-1", *headers)
    return head + "".join(f"{field}\r\n" for field in fields).encode() + b"\r\n" + content


def json_of(value: bytes) -> bytes:
    """Return JSON in which every field that a client reads has this value."""
    return (
        b'{"status":"success","data":{"resultType":"vector","result":%b},"token":{"catalog":%b},"servers":%b,'
        b'"spec":{"nodePools":%b},"ok":true,"ts":%b,"result":%b,"message":%b,"statusURL":%b}'
    ) % ((value,) * 8)


async def echo(call: Call) -> None:
    """Quote the whole request in every text that clients repeat."""
    await call.read_request()
    text = msgspec.json.encode(call.request.decode(errors="replace"))
    fields = b'"error":%b,"errorType":%b,"message":%b' % (text, text, text)
    await call.send(body(b'{"status":"error","ok":false,"result":"failure",%b}' % fields))
    await call.wait()


def echo_in_head(before: bytes, after: bytes) -> Attack:
    """Return an attack that quotes the credentials of the request in the head of the answer."""

    async def attack(call: Call) -> None:
        await call.read_request()
        lines = [line for line in call.request.split(b"\r\n") if re.match(rb"(?i)(authorization|x-auth)", line)]
        quoted = (lines or [call.request.splitlines()[-1]])[0]
        await call.send(before + quoted + after)
        await call.wait()

    return attack


def redirect(status: int, to: str) -> Attack:
    return answering(body(b"", f"HTTP/1.1 {status} Moved\r\nLocation: {to}\r\n".encode()))


# What a server may do after a request. All of it has to end in an error of the client.
NEVER_ENDING: dict[str, Attack] = {
    "silence": answering(),
    "headers byte by byte": answering(OK + b"X: ", repeat=b"x", every=DRIP),
    "body byte by byte": answering(OK + b"\r\n", repeat=b" ", every=DRIP),
    "chunks byte by byte": answering(OK + b"Transfer-Encoding: chunked\r\n\r\n", repeat=b"1\r\n \r\n", every=DRIP),
    "interim answers for ever": answering(repeat=b"HTTP/1.1 100 Continue\r\n\r\n" * 100),
    "a chunk's extension for ever": answering(OK + b"Transfer-Encoding: chunked\r\n\r\n1;", repeat=b"x" * 2**16),
    "many answers at once": answering(repeat=b"HTTP/1.1 204 No Content\r\n\r\n" * 1000),
    "a length that does not come": answering(
        body(b"", b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n")[:-2] + b"\r\n{"
    ),
}
FLOODS: dict[str, Attack] = {
    "a body for ever": answering(OK + b"\r\n", repeat=b" " * 2**16),
    "chunks for ever": answering(OK + b"Transfer-Encoding: chunked\r\n\r\n", repeat=b"1\r\n \r\n" * 2**12),
    "a length of an exabyte": answering(OK + b"Content-Length: 1000000000000000000\r\n\r\n", repeat=b" " * 2**16),
    "headers for ever": answering(OK, repeat=b"X-Y: z\r\n" * 2**12),
    "a header line for ever": answering(OK + b"X: ", repeat=b"x" * 2**16),
    "a status line for ever": answering(b"HTTP/1.1 200 ", repeat=b"x" * 2**16),
}
_BOMB = gzip.compress(b" " * 2**26)
BROKEN: dict[str, Attack] = {
    "a hang-up": answering(hangs_up=True),
    "a hang-up in the headers": answering(OK + b"X-", hangs_up=True),
    "a hang-up in the body": answering(OK + b"Content-Length: 100\r\n\r\n{", hangs_up=True),
    "a hang-up in a chunk": answering(OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\n{", hangs_up=True),
    "a gzip bomb": answering(body(_BOMB, OK, "Content-Encoding: gzip")),
    "deflate that is none": answering(body(b"\xff" * 100, OK, "Content-Encoding: deflate")),
    "two lengths": answering(OK + b"Content-Length: 2\r\nContent-Length: 200\r\n\r\n{}"),
    "a length below zero": answering(OK + b"Content-Length: -1\r\n\r\n{}"),
    "a chunk's length that is none": answering(OK + b"Transfer-Encoding: chunked\r\n\r\nxyz\r\n{}"),
    "thousands of headers": answering(body(b"{}", OK + b"X-Y: z\r\n" * 5000)),
    "a long header line": answering(body(b"{}", OK + b"X: " + b"y" * 2**17 + b"\r\n")),
    "bytes that are no HTTP": answering(b"\x00\xff" * 5000),
    "SMTP": answering(b"220 mail.example.com ESMTP\r\n"),
    "TLS": answering(b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + b"\x00" * 100),
    "a page": answering(body(b"<html>sorry</html>", OK, "Content-Type: text/html")),
    "an image": answering(body(b"\x89PNG\r\n\x1a\n", OK, "Content-Type: image/png")),
    "no body": answering(body(b"")),
    "an error": answering(body(b"{}", b"HTTP/1.1 500 Internal Server Error\r\n")),
    "a status that is none": answering(body(b"{}", b"HTTP/1.1 999 \xff\r\n")),
    "another protocol": answering(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"),
    "JSON that is too deep": answering(body(json_of(b"[" * 50_000 + b"]" * 50_000))),
    "JSON objects that are too deep": answering(body(json_of(b'{"value":' * 20_000))),
    "JSON with too many values": answering(body(json_of(b"[" + b"{}," * 40_000 + b"{}]"))),
    "no UTF-8": answering(body(json_of(b'"\xff\xfe"'))),
    "half a surrogate": answering(body(json_of(b'"\\ud800"'))),
    "a credential as the reason": echo_in_head(b"HTTP/1.1 401 ", b"\r\nContent-Length: 0\r\n\r\n"),
    "a credential as a status": echo_in_head(b"HTTP/1.1 ", b" OK\r\n\r\n"),
    "a credential as a header's name": echo_in_head(OK, b"\x01: x\r\n\r\n"),
    "a credential as the answer": echo_in_head(b"", b"\r\n\r\n"),
    "the request in every text": echo,
}
# Rows whose numbers cannot be read.
NUMBERS: dict[str, Attack] = {
    "a number with too great an exponent": answering(
        body(json_of(b'[{"value":[1e9000000,"1e9000000"],"size":1e9000000}]'))
    ),
    "a number with too many digits": answering(
        body(json_of(b'[{"value":[%b,"x"],"size":%b}]' % (b"9" * 5000, b"9" * 5000)))
    ),
    "a great number": answering(body(json_of(b'[{"value":[%b,"x"],"size":%b}]' % (b"9" * 400, b"9" * 400)))),
    "NaN": answering(body(json_of(b'[{"value":[NaN,"x"],"size":NaN}]'))),
    "Infinity": answering(body(json_of(b'[{"value":[-Infinity,"x"],"size":Infinity}]'))),
}


def certificates(authority: trustme.CA) -> dict[str, ssl.SSLContext]:
    """Return server contexts with certificates that no client may accept."""
    now = datetime.now(UTC)
    past, future = now - timedelta(days=2), now + timedelta(days=2)
    found = {
        "self-signed": server_context(trustme.CA()),
        "for another host": server_context(authority, "other.example"),
        "expired": ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
        "not valid yet": ssl.create_default_context(ssl.Purpose.CLIENT_AUTH),
    }
    before = past - timedelta(days=2)
    authority.issue_cert("127.0.0.1", not_before=before, not_after=past).configure_cert(found["expired"])
    authority.issue_cert("127.0.0.1", not_before=future, not_after=future + timedelta(days=2)).configure_cert(
        found["not valid yet"]
    )
    return found


# What a server may do instead of a TLS handshake.
HANDSHAKES: dict[str, Attack] = {
    "plain HTTP": greeting(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    "a silent handshake": greeting(),
    "a handshake byte by byte": greeting(b"\x16\x03\x03\x40\x00\x02", repeat=b"\x00", every=DRIP),
    "a hang-up in the handshake": greeting(b"\x16\x03\x03\x40\x00\x02", hangs_up=True),
}
