"""A pause as people see it: nothing moves, the reason says why, and the work goes on afterwards."""

from __future__ import annotations

from haulout.cluster.key import node_key
from haulout.core.logbook.wire import read_record
from haulout.core.pause import ANNOTATION, author_annotation
from haulout.core.reason import roots
from haulout.embedded import NODES, Resource
from haulout.explain.fleet import fleet_of
from haulout.explain.fleet_picture import fleet_lines
from haulout.explain.node import explain
from tests.build.all_surfaces import NODE_BUDGETS, AllSurfaces
from tests.build.maintenances import MAINTENANCES

RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")
AUDIT = {"paused": {"reason": "audit", "by": "jane", "at": "2026-01-01T00:00:00Z"}}


def _pause_all(world: AllSurfaces) -> None:
    world._create(NODE_BUDGETS, "NodeDisruptionBudget", {"name": "haulout-paused"}, AUDIT)


def _codes(world: AllSurfaces, node: str) -> set[str]:
    found = explain(world.kernel, world.enabled, node_key(node), world.world.time.now())
    assert found is not None
    return {root.code for reason in found.reasons for root in roots(reason)}


def _lines(world: AllSurfaces) -> list[str]:
    declarations = [each.declaration for each in world.enabled]
    return fleet_lines(fleet_of(world.kernel, declarations, (), "zone", world.world.time.now()), 200)


def test_a_paused_fleet_stands_still_and_says_why() -> None:
    world = AllSurfaces(3)
    _pause_all(world)
    world.maintain("n0")
    world.want_profile("n1")
    world.run(30)
    assert world.cordoned() == []
    assert [_codes(world, name) for name in ("n0", "n1")] == [{"at-rest", "paused"}, {"paused"}]
    first = _lines(world)[0]
    assert first.startswith(
        "PAUSED: all nodes (NodeDisruptionBudget haulout-paused) by jane since 2026-01-01 00:00 UTC"
    )
    assert "audit (end it: haulout resume nodedisruptionbudget/haulout-paused)" in first
    world.world.objects.delete(NODE_BUDGETS, "", "haulout-paused")
    world.run(120)
    assert (world.unfinished()["nodemaintenance"], world.unfinished()["profiles"]) == ([], [])


def test_a_pause_in_the_middle_keeps_the_place_of_the_node() -> None:
    world = AllSurfaces(3)
    world.maintain("n0")
    world.run(1)
    assert world.cordoned() == ["n0"]
    notes = {ANNOTATION: "disk", "haulout.dev/paused-by": author_annotation("disk", "jane", "2026-01-01T00:00:00Z")}
    world.world.change(NODES, "n0", {"metadata": {"annotations": notes}})
    world.run(60)
    assert world.cordoned() == ["n0"]
    assert "paused" in _codes(world, "n0")
    assert _lines(world)[0].startswith("PAUSED: Node n0 by jane")
    world.world.change(NODES, "n0", {"metadata": {"annotations": dict.fromkeys(notes)}})
    world.run(120)
    assert not world.unfinished()["nodemaintenance"]


def test_what_undoes_goes_on_during_a_pause() -> None:
    world = AllSurfaces(2)
    world.maintain("n0")
    world.run(1)
    _pause_all(world)
    world.world.objects.delete(MAINTENANCES, "", "n0")
    world.run(10)
    assert world.cordoned() == []
    assert world.marks() == {}


def test_the_record_of_a_maintenance_names_what_people_did() -> None:
    world = AllSurfaces(1, records=True)
    world.maintain("n0")
    world.run(0.1)
    notes = {
        ANNOTATION: "disk",
        "haulout.dev/paused-by": author_annotation("disk", "jane", "2026-01-01T00:00:00Z"),
        "haulout.dev/cordon-reason": "swap",
    }
    world.world.change(NODES, "n0", {"metadata": {"annotations": notes}})
    world.run(5)
    world.world.change(NODES, "n0", {"metadata": {"annotations": dict.fromkeys(notes)}})
    _pause_all(world)
    world.run(5)
    world.world.objects.delete(NODE_BUDGETS, "", "haulout-paused")
    world.run(60)
    [record] = [read_record(each) for each in world.world.objects.list(RECORDS)]
    assert record is not None
    acts = [(each.act, each.by, each.reason) for each in record.status.acts]
    assert acts == [("pause", "jane", "disk"), ("cordon", "", "swap"), ("pause", "jane", "audit")]
