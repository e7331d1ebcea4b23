"""`haulout explain` about a node whose maintenance has vanished, where the surface has no object any more."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from haulout.base import yaml
from haulout.cluster.key import node_key
from haulout.embedded import NODES, Api, InProcessTransport, Json, Server
from haulout.explain.node import as_text, explain
from haulout.explain.setup import Setup, read_setup
from haulout.explain.snapshot import narrow_to_node, picture
from haulout.surfaces.registry import definition
from tests.build.drains import QUICK
from tests.build.maintenances import DEFINITIONS
from tests.build.workloads import World

TAINT = {"key": "medik8s.io/drain", "effect": "NoSchedule"}
LEDGER = {"haulout.dev/cordon": '{"before":false,"by":["nodemaintenance"],"taint":true}'}
LET_GO = "check that the work on it is over, then run: haulout let-go node/n0"
SURFACES = "surfaces: {nodemaintenance: {}, packages: {}}"


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Setup:
    monkeypatch.chdir(tmp_path)
    Path("haulout.yaml").write_text(SURFACES)
    return read_setup("")


def shown(setup: Setup, spec: Json, node: str | None, **annotations: str) -> str:
    """Return what `explain` prints about n0, one of two nodes. `node`: the node to which the surfaces are narrowed."""
    world = World(QUICK, nodes=2)
    assert isinstance(world.objects, Server)
    for plural in ("nodemaintenances", "nodedisruptionbudgets", "skyhooks"):
        world.objects.create(DEFINITIONS, yaml.load(definition(plural)))
    world.change(NODES, "n0", {"metadata": {"annotations": annotations}, "spec": spec})
    world.run()
    return asyncio.run(_shown(setup, InProcessTransport(Api(world.objects)), node))


async def _shown(setup: Setup, transport: InProcessTransport, node: str | None) -> str:
    setup = await narrow_to_node(setup, transport, node)
    kernel, now = await picture(setup, transport), datetime.now(UTC)
    found = explain(kernel, setup.enabled, node_key("n0"), now)
    assert found is not None
    return as_text(found, now)


@pytest.mark.parametrize("node", [None, "n0"])
@pytest.mark.parametrize("cordoned", [True, False])
def test_its_taint_is_named_with_the_command_that_removes_it(setup: Setup, cordoned: bool, node: str | None) -> None:
    text = shown(setup, {"taints": [TAINT], "unschedulable": cordoned}, node, **LEDGER)
    assert "its taint says that it is in maintenance; there is no NodeMaintenance for it" in text
    assert LET_GO in text


def test_its_cordon_is_named_by_the_ledger_although_no_surface_is_left_that_reads_it(setup: Setup) -> None:
    text = shown(setup, {"unschedulable": True}, None, **{"haulout.dev/cordon": '{"before":false,"by":[]}'})
    assert "cordoned by the surfaces that hold it; it was schedulable before" in text
    assert LET_GO in text


def test_a_surface_without_an_object_or_a_mark_on_a_node_is_left_out(setup: Setup) -> None:
    text = shown(setup, {}, None)
    assert "taint" not in text
    assert "nothing is wanted of it" in text
