"""Lists in pages from a server on loopback: the requests, and objects that are too long."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web

from haulout.kube.bounds import HOME
from haulout.kube.codec import Kind, Shortened
from haulout.kube.endpoint import Endpoint
from haulout.kube.http import HttpTransport
from haulout.kube.listing import Pages, read_list
from haulout.model.pod import Pod
from tests.build.clock import ManualClock
from tests.build.server import serve

PODS = Kind(Pod)
FAT = "<" * 1_200_000


class Server:
    """A server with pods by name, each with an argument. `limits`: the requested page sizes."""

    def __init__(self, **args: str) -> None:
        self.args = args
        self.limits: list[int] = []

    async def answer(self, request: web.Request) -> web.Response:
        limit, start = int(request.query["limit"]), int(request.query.get("continue", "0"))
        self.limits.append(limit)
        items = [
            {"metadata": {"name": name}, "spec": {"containers": [{"args": [args]}], "nodeName": "n"}}
            for name, args in sorted(self.args.items())[start : start + limit]
        ]
        more = str(start + limit) if start + limit < len(self.args) else ""
        head = {"resourceVersion": "7", "continue": more}
        text = json.dumps({"metadata": head, "items": items}).replace("<", "\\u003c")
        return web.Response(body=text.encode(), content_type="application/json")

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[HttpTransport]:
        app = web.Application()
        app.router.add_get("/{path:.*}", self.answer)
        async with serve(app) as url:
            transport = HttpTransport(Endpoint(name="home", server=url), ManualClock(datetime(2026, 1, 1, tzinfo=UTC)))
            try:
                yield transport
            finally:
                await transport.close()


def thin(count: int) -> dict[str, str]:
    return {f"b-{number:03d}": "x" for number in range(count)}


async def test_pages_one_after_the_other() -> None:
    server = Server(**thin(5))
    async with server.transport() as transport:
        pages, names = Pages(transport, "/api/v1/pods", PODS, size=2), list[str]()
        while not pages.complete:
            names += [pod.metadata.name for pod in await pages.next() if isinstance(pod, Pod)]
    assert names == sorted(server.args)
    assert server.limits == [2, 2, 2]


async def test_page_that_is_too_long_is_asked_for_with_fewer_objects() -> None:
    length = HOME.body // 40
    server = Server(**dict.fromkeys(thin(64), "x" * length))
    async with server.transport() as transport:
        found = await read_list(transport, "/api/v1/pods", Pod)
    assert [pod.metadata.name for pod in found] == sorted(server.args)
    # Each page that comes doubles the next.
    assert server.limits == [500, 125, 31, 62]


async def test_object_that_is_too_long_comes_alone_and_in_part() -> None:
    server = Server(**thin(3), **{"a-fat": FAT, "c-fat": FAT})
    async with server.transport() as transport:
        pages, found, cut = Pages(transport, "/api/v1/pods", PODS), list[Pod](), dict[str, int]()
        while not pages.complete:
            for item in await pages.next():
                pod = item.object if isinstance(item, Shortened) else item
                assert isinstance(pod, Pod)
                found.append(pod)
                if isinstance(item, Shortened):
                    cut[pod.metadata.name] = item.length
    assert [pod.metadata.name for pod in found] == sorted(server.args)
    assert {pod.spec.node_name for pod in found} == {"n"}
    assert set(cut) == {"a-fat", "c-fat"}
    assert min(cut.values()) > 7_200_000
