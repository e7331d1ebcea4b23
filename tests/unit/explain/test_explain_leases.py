"""`haulout explain` says when a surface waits for the Lease of its original."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from haulout.cluster.key import node_key
from haulout.embedded import Api, InProcessTransport, Json, Resource, Server
from haulout.explain.live import live_picture
from haulout.explain.node import as_text, explain
from haulout.explain.setup import Setup, read_setup
from haulout.explain.snapshot import picture
from haulout.kernel.kernel import Kernel
from haulout.kube.errors import Status, error_from_status
from haulout.kube.transport import Reply
from tests.build.drains import QUICK
from tests.build.profiles import config_text
from tests.build.workloads import World

LEASES = Resource("coordination.k8s.io", "v1", "leases")
ORIGINAL = "maintenance-controller-leader-election.cloud.sap"
SETTINGS = """
namespace: default
surfaces: {profiles: {config: m.yaml, lease: {namespace: default}}}
"""
NOT_HELD = f"the Lease {ORIGINAL} of its original is not held"


def lease(name: str, holder: str) -> Json:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"holderIdentity": holder},
    }


@pytest.mark.parametrize(
    ("leases", "waits"),
    [
        pytest.param((lease("haulout", "us"), lease(ORIGINAL, "us")), False, id="held by the operator"),
        pytest.param((lease("haulout", "us"), lease(ORIGINAL, "them")), True, id="held by the original"),
        pytest.param((lease("haulout", "us"),), True, id="nobody holds it"),
        pytest.param((), True, id="no operator runs"),
    ],
)
def test_a_surface_that_does_not_hold_it_waits(
    leases: tuple[Json, ...], waits: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(config_text("- name: none"))
    Path("haulout.yaml").write_text(SETTINGS)
    world = World(QUICK, nodes=1)
    assert isinstance(world.objects, Server)
    for each in leases:
        world.objects.create(LEASES, each)
    world.run()
    setup = read_setup("")
    kernel = asyncio.run(picture(setup, InProcessTransport(Api(world.objects))))
    assert (NOT_HELD in text_of(kernel, setup)) is waits
    assert (NOT_HELD in asyncio.run(watched_text(setup, InProcessTransport(Api(world.objects))))) is waits


def text_of(kernel: Kernel, setup: Setup) -> str:
    found = explain(kernel, setup.enabled, node_key("n0"), datetime.now(UTC))
    assert found is not None
    return as_text(found, datetime.now(UTC))


async def watched_text(setup: Setup, transport: InProcessTransport) -> str:
    """Return the text of the live picture, which `status`, `wait` and `explain --watch` use."""
    async with live_picture(setup, transport) as live:
        return text_of(live.kernel, setup)


def test_a_namespace_of_the_lease_that_does_not_exist_is_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(config_text("- name: none"))
    Path("haulout.yaml").write_text(SETTINGS.replace("lease: {namespace: default}", "lease: {namespace: gone}"))
    world = World(QUICK, nodes=1)
    assert isinstance(world.objects, Server)
    world.objects.create(LEASES, lease("haulout", "us"))
    world.run()
    setup = read_setup("")
    kernel = asyncio.run(picture(setup, InProcessTransport(Api(world.objects))))
    lines = text_of(kernel, setup).partition("\nlook up:")[0].splitlines()
    assert lines[-4:] == [
        "blocked by:",
        "  the namespace gone of the Lease does not exist",
        "what would help:",
        "  create the namespace gone, or name that of the original in surfaces.profiles.lease.namespace",
    ]


class _Barred(InProcessTransport):
    """A server that forbids every user to read a Lease."""

    async def request(self, method: str, path: str, **more: Any) -> Reply:
        if "/leases/" in path:
            raise error_from_status(Status(code=403, reason="Forbidden", message="leases is forbidden"))
        return await super().request(method, path, **more)


def test_a_lease_that_cannot_be_read_is_told_of_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.yaml").write_text(config_text("- name: none"))
    Path("haulout.yaml").write_text(SETTINGS)
    world = World(QUICK, nodes=1)
    assert isinstance(world.objects, Server)
    world.run()
    asyncio.run(picture(read_setup(""), _Barred(Api(world.objects))))
    shown = capsys.readouterr()
    line = "Lease default/haulout cannot be read and counts as not held: leases is forbidden\n"
    assert (shown.out, shown.err) == ("", line)
