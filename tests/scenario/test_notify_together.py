"""A NotifyMaintenance and other surfaces on one node, in virtual time."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.embedded import NODES
from haulout.surfaces.notify.wire import API_VERSION, CORDONED_BY, FINALIZER, KIND, OBJECTS_DRAINED, STARTED, TERMINATED
from tests.build.all_surfaces import AllSurfaces
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES


def test_one_that_has_ended_gives_its_turn_to_a_maintenance_that_keeps_the_node_cordoned() -> None:
    """It stays until the node is uncordoned, and the NodeMaintenance does that only after its own turn."""
    everything = AllSurfaces(1)
    everything.notice("n0")
    everything.run(2)
    everything.maintain("n0")
    everything.run(0.2)
    assert everything.working("n0") == ["notify"]
    everything.run(120)
    assert (everything.faults, everything.cordoned(), everything.marks()) == ([], [], {})
    assert (everything.maintenances, everything.notices) == ({}, {})


def test_a_label_that_a_person_had_set_is_put_back_although_another_surface_let_go_first() -> None:
    label = "remediation.medik8s.io/exclude-from-remediation"
    everything = AllSurfaces(1)
    everything.world.change(NODES, "n0", {"metadata": {"labels": {label: "mine"}}})
    everything.notice("n0")
    everything.run(2)
    everything.maintain("n0")
    everything.run(120)
    assert everything.node("n0")["metadata"]["labels"][label] == "mine"
    assert (everything.cordoned(), everything.maintenances) == ([], {})


def ended_notice(everything: AllSurfaces, node: str) -> None:
    """Leave a NotifyMaintenance as an operator leaves it that ends just before it gives the node back."""
    objects = everything.world.objects
    meta = {"name": node, "namespace": HOME, "finalizers": [FINALIZER], "annotations": {TERMINATED: ""}}
    spec = {"nodeObject": node, "maintenanceID": "mid", "maintenanceType": "planned"}
    objects.create(NOTICES, {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": spec})
    objects.patch(NOTICES, HOME, node, {"status": {"maintenanceStatus": STARTED}}, subresource="status")
    objects.delete(NOTICES, HOME, node)
    marks = {"labels": {"maintenance/mid": ""}, "annotations": {CORDONED_BY: f"{HOME}/{node}"}}
    everything.world.change(NODES, node, {"metadata": marks})


def test_after_a_restart_no_node_is_given_back_before_the_claims_of_others_are_known() -> None:
    everything = AllSurfaces(1)
    everything.maintain("n0")
    everything.driver.run(everything.world.time.now() + timedelta(seconds=60))
    ended_notice(everything, "n0")
    everything.begin(late="NodeMaintenance")
    everything.driver.run(everything.world.time.now() + timedelta(seconds=60))
    assert everything.cordoned() == ["n0"]
    everything.begin()
    everything.driver.run(everything.world.time.now() + timedelta(seconds=60))
    assert (everything.cordoned(), CORDONED_BY in everything.node("n0")["metadata"]["annotations"]) == (["n0"], False)
    everything.world.objects.delete(MAINTENANCES, "", "n0")
    everything.run(60)
    assert (everything.cordoned(), everything.notices) == ([], {})


@pytest.mark.parametrize("late", ["", "NotifyMaintenance"], ids=["all at once", "notices listed late"])
def test_a_maintenance_that_ends_while_no_operator_runs_leaves_the_node_to_the_notice(late: str) -> None:
    everything = AllSurfaces(1)
    everything.maintain("n0")
    everything.driver.run(everything.world.time.now() + timedelta(seconds=60))
    everything.notice("n0")
    everything.world.change(NODES, "n0", {"metadata": {"labels": {"maintenance/id-n0": ""}}})
    everything.driver.run(everything.world.time.now() + timedelta(seconds=10))
    assert everything.notices["n0"]["status"]["maintenanceStatus"] == OBJECTS_DRAINED
    everything.world.objects.delete(MAINTENANCES, "", "n0")
    everything.begin(late)
    everything.driver.run(everything.world.time.now() + timedelta(seconds=60))
    assert everything.cordoned() == ["n0"]
    everything.begin()
    everything.driver.run(everything.world.time.now() + timedelta(seconds=60))
    assert (everything.cordoned(), everything.maintenances) == (["n0"], {})
