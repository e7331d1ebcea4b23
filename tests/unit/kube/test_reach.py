"""The servers that a kubeconfig from a Secret may name, and the errors for those that are no API servers."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from aiohttp import web

from haulout.base.clock import SystemClock
from haulout.kube.allowed_addresses import Reach, is_local
from haulout.kube.config import from_secret
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import ConfigRefused, ConnectionFailed
from haulout.kube.http import HttpTransport
from tests.build.server import serve


def kubeconfig(server: str, **cluster: Any) -> bytes:
    body = {
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server, **cluster}}],
        "contexts": [{"name": "a", "context": {"cluster": "a"}}],
    }
    return json.dumps(body).encode()


LOCAL = ("127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::")
LINK = ("169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe")
NOWHERE = ("0.0.0.0", "::", "224.0.0.1", "255.255.255.255", "ff02::1")


@pytest.mark.parametrize("address", [*LOCAL, *LINK, *NOWHERE])
def test_what_is_refused_unless_it_is_allowed(address: str) -> None:
    assert not Reach().allows(address)


@pytest.mark.parametrize("address", ["10.0.0.1", "192.168.1.1", "203.0.113.7", "100.64.0.1", "fd00::1", "2001:db9::1"])
def test_other_addresses_are_allowed(address: str) -> None:
    assert Reach().allows(address)
    assert not Reach(("198.51.100.0/24",)).allows(address)


def test_this_machine_is_allowed_where_that_is_said() -> None:
    assert [Reach(loopback=True).allows(address) for address in LOCAL] == [True] * len(LOCAL)
    assert not any(Reach(loopback=True).allows(address) for address in LINK)
    assert Reach(("127.0.0.0/8",)).allows("127.0.0.1")


@pytest.mark.parametrize(
    "server, cluster",
    [
        ("http://10.0.0.1:6443", {}),
        ("https://127.0.0.1:6443", {}),
        ("https://[::1]", {}),
        ("https://169.254.169.254", {}),
        ("https://10.0.0.1", {"proxy-url": "http://127.0.0.1:3128"}),
        ("https://10.0.0.1", {"proxy-url": "socks5://[::1]:1080"}),
    ],
)
def test_a_kubeconfig_that_names_a_wrong_server_is_refused(server: str, cluster: dict[str, str]) -> None:
    with pytest.raises(ConfigRefused, match=r"^Secret x/y: "):
        from_secret(kubeconfig(server, **cluster), source="Secret x/y", reach=Reach(), env={})


def test_the_proxy_of_the_environment_may_be_on_this_machine() -> None:
    env = {"HTTPS_PROXY": "http://127.0.0.1:3128"}
    opened = from_secret(kubeconfig("https://10.0.0.1"), source="x", reach=Reach(), env=env)
    assert (opened.endpoint.proxy_url, opened.endpoint.proxy_is_ours) == ("http://127.0.0.1:3128", True)


class Asked:
    """A server on this machine that counts its requests."""

    def __init__(self) -> None:
        self.requests = 0

    async def answer(self, request: web.Request) -> web.Response:
        self.requests += 1
        return web.json_response({})

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        return app


@pytest.mark.parametrize("host", ["localhost", "127.1", "0", "2130706433", "0x7f000001"])
async def test_a_name_is_judged_by_the_address_that_it_leads_to(host: str) -> None:
    """Spellings that a resolver understands are names, too."""
    asked = Asked()
    async with serve(asked.app()) as url:
        server = f"http://{host}:{url.rpartition(':')[2]}"
        endpoint = Endpoint(name="far", server=server, reach=Reach())
        transport = HttpTransport(endpoint, SystemClock())
        with pytest.raises(ConnectionFailed):
            await transport.request("GET", "/")
        await transport.close()
    assert not asked.requests


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_so_is_the_name_of_a_proxy(scheme: str) -> None:
    asked = Asked()
    async with serve(asked.app()) as url:
        proxy = f"{scheme}://localhost:{url.rpartition(':')[2]}"
        transport = HttpTransport(
            Endpoint(name="far", server="http://10.0.0.1", reach=Reach(), proxy_url=proxy), SystemClock()
        )
        with pytest.raises(ConnectionFailed, match="not one that kubeconfigs"):
            await transport.request("GET", "/")
        await transport.close()
    assert not asked.requests


async def test_an_answer_of_the_name_server_that_changes_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first answer is harmless and the second is not: what counts is the address of the connection."""
    asked, answers = Asked(), ["192.0.2.1", "127.0.0.1", "127.0.0.1"]
    lookup = socket.getaddrinfo

    def rebinding(host: Any, *given: Any, **more: Any) -> Any:
        return lookup(answers.pop(0) if host == "rebinds.example" else host, *given, **more)

    monkeypatch.setattr(socket, "getaddrinfo", rebinding)
    async with serve(asked.app()) as url:
        server = f"http://rebinds.example:{url.rpartition(':')[2]}"
        assert not await is_local(server)
        transport = HttpTransport(Endpoint(name="far", server=server, reach=Reach()), SystemClock())
        with pytest.raises(ConnectionFailed, match="not one that kubeconfigs"):
            await transport.request("GET", "/")
        await transport.close()
    assert not asked.requests


@pytest.mark.parametrize(
    "server, local", [("https://localhost:1", True), ("https://127.0.0.1", True), ("https://192.0.2.1", False)]
)
async def test_who_is_on_this_machine(server: str, local: bool) -> None:
    assert await is_local(server) is local
