"""A NotifyMaintenance and other surfaces on one node, in virtual time."""

from __future__ import annotations

from haulout.embedded import NODES
from tests.build.all_surfaces import AllSurfaces


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
