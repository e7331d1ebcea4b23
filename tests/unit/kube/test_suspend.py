"""A machine that is suspended during a request: its clock moves on, and the event loop's does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import trustme
from aiohttp import web

from haulout.kube import deadline
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ConnectionFailed, RequestTimeout
from haulout.kube.http import HttpTransport
from haulout.kube.writer import Writer
from tests.build.clock import ManualClock
from tests.build.server import serve, server_context

# Longer than any lease.
HOUR = timedelta(hours=1)


class World:
    def __init__(self) -> None:
        self.clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.asked: list[str] = []
        self.authority = trustme.CA()
        self.arrived = asyncio.Event()

    def suspend(self, *_: Any) -> None:
        self.clock.move_to(self.clock.now() + HOUR)

    @asynccontextmanager
    async def writer(self, *, suspended_in_handshake: bool = False) -> AsyncIterator[Writer]:
        async def hang(request: web.Request) -> web.Response:
            self.asked.append(request.method)
            self.arrived.set()
            await asyncio.Event().wait()
            raise AssertionError

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", hang)
        context = server_context(self.authority, "api.internal")
        if suspended_in_handshake:
            context.sni_callback = self.suspend
        async with serve(app, context) as url:
            ca = self.authority.cert_pem.bytes()
            endpoint = Endpoint(name="home", server=url, ca=ca, tls_server_name="api.internal")
            transport = HttpTransport(endpoint, self.clock)
            try:
                yield Writer(transport, longest=300.0)
            finally:
                await transport.close()


async def test_write_under_way_is_given_up_when_the_machine_wakes_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "LOOK_EVERY", 0.01)
    world = World()
    async with world.writer() as writer, asyncio.timeout(60):
        write = asyncio.create_task(writer.merge_patch("/api/v1/nodes/a", {}, key="a", guard=lambda: 300.0))
        await world.arrived.wait()
        world.suspend()
        with pytest.raises(RequestTimeout):
            await write


async def test_write_is_not_sent_by_a_machine_that_was_suspended_while_it_connected() -> None:
    world = World()
    async with world.writer(suspended_in_handshake=True) as writer:
        with pytest.raises(ConnectionFailed, match="its deadline passed before it was sent") as caught:
            await writer.merge_patch("/api/v1/nodes/a", {}, key="a", guard=lambda: 15.0)
    assert not caught.value.sent
    assert world.asked == []
