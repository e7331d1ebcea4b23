"""A server whose TLS handshake is too costly is left alone for a while; ordinary ones are not affected."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta

import pytest
import trustme
from aiohttp import web

from haulout.base.clock import ManualClock
from haulout.kube import handshakes, http
from haulout.kube.bounds import AWAY
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ConnectionFailed
from haulout.kube.handshakes import REFUSED_FOR
from haulout.kube.http import HttpTransport
from haulout.kube.tls import client_context
from haulout.kube.turns import Shared, Turns
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


@virtual
async def test_work_outside_of_a_turn_lengthens_the_pause() -> None:
    turns, loop = Turns(0.01, rest=4), asyncio.get_running_loop()
    async with turns.turn():
        pass
    turns.charge(0.1)
    async with turns.turn():
        pass
    assert loop.time() == pytest.approx(0.01 + 0.4)
