"""The interfaces of the embedded cluster: the in-process transport, HTTPS, discovery, OpenAPI and kubectl's protobuf."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from haulout.base.clock import SystemClock
from haulout.embedded import HttpFace, InProcessTransport, Json, LoopTimers, VirtualTimers
from haulout.embedded.face import openapi, protobuf
from haulout.kube.endpoint import Endpoint, Secret, StaticToken
from haulout.kube.errors import ConnectionFailed, NotFound, RequestTimeout, Unauthorized
from haulout.kube.http import HttpTransport
from haulout.kube.reflector import Reflector
from haulout.kube.transport import MERGE_PATCH, Transport
from haulout.model.meta import ObjectMeta
from haulout.model.node import Node
from tests.build.apiserver import NODES, START, World, node
from tests.build.clock import ManualClock
from tests.build.virtual import virtual


class Seen:
    """A sink that remembers."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.changed = asyncio.Event()

    def begin(self) -> None: ...

    def put(self, obj: Node) -> None:
        self._say(obj.metadata.name)

    def delete(self, obj: Node) -> None:
        self._say(f"-{obj.metadata.name}")

    def _say(self, text: str) -> None:
        self.names.append(text)
        self.changed.set()

    def end_list(self, version: str, *, future: bool) -> Iterator[None]:
        self._say("listed")
        return iter(())

    def report_oversized(self, metadata: ObjectMeta, length: int) -> None: ...

    def report_broken(self, name: str, why: str) -> None:
        raise AssertionError(why)

    def trouble(self, code: str, why: str) -> None:
        raise AssertionError(why)

    def fine(self) -> None: ...

    async def until(self, *wanted: str) -> None:
        async with asyncio.timeout(60):
            while self.names != list(wanted):
                self.changed.clear()
                await self.changed.wait()


async def follow(world: World, transport: Transport) -> None:
    """Assert that a reflector of the product sees what happens."""
    world.server.create(NODES, node("a"))
    seen = Seen()
    async with asyncio.TaskGroup() as tasks:
        reflecting = tasks.create_task(Reflector(transport, "/api/v1/nodes", Node, seen, SystemClock()).run())
        await seen.until("a", "listed")
        world.server.create(NODES, node("b"))
        world.server.delete(NODES, "", "a")
        await seen.until("a", "listed", "b", "-a")
        reflecting.cancel()


async def test_a_reflector_in_process() -> None:
    world = World()
    await follow(world, InProcessTransport(world.api))
    assert not world.server.storage.table("nodes").listeners


async def test_requests_in_process() -> None:
    world = World()
    transport = InProcessTransport(world.api)
    made = await transport.request("POST", "/api/v1/nodes", body=json.dumps(node("a")).encode())
    assert made.status == 201
    changed = await transport.request(
        "PATCH", "/api/v1/nodes/a", body=b'{"spec":{"unschedulable":true}}', content_type=MERGE_PATCH
    )
    assert json.loads(changed.body)["spec"] == {"unschedulable": True}
    with pytest.raises(NotFound, match='nodes "b" not found'):
        await transport.request("GET", "/api/v1/nodes/b")
    await transport.close()
    with pytest.raises(ConnectionFailed):
        await transport.request("GET", "/api/v1/nodes/a")


@virtual
async def test_a_silent_stream_in_process() -> None:
    transport = InProcessTransport(World().api)
    with pytest.raises(RequestTimeout, match="silent for 5 s"):
        async with transport.stream("/api/v1/nodes", query={"watch": "true"}, silence=5) as lines:
            async for _ in lines:
                pass


async def test_closing_ends_streams() -> None:
    transport = InProcessTransport(World().api)
    async with transport.stream("/api/v1/nodes", query={"watch": "true"}) as lines:
        await transport.close()
        assert [line async for line in lines] == []


def endpoint(face: HttpFace, token: str | None = None) -> Endpoint:
    credential = StaticToken(Secret(token or face.token))
    return Endpoint(
        name="embedded", server=face.url, ca=face.pair.certificate if face.pair else None, credentials=(credential,)
    )


@pytest.mark.parametrize("tls", [True, False], ids=["https", "http"])
async def test_over_a_socket(tls: bool, tmp_path: Path) -> None:
    world = World()
    async with HttpFace(world.api, tls=tls) as face:
        assert face.url.startswith("https:" if tls else "http:")
        transport = HttpTransport(endpoint(face), SystemClock())
        try:
            await follow(world, transport)
        finally:
            await transport.close()
        stranger = HttpTransport(endpoint(face, "guess"), SystemClock())
        with pytest.raises(Unauthorized):
            await stranger.request("GET", "/api/v1/nodes")
        assert (await stranger.request("GET", "/readyz")).body == b"ok"
        await stranger.close()
        face.write_kubeconfig(tmp_path / "config")
        written = yaml.safe_load((tmp_path / "config").read_text())
        assert written["users"][0]["user"] == {"token": face.token}
        assert stat.S_IMODE((tmp_path / "config").stat().st_mode) == 0o600


async def test_a_reader_that_leaves_is_forgotten() -> None:
    world = World()
    async with HttpFace(world.api, tls=False) as face:
        transport = HttpTransport(endpoint(face), SystemClock())
        async with transport.stream("/api/v1/nodes", query={"watch": "true"}):
            assert len(world.server.storage.table("nodes").listeners) == 1
        async with asyncio.timeout(60):
            # The server notices it by its socket, and no other client does.
            while world.server.storage.table("nodes").listeners:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await transport.close()


