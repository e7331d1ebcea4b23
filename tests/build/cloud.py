"""A small server that plays Keystone, Nova and Kubernikus, and checks the credentials of its callers."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

PASSWORD = "not for logs, ever"
TOKEN = "tok-1"


class OpenStack:
    """The state of the cloud and the handler of its requests.

    `servers`: (id, name) in the order of lists. `page`: how many servers a page has.
    `refuse`: the status with which a path is refused. `lead`: where a path is redirected to. `raw`: what a path
    answers with, whatever is asked. `endless`: the encoding in which lists of servers never end, if they do so.
    `drip`: the seconds between two pieces of them. `nova`: the address of another server that plays Nova.
    `padding`: a text in a field of each server, and of the catalog, that is not read.
    """

    def __init__(self) -> None:
        self.url = ""
        self.nova, self.padding = "", ""
        self.servers: list[tuple[str, str]] = []
        self.page = 1000
        self.pools: Any = []
        self.refuse: dict[str, int] = {}
        self.lead: dict[str, str] = {}
        self.raw: dict[str, bytes] = {}
        self.endless = ""
        self.drip = 0.0
        self.interface, self.region = "public", "r-1"
        self.asked: list[tuple[str, str]] = []
        self.queries: list[list[tuple[str, str]]] = []
        self.scopes: list[Any] = []

    def config(self, **changes: str) -> str:
        values = {
            "auth-url": f"{self.url}/v3",
            "username": "robot",
            "password": PASSWORD,
            "region": "r-1",
            "domain-name": "d",
            "tenant-id": "p-1",
        }
        lines = [f'{name} = "{value}"' for name, value in {**values, **changes}.items() if value]
        return "\n".join(["# credentials", "[Global]", *lines, "[Other]", "region = r-2", ""])

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        self.queries.append(list(request.query.items()))
        if request.path in self.refuse:
            return web.Response(status=self.refuse[request.path], text=f"who says {PASSWORD}?")
        if request.path in self.lead:
            raise web.HTTPTemporaryRedirect(self.lead[request.path])
        if request.path in self.raw:
            return web.Response(status=201, body=self.raw[request.path], headers={"X-Subject-Token": TOKEN})
        if request.path == "/v3/auth/tokens":
            return await self._token(request)
        if request.headers.get("X-Auth-Token") != TOKEN:
            return web.Response(status=401)
        match request.method, request.path.split("/")[1:]:
            case "GET", ["nova", "servers", "detail"] if self.endless:
                return await self._never_end(request)
            case "GET", ["nova", "servers", "detail"]:
                return self._list(request)
            case "DELETE", ["nova", "servers", server] if any(server == known for known, _ in self.servers):
                self.servers = [each for each in self.servers if each[0] != server]
                return web.Response(status=204)
            case "GET", ["api", "v1", "clusters", "mine"]:
                return web.json_response({"name": "mine", "spec": {"nodePools": self.pools}})
        return web.json_response({"message": "not found"}, status=404)

    async def _token(self, request: web.Request) -> web.Response:
        auth = (await request.json())["auth"]
        self.scopes.append(auth["scope"])
        user = {"name": "robot", "password": PASSWORD, "domain": {"name": "d"}}
        if auth["identity"] != {"methods": ["password"], "password": {"user": user}}:
            return web.Response(status=401, text=f"no such user with {PASSWORD}")
        point = {"interface": self.interface, "region_id": self.region, "url": self.nova or f"{self.url}/nova"}
        others = {"interface": "public", "region_id": "r-2", "url": "http://elsewhere.invalid"}
        catalog: list[dict[str, Any]] = [
            *({"type": "padding", "name": self.padding} for _ in range(20)),
            {"type": "network", "endpoints": [{**point, "url": "http://network.invalid"}]},
            {"type": "compute", "endpoints": [others, point]},
        ]
        return web.json_response({"token": {"catalog": catalog}}, status=201, headers={"X-Subject-Token": TOKEN})

    async def _never_end(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Encoding": self.endless})
        await response.prepare(request)
        packer = zlib.compressobj(wbits=31)
        with suppress(ConnectionError):
            while True:
                piece = b" " * 2**20
                await response.write(piece if self.endless == "identity" else packer.compress(piece))
                await asyncio.sleep(self.drip)
        return response

    def _list(self, request: web.Request) -> web.Response:
        """Answer a list of servers as Nova does: the name is a pattern, and the answer is one page."""
        if request.query.get("tenant_id") != "p-1":
            return web.Response(status=400)
        found = [each for each in self.servers if re.search(request.query["name"], each[1])]
        marker = request.query.get("marker")
        first = next((place + 1 for place, (known, _) in enumerate(found) if known == marker), 0)
        page = min(self.page, int(request.query["limit"]))
        shown = found[first : first + page]
        body: dict[str, Any] = {
            "servers": [{"id": known, "links": [self.padding] * 20, "name": name} for known, name in shown]
        }
        if len(found) > first + page:
            body["servers_links"] = [{"rel": "next", "href": "http://elsewhere.invalid"}]
        return web.json_response(body)

    @property
    def deletions(self) -> list[str]:
        return [path.rsplit("/", 1)[1] for method, path in self.asked if method == "DELETE"]


@asynccontextmanager
async def serving() -> AsyncIterator[OpenStack]:
    cloud = OpenStack()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", cloud.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    cloud.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield cloud
    finally:
        await runner.cleanup()
