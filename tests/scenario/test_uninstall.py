"""Haulout is removed while maintenances of all surfaces are in flight: nothing is left behind, wherever the removal is killed."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from haulout.embedded import NODES, PODS, Resource
from haulout.removal.survey import Wanted
from tests.build.all_surfaces import DEMO, AllSurfaces
from tests.build.kills import KilledAtWrite, every_kill
from tests.build.maintenances import DEFINITIONS, MAINTENANCES
from tests.build.notices import NOTICES
from tests.build.removals import remove
from tests.build.skyhooks import SKYHOOKS

CONFIG_MAPS, LEASES = Resource("", "v1", "configmaps"), Resource("coordination.k8s.io", "v1", "leases")
RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")


def in_flight(*, records: bool = False, rolls: bool = True) -> AllSurfaces:
    """Return a world in which each of four surfaces has begun with a node, and a person has cordoned another one."""
    all_ = AllSurfaces(6, records=records)
    all_.world.change(NODES, "n5", {"spec": {"unschedulable": True}})
    budgets = Resource("haulout.dev", "v1alpha1", "nodedisruptionbudgets")
    all_.world.objects.patch(budgets, "", "two", {"spec": {"maxUnavailable": 6}})
    all_.maintain("n0")
    all_.want_profile("n1")
    all_.notice("n2")
    all_.run(2)
    if rolls:
        all_.roll()
    all_.run(3)
    return all_


def left(all_: AllSurfaces) -> list[str]:
    """Return everything of Haulout that is in the cluster, apart from definitions and objects of people."""
    objects, found = all_.world.objects, list[str]()
    for name in all_.names:
        node = all_.node(name)
        meta = node["metadata"]
        found += [
            f"{name}: {key}" for key in (*(meta.get("annotations") or {}), *(meta.get("labels") or {})) if is_ours(key)
        ]
        found += [f"{name}: {taint['key']}" for taint in node["spec"].get("taints") or [] if is_ours(taint["key"])]
        found += [f"{name}: {each['type']}" for each in node["status"].get("conditions") or [] if is_ours(each["type"])]
    for resource in (MAINTENANCES, NOTICES, SKYHOOKS):
        for each in objects.list(resource) if objects.list(DEFINITIONS) else []:
            meta = each["metadata"]
            found += [
                f"{meta['name']}: {key}"
                for key in (*meta.get("finalizers", []), *(meta.get("annotations") or {}))
                if is_ours(key)
            ]
    for resource in (PODS, CONFIG_MAPS):
        found += [
            each["metadata"]["name"]
            for each in objects.list(resource)
            if any(is_ours(key) and key != "haulout.dev/applied" for key in each["metadata"].get("labels") or {})
        ]
    return found + [
        each["metadata"]["name"] for each in objects.list(LEASES) if each["metadata"]["name"].startswith("node-")
    ]


def is_ours(key: str) -> bool:
    records = ("nodeState_", "version_", "copyDir_", "resourceId_", "stageTime_", "keptConf_")
    kept = ("cloud.sap/maintenance-profile", *(f"skyhook.nvidia.com/{name}" for name in records))
    words = (
        "haulout.dev/",
        "skyhook.nvidia.com",
        "cloud.sap/maintenance",
        "maintenance/",
        "medik8s",
        "foregroundDelete",
        "finalNotice",
    )
    return any(word in key for word in words) and not key.startswith(kept)


async def test_nothing_is_left_of_what_was_in_flight() -> None:
    all_ = in_flight(records=True)
    begun = left(all_)
    assert {line.partition(":")[0] for line in begun} >= {"n0", "n1", "n2"}
    assert all_.cordoned() != ["n5"]
    lines, _ = await remove(all_.world, Wanted())
    assert left(all_) == []
    assert all_.cordoned() == ["n5"], "the node that a person has cordoned stays cordoned"
    assert lines[-1] == "done"
    assert [each["metadata"]["name"] for each in all_.world.objects.list(MAINTENANCES)] == ["n0"]
    assert [each["metadata"]["name"] for each in all_.world.objects.list(NOTICES)] == ["n2"]
    assert all_.world.objects.get(SKYHOOKS, "", DEMO) is not None
    records = all_.world.objects.list(RECORDS)
    assert records
    assert {each["status"]["outcome"] for each in records} == {"Cancelled"}
    assert await remove(all_.world, Wanted()) == (["nothing of Haulout is left here"], [])


async def test_definitions_go_with_all_objects_on_request() -> None:
    all_ = in_flight(records=True)
    await remove(all_.world, Wanted(definitions=True))
    assert left(all_) == []
    assert all_.world.objects.list(DEFINITIONS) == []
    assert not [
        key for name in all_.names for key in all_.node(name)["metadata"].get("annotations", {}) if "skyhook" in key
    ]


async def test_definitions_may_be_gone_first() -> None:
    all_ = in_flight()
    for each in all_.world.objects.list(DEFINITIONS):
        all_.world.objects.delete(DEFINITIONS, "", each["metadata"]["name"])
    await remove(all_.world, Wanted())
    assert left(all_) == []
    assert all_.cordoned() == ["n5"]


async def test_a_dry_run_lists_everything_and_writes_nothing() -> None:
    all_ = in_flight()
    before = left(all_)
    lines, writes = await remove(all_.world, Wanted(), dry_run=True)
    assert (left(all_), writes) == (before, [])
    assert lines[-1] == "nothing was written: this was a dry run"
    assert lines[-2].startswith("these definitions stay, with their objects (--definitions removes them): ")
    assert "skyhooks" in lines[-2]
    assert any(line.startswith("  nodes/n0: ") and line.endswith(", cordon") for line in lines)
    assert "  nodemaintenances.nodemaintenance.medik8s.io/n0: finalizer foregroundDeleteNodeMaintenance" in lines


async def test_killed_at_every_write_another_run_ends_it() -> None:
    _, writes = await remove(in_flight().world, Wanted())
    assert len(writes) > 8
    faults: dict[tuple[int, bool], Any] = {}
    for kill in every_kill(len(writes)):
        all_ = in_flight()
        with contextlib.suppress(KilledAtWrite):
            await remove(all_.world, Wanted(), dies_at=kill)
        await remove(all_.world, Wanted())
        if (left(all_), all_.cordoned()) != ([], ["n5"]):
            faults[kill] = left(all_), all_.cordoned()
    assert faults == {}


@pytest.mark.parametrize(
    ("surface", "node", "mark"),
    [
        ("nodemaintenance", "n0", "medik8s.io/drain"),
        ("profiles", "n1", "cloud.sap/maintenance-state"),
        ("notify", "n2", "maintenance/id-n2"),
        ("packages", "n3", "skyhook.nvidia.com/status_demo"),
    ],
)
async def test_one_surface_goes_and_the_others_keep_their_nodes(surface: str, node: str, mark: str) -> None:
    all_ = in_flight(rolls=surface == "packages")
    others = {"n0", "n1", "n2", "n5"} - {node}
    cordoned = others.intersection(all_.cordoned())
    assert f"{node}: {mark}" in left(all_)
    await remove(all_.world, Wanted((surface,)))
    assert others.intersection(all_.cordoned()) == cordoned
    assert node not in all_.cordoned()
    assert not [line for line in left(all_) if line.endswith(f": {mark}")]
    assert any("haulout.dev/cordon" in line for line in left(all_)), "others hold their nodes still"