def test_openapi() -> None:
    world = World()
    address = world.ask("GET", "/openapi/v3").body["paths"]["apis/apps/v1"]["serverRelativeURL"]
    found = world.ask("GET", address).body
    patch = found["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"] == {"group": "apps", "version": "v1", "kind": "Deployment"}
    spec = found["components"]["schemas"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert spec["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"


def test_openapi_v2_has_no_types_as_json_and_as_protobuf() -> None:
    world = World()
    assert world.ask("GET", "/openapi/v2").body["definitions"] == {}
    answer = world.watch("/openapi/v2", accept=openapi.V2_ACCEPTED)
    info = field(1, b"Haulout embedded cluster") + field(2, b"unversioned")
    assert answer.body == field(1, b"2.0") + field(2, info) + field(8, b"") + field(9, b"")
    assert answer.content_type == "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def field(number: int, value: bytes | int) -> bytes:
    def varint(rest: int) -> bytes:
        head = bytearray()
        while rest > 0x7F:
            head.append(rest & 0x7F | 0x80)
            rest >>= 7
        return bytes(head) + bytes([rest])

    if isinstance(value, int):
        return varint(number << 3) + varint(value % (1 << 64))
    return varint(number << 3 | 2) + varint(len(value)) + value


def test_protobuf() -> None:
    meta = field(1, b"d") + field(3, b"default") + field(11, field(1, b"app") + field(2, b"x"))
    volume = field(1, b"v") + field(2, field(1, field(1, b"/x")))
    port = field(3, 80)
    container = (
        field(1, b"c")
        + field(2, b"nginx")
        + field(6, port)
        + field(8, field(1, field(1, b"cpu") + field(2, field(1, b"1"))))
    )
    template = field(1, field(11, field(1, b"app") + field(2, b"x"))) + field(
        2, field(1, volume) + field(2, container) + field(4, -1)
    )
    rolling = field(2, field(1, field(1, 1) + field(3, b"10%")) + field(2, field(1, 0) + field(2, 2)))
    spec = field(1, 3) + field(2, field(1, field(1, b"app") + field(2, b"x"))) + field(3, template) + field(4, rolling)
    unknown = field(1, field(1, b"apps/v1") + field(2, b"Deployment")) + field(2, field(1, meta) + field(2, spec))
    assert protobuf.decode("apps.Deployment", b"k8s\x00" + unknown) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", "labels": {"app": "x"}},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "x"}},
            "template": {
                "metadata": {"labels": {"app": "x"}},
                "spec": {
                    "volumes": [{"name": "v", "hostPath": {"path": "/x"}}],
                    "containers": [
                        {
                            "name": "c",
                            "image": "nginx",
                            "ports": [{"containerPort": 80}],
                            "resources": {"limits": {"cpu": "1"}},
                        }
                    ],
                    "terminationGracePeriodSeconds": -1,
                },
            },
            "strategy": {"rollingUpdate": {"maxUnavailable": "10%", "maxSurge": 2}},
        },
    }
    said = World().ask(
        "POST", "/apis/apps/v1/namespaces/default/deployments", b"k8s\x00" + unknown, content_type=protobuf.PROTOBUF
    )
    assert (said.code, said.body["spec"]["replicas"]) == (201, 3)


@pytest.mark.parametrize("data", [b"", b"{}", b"k8s\x00\xff", b"k8s\x00\x12\x7f", b"k8s\x00\x0a\x01\x08"])
def test_what_is_no_protobuf(data: bytes) -> None:
    assert World().ask("POST", "/api/v1/nodes", data, content_type=protobuf.PROTOBUF).code == 400


def test_timers_go_off_in_order() -> None:
    timers, told = VirtualTimers(START), list[tuple[str, float]]()

    def act(name: str) -> Callable[[], None]:
        return lambda: told.append((name, timers.monotonic()))

    def at(second: int, name: str) -> Callable[[], None]:
        return timers.at(START.replace(second=second), act(name))

    at(5, "late")
    at(1, "first")
    at(1, "second")
    at(3, "cancelled")()
    assert timers.next_at() == START.replace(second=1)
    timers.run_until(START.replace(second=4))
    assert told == [("first", 1.0), ("second", 1.0)]
    assert timers.now() == START.replace(second=4)
    timers.at(START, act("overdue"))
    timers.run_due()
    timers.run_until(START.replace(second=9))
    assert told[2:] == [("overdue", 4.0), ("late", 5.0)]
    assert timers.next_at() is None


async def test_timers_on_a_loop() -> None:
    clock, told = ManualClock(START), list[str]()
    timers = LoopTimers(clock)
    timers.at(START, lambda: told.append("now"))
    timers.at(START, lambda: told.append("never"))()
    assert (told, timers.now()) == ([], START)
    await asyncio.sleep(0)
    assert told == ["now"]


def test_the_world_is_the_same_in_each_run() -> None:
    def run() -> list[Json]:
        world = World()
        for name in "abc":
            world.server.create(NODES, node(name))
            world.wait(seconds=1)
        world.server.patch(NODES, "", "b", {"spec": {"unschedulable": True}})
        return world.server.list(NODES)

    assert run() == run()
