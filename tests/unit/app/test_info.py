"""`/api/v1/info` and the page that shows it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from haulout.app.info import info_route
from haulout.app.parts import Surroundings
from haulout.base.clock import SystemClock
from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG
from haulout.runtime.metrics import Metrics
from haulout.serve.exchange import Refused, Request, Response, redirect
from haulout.serve.pages import page_file, static_route, to_static
from haulout.serve.web import Server, listen
from haulout.settings.settings import Settings
from haulout.surfaces.profiles.load import load
from haulout.surfaces.profiles.wire import SURFACE
from tests.build.objects import Objects
from tests.build.profiles import config_text, plugins, worker

PROFILE = """
- name: p
  operational:
    transitions: [{check: a && one, next: maintenance-required}, {check: b, next: in-maintenance}]
"""
ONE = "- {type: maxMaintenance, name: one, config: {max: 1}}"


def around(check: str = ONE, **more: Any) -> Surroundings:
    store = Store()
    text = config_text(PROFILE, checks=check) + "\ndashboard: {labelFilter: [zone]}\n"
    config = load(text, plugins(), source="maintenance.yaml", environment={})
    store.write(Value(key=Key("", CONFIG, "", SURFACE), value=config))
    store.begin_list("", "Node")
    store.put(worker("n1", a="1", zone="z1", other="x"))
    store.end_list("", "Node", 1)
    return Surroundings(Settings(http=":8080"), store, Metrics(), SystemClock(), lambda: None, **more)


class Client:
    """A client of a server, which it ends."""

    def __init__(self, server: Server) -> None:
        self.port = server.port
        self._server = server
        self._session = aiohttp.ClientSession(f"http://127.0.0.1:{server.port}")
        self.get, self.head = self._session.get, self._session.head

    async def close(self) -> None:
        await self._session.close()
        await self._server.cleanup()


async def client(routes: dict[str, Any]) -> Client:
    server = await listen("127.0.0.1:0", routes)
    assert server is not None
    return Client(server)


async def test_the_leader_shows_every_node() -> None:
    served = await client({"/api/v1/info": info_route(around(), Objects())})
    try:
        reply = await served.get("/api/v1/info")
        (info,) = await reply.json()
    finally:
        await served.close()
    assert reply.content_type == "application/json"
    assert (info["node"], info["labels"]) == ("n1", {"zone": "z1"})
    assert info["updated"].endswith("Z")
    (profile,) = info["profiles"]
    assert (profile["name"], profile["state"]) == ("p", "operational")
    first, second = profile["applied"]["transitions"]
    assert (first["passed"], first["target"], first["error"]) == (True, "maintenance-required", "")
    assert first["chain"]["expression"] == "a && one"
    assert first["chain"]["info"]["a"]["id"] == "hasLabel"
    assert first["chain"]["info"]["one"]["passed"] is True
    assert second["chain"] == {"passed": False, "info": {"b": second["chain"]["info"]["b"]}, "expression": "b"}
    assert second["chain"]["info"]["b"]["passed"] is False


@pytest.mark.parametrize(
    ("leader", "status", "text"),
    [
        pytest.param(None, 503, "no maintenance-controller is leading", id="no lease"),
        pytest.param(("", "ns"), 503, "no maintenance-controller is leading", id="nobody"),
        pytest.param(("pod_1", "ns"), 502, "the leader cannot be asked: ", id="gone"),
    ],
)
async def test_another_replica_says_what_keeps_it_from_asking_the_leader(
    leader: tuple[str, str] | None, status: int, text: str
) -> None:
    given = around(leads=lambda: False, leader=lambda: leader)
    served = await client({"/api/v1/info": info_route(given, Objects())})
    try:
        reply = await served.get("/api/v1/info")
        assert reply.status == status
        assert (await reply.json())["error"].startswith(text)
    finally:
        await served.close()


async def test_no_redirect_of_the_leader_is_followed() -> None:
    """A client with the former address of a leader's pod could make a replica send requests to any server."""
    asked: list[str] = []

    async def lead_on(request: Request) -> Response:
        asked.append(request.path)
        raise redirect(302, "/elsewhere")

    async def elsewhere(request: Request) -> Response:
        asked.append(request.path)
        return Response(body=b"[]")

    leader = await client({"/api/v1/info": lead_on, "/elsewhere": elsewhere})
    api = Objects()
    api.put("/api/v1/namespaces/ns/pods/pod", {"status": {"podIP": "127.0.0.1"}})
    given = around(leads=lambda: False, leader=lambda: ("pod_1", "ns"))
    given = msgspec.structs.replace(given, settings=Settings(http=f":{leader.port}"))
    replica = await client({"/api/v1/info": info_route(given, api)})
    try:
        reply = await replica.get("/api/v1/info", allow_redirects=False)
        assert (reply.status, reply.headers.get("Location")) == (302, None)
        assert asked == ["/api/v1/info"]
    finally:
        await replica.close()
        await leader.close()


async def test_the_page_is_built_in_or_a_directorys(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    routes = {"/static/{path:.*}": static_route(folder), "/{path:.*}": to_static}
    served = await client(routes)
    try:
        assert "Maintenance profiles" in await (await served.get("/static/")).text()
        assert (await served.get("/static/nothing.js")).status == 404
        reply = await served.get("/", allow_redirects=False)
        assert (reply.status, reply.headers["Location"]) == (301, "/static")
        reply = await served.get("/static", allow_redirects=False)
        assert (reply.status, reply.headers["Location"]) == (307, "/static/")
        folder.mkdir()
        (folder / "index.html").write_text("mine")
        assert await (await served.get("/static/")).text() == "mine"
        (folder / "long.js").write_bytes(bytes(range(256)) * 1000)
        reply = await served.get("/static/long.js")
        assert (reply.content_type, await reply.read()) == ("text/javascript", bytes(range(256)) * 1000)
        assert (await served.head("/static/long.js")).content_length == 256_000
        assert (await served.get("/static/missing")).status == 404
    finally:
        await served.close()


def test_nothing_outside_the_directory_is_reached(tmp_path: Path) -> None:
    folder = tmp_path / "static"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "link").symlink_to(tmp_path / "secret")
    for path in ("../secret", "link", "/etc/passwd"):
        with pytest.raises(Refused):
            page_file(folder, path)


LOGIN = """
- {type: prometheusInstant, name: one, config: {url: "http://user:hunter2@127.0.0.1:1/?token=hunter2", query: up, expr: value > 0}}
"""


async def test_no_login_of_an_address_is_shown() -> None:
    served = await client({"/api/v1/info": info_route(around(LOGIN), Objects())})
    try:
        reply = await served.get("/api/v1/info")
        text = await reply.text()
    finally:
        await served.close()
    assert "http://...@127.0.0.1:1/?token=..." in text
    assert "hunter2" not in text


async def test_those_who_ask_together_are_answered_from_one_computation() -> None:
    given, computed = around(), []
    for number in range(300):
        given.store.put(worker(f"m{number}", a="1"))

    def leads() -> bool:
        computed.append(1)
        return True

    served = await client({"/api/v1/info": info_route(msgspec.structs.replace(given, leads=leads), Objects())})

    async def ask() -> int:
        async with served.get("/api/v1/info") as reply:
            return len(await reply.json())

    try:
        assert set(await asyncio.gather(*(ask() for _ in range(100)))) == {301}
    finally:
        await served.close()
    assert len(computed) < 20
