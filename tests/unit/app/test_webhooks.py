"""Webhooks in the process: looks at doubtful objects, the source of certificates, and the kind of cluster."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from haulout.app import webhooks
from haulout.app.webhooks import Certificates, looker, webhook_server
from haulout.base.clock import SystemClock
from haulout.cluster.key import Key, node_key
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing, Store
from haulout.core.admission import ALLOWED, Webhook
from haulout.kube.discovery import served_groups
from haulout.kube.errors import KubeError
from haulout.kube.transport import Reply
from haulout.runtime.metrics import Metrics
from haulout.serve.certificates import make_self_signed
from tests.build.fakeapi import refusal
from tests.build.objects import Objects
from tests.build.rows import node
from tests.rig.process import free_port

HOOK = Webhook("v.thing.io", "/validate", lambda request, view: ALLOWED, msgspec.Struct, "things")


def projector(cluster: str, kind: str) -> Projector:
    return Projector(RESOURCES[kind], cluster, Keep())


class World:
    def __init__(self) -> None:
        self.objects = Objects()
        self.store = Store()
        self.store.set_listing("", "Node", Listing.LISTED)
        self.stirred = 0
        self.look = looker(self.objects, self.store, projector, self._stir)

    def _stir(self) -> None:
        self.stirred += 1


@pytest.fixture
def world() -> World:
    return World()


async def test_a_look_finds_what_the_watch_has_not_told_yet(world: World) -> None:
    world.objects.put("/api/v1/nodes/a", {"metadata": {"name": "a", "uid": "u"}, "spec": {"unschedulable": True}})
    await world.look(node_key("a"))
    row = world.store.row(node_key("a"))
    assert isinstance(row, NodeRow)
    assert (row.unschedulable, world.stirred) == (True, 1)
    assert world.store.size() == 0


async def test_a_look_finds_out_what_is_gone(world: World) -> None:
    world.store.put(node("a"))
    await world.look(node_key("a"))
    assert world.store.row(node_key("a")) is None


async def test_what_comes_while_looking_is_newer_than_not_found(world: World) -> None:
    world.store.put(node("a", version=1))
    looking = asyncio.ensure_future(world.look(node_key("a")))
    await asyncio.sleep(0)
    world.store.put(node("a", version=5, uid="new"))
    await looking
    row = world.store.row(node_key("a"))
    assert row is not None
    assert row.uid == "new"


@pytest.mark.parametrize("name", ["", "..", "../../secrets/x", "a/b", "a?b", "a%2fb", "A", "a" * 300, "a\nb", "é"])
async def test_names_that_lead_elsewhere_are_not_asked_for(world: World, name: str) -> None:
    await world.look(node_key(name))
    await world.look(Key("", "Pod", name or "..", "p"))
    assert world.objects.asked == []


async def test_a_look_that_fails_changes_nothing(world: World) -> None:
    world.store.put(node("a"))
    world.objects.faults.append(refusal(403, "Forbidden"))
    await world.look(node_key("a"))
    assert world.store.row(node_key("a")) is not None
    assert world.store.size() == 0


class Groups(Objects):
    def __init__(self, body: Any) -> None:
        super().__init__()
        self._body = body

    async def request(self, method: str, path: str, **more: Any) -> Reply:
        assert (method, path) == ("GET", "/apis")
        return Reply(200, self._body if isinstance(self._body, bytes) else json.dumps(self._body).encode())


@pytest.mark.parametrize(
    ("version", "expected"),
    [("config.openshift.io/v1", True), ("config.openshift.io/v1alpha1", False), ("apps/v1", False)],
)
async def test_openshift_is_known_by_its_configuration(version: str, expected: bool) -> None:
    groups = {"kind": "APIGroupList", "groups": [{"name": "x", "versions": [{"groupVersion": version}]}]}
    assert ("config.openshift.io/v1" in await served_groups(Groups(groups))) is expected


async def test_a_discovery_that_cannot_be_read_is_no_answer() -> None:
    with pytest.raises(KubeError, match="GET /apis: the answer cannot be read"):
        await served_groups(Groups(b"<html>"))


async def test_files_that_are_there_are_served_and_nobody_is_asked(tmp_path: Path) -> None:
    pair = make_self_signed(["127.0.0.1"], datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    files = (("/nowhere/tls.crt", "/nowhere/tls.key"), (str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")))
    objects = Objects()
    async with webhook_server(
        f"127.0.0.1:{free_port()}",
        (HOOK,),
        Certificates(files=files, namespace="n", service="s", secret="c"),
        transport=objects,
        store=Store(),
        clock=SystemClock(),
        metrics=Metrics(),
    ) as missing:
        assert missing() == ""
    assert objects.asked == []


@pytest.mark.parametrize(
    ("address", "webhooks"), [("0", (HOOK,)), ("", (HOOK,)), (":1", ())], ids=["off", "empty", "none"]
)
async def test_nothing_to_serve_lacks_nothing(address: str, webhooks: tuple[Webhook, ...]) -> None:
    async with webhook_server(
        address,
        webhooks,
        Certificates(namespace="n", service="s", secret="c"),
        transport=Objects(),
        store=Store(),
        clock=SystemClock(),
        metrics=Metrics(),
    ) as missing:
        assert missing() == ""


async def test_files_that_must_be_there_are_waited_for(tmp_path: Path) -> None:
    files = ((str(tmp_path / "tls.crt"), str(tmp_path / "tls.key")),)
    async with webhook_server(
        f"127.0.0.1:{free_port()}",
        (HOOK,),
        Certificates(files=files, own=False, namespace="n", service="s", secret="c"),
        transport=Objects(),
        store=Store(),
        clock=SystemClock(),
        metrics=Metrics(),
    ) as missing:
        assert missing() == "the webhooks have no certificate yet"


class Broken(Objects):
    """An API server on which the first requests raise a bug, and which cannot be watched."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.mended = asyncio.Event()

    async def request(self, method: str, path: str, **more: Any) -> Reply:
        self.times -= 1
        if self.times >= 0:
            raise ZeroDivisionError("a bug")
        self.mended.set()
        return await super().request(method, path, **more)

    def stream(self, path: str, **more: Any) -> Any:
        raise KubeError("no watches")


async def test_a_keeper_of_certificates_that_fails_says_so_and_goes_on(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "KEEP_AGAIN_AFTER", 0.01)
    broken = Broken(times=2)
    async with webhook_server(
        f"127.0.0.1:{free_port()}",
        (HOOK,),
        Certificates(namespace="n", service="s", secret="c"),
        transport=broken,
        store=Store(),
        clock=SystemClock(),
        metrics=Metrics(),
    ):
        await asyncio.wait_for(broken.mended.wait(), 60)
    said = [record.message for record in caplog.records]
    assert said.count("certificates could not be checked") == 2
    assert "a bug" in caplog.text
