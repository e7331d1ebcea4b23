"""Servers of other clusters that make TLS expensive: by certificates, by small records, or without end."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
import uvloop
from aiohttp import web

from haulout.base.clock import SystemClock
from haulout.kube import handshakes, http
from haulout.kube.bounds import AWAY
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ConnectionFailed
from haulout.kube.handshakes import FEW_RECORDS, REFUSED_FOR, SMALLEST_RECORD
from haulout.kube.http import HttpTransport
from haulout.kube.tls import client_context
from haulout.kube.turns import Shared, Turns
from tests.build.clock import ManualClock
from tests.build.server import serve, server_context
from tests.build.virtual import virtual

BEGINNING = datetime(2026, 1, 1, tzinfo=UTC)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    return client_context(ca=authority.cert_pem.bytes(), insecure=False, pair=None, where="e")


async def answer(request: web.Request) -> web.Response:
    return web.Response(body=b"{}", headers={"Connection": "close"})


def application() -> web.Application:
    app = web.Application()
    app.router.add_get("/version", answer)
    return app


async def test_ordinary_handshake_is_let_pass() -> None:
    authority = trustme.CA()
    async with serve(application(), server_context(authority)) as url:
        endpoint = Endpoint(name="e", server=url)
        way = HttpTransport(endpoint, ManualClock(BEGINNING), bounds=AWAY, tls=trusting(authority), shared=Shared())
        assert (await way.request("GET", "/version")).status == 200
        await way.close()


async def test_server_with_a_costly_handshake_is_left_alone_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    authority, clock = trustme.CA(), ManualClock(BEGINNING)
    async with serve(application(), server_context(authority)) as url:
        endpoint = Endpoint(name="e", server=url)
        way = HttpTransport(endpoint, clock, bounds=AWAY, tls=trusting(authority), shared=Shared())
        with monkeypatch.context() as costly:
            costly.setattr(handshakes, "MOST", 0.0)
            costly.setattr(http, "MOST", 0.0)
            with pytest.raises(ConnectionFailed, match="more than 0 ms to verify"):
                await way.request("GET", "/version", timeout=3600)
        with pytest.raises(ConnectionFailed, match="take too long to verify"):
            await way.request("GET", "/version", timeout=3600)
        clock.move_to(BEGINNING + timedelta(seconds=REFUSED_FOR))
        assert (await way.request("GET", "/version", timeout=3600)).status == 200
        await way.close()


def test_server_that_goes_on_sending_is_not_read_after_its_connection_was_left() -> None:
    # As the operator runs: of the event loops, only this one reads on after a connection was closed.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(_bytes_sent_to_one_who_leaves()) < 32 * 2**20


async def _bytes_sent_to_one_who_leaves() -> int:
    authority = trustme.CA()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        endpoint = Endpoint(name="e", server=f"https://127.0.0.1:{listening.getsockname()[1]}")
        sending = asyncio.create_task(asyncio.to_thread(_send_without_end, listening, server_context(authority)))
        way = HttpTransport(endpoint, SystemClock(), bounds=AWAY, tls=trusting(authority), shared=Shared())
        async with way.stream("/api/v1/nodes") as lines:
            await anext(aiter(lines))
        sent = await sending
        await way.close()
    return sent


def _send_without_end(listening: socket.socket, context: ssl.SSLContext) -> int:
    """Send lines until the other side does not take them any more. What that says is not listened to."""
    sent = 0
    with context.wrap_socket(listening.accept()[0], server_side=True) as connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(OSError):
            while sent < 512 * 2**20:
                connection.sendall(b"a" * (2**16 - 1) + b"\n")
                sent += 2**16
    return sent


async def test_server_that_sends_byte_by_byte_is_left() -> None:
    authority = trustme.CA()

    async def crumble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while not writer.is_closing():
                for _ in range(100):
                    writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    async with await asyncio.start_server(crumble, "127.0.0.1", 0, ssl=server_context(authority)) as server:
        endpoint = Endpoint(name="e", server=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        way = HttpTransport(endpoint, SystemClock(), bounds=AWAY, tls=trusting(authority), shared=Shared())
        received = 0
        with contextlib.suppress(ConnectionFailed):
            async with way.stream("/api/v1/nodes") as lines:
                received = sum([len(line) async for line in lines])
        await way.close()
    assert received < SMALLEST_RECORD * FEW_RECORDS


async def test_server_that_sends_ordinary_events_is_not_left() -> None:
    authority, events = trustme.CA(), 4 * FEW_RECORDS

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(events):
            writer.write(b"a" * 100)
            writer.write(b"\n")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(tell, "127.0.0.1", 0, ssl=server_context(authority)) as server:
        endpoint = Endpoint(name="e", server=f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        way = HttpTransport(endpoint, SystemClock(), bounds=AWAY, tls=trusting(authority), shared=Shared())
        async with way.stream("/api/v1/nodes") as lines:
            assert len([line async for line in lines]) == events
        await way.close()


@virtual
async def test_work_outside_of_a_turn_lengthens_the_pause() -> None:
    turns, loop = Turns(0.01, rest=4), asyncio.get_running_loop()
    async with turns.turn():
        pass
    turns.charge(0.1)
    async with turns.turn():
        pass
    assert loop.time() == pytest.approx(0.01 + 0.4)
