"""The original's example as it is, from its first line to a node that is back. The test plays the agent."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.profiles import PROFILE, STATE, label_of, sampled
from tests.rig.api import Api
from tests.rig.fleet import node_object
from tests.rig.operator import MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.receiver import Receiver
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

EXAMPLE = Path(__file__).with_name("flatcar.yaml")
AGENT = "flatcar-linux-update.v1.flatcar-linux.net"
NEEDED, OK, APPROVED = f"{AGENT}/reboot-needed", f"{AGENT}/reboot-ok", "cloud.sap/maintenance-approved"
FAILURES = 'maintenance_controller_transition_failure_count{profile="flatcar"}'
EVENTS = "events.k8s.io/v1/events"


class Machine:
    """One node, as its agent and its owner see it."""

    def __init__(self, api: Api, name: str) -> None:
        self.api = api
        self.name = name

    def annotate(self, key: str, value: str | None) -> None:
        self.api.patch("nodes", self.name, {"metadata": {"annotations": {key: value}}})

    def await_state(self, state: str) -> None:
        eventually(lambda: label_of(self.api.get("nodes", self.name), STATE) == state, f"it is {state}")

    def marks(self) -> dict[str, str]:
        found = self.api.get("nodes", self.name)["metadata"]["annotations"]
        return {key: found[key] for key in (NEEDED, OK, APPROVED) if key in found}

    def failures(self) -> list[str]:
        found = self.api.items(EVENTS, "default", fieldSelector=f"regarding.name={self.name}")
        return [event["note"] for event in found if event["reason"] == "ChangeMaintenanceStateFailed"]


def test_the_example_reboots_a_machine(plane: ControlPlane, prefix: str, tmp_path: Path) -> None:
    machine, receiver = Machine(plane.api(), f"{prefix}-n"), Receiver()
    example = EXAMPLE.read_text()
    assert example.count("hook: Your hook") == 2
    plane.load([node_object(machine.name, labels={PROFILE: "flatcar"})])
    with (
        receiver.open() as url,
        sampled(plane, f"{PROFILE}=flatcar") as seen,
        MaintenanceController(plane, tmp_path, example) as operator,
    ):
        machine.await_state("operational")
        # The address to write to is not filled in: this is reported, and the node goes no further, not even approved.
        machine.annotate(APPROVED, "true")
        machine.annotate(NEEDED, "true")
        eventually(lambda: operator.metric(FAILURES) >= 1, "it cannot be told of")
        (note,) = eventually(machine.failures, "it says so")
        assert note.startswith("At least one notification plugin failed for profile flatcar")
        machine.await_state("maintenance-required")
        assert machine.marks() == {NEEDED: "true", APPROVED: "true"}

        operator.write(example.replace("hook: Your hook", f"hook: {url}/hook"))
        machine.await_state("in-maintenance")
        assert machine.marks() == {NEEDED: "true", OK: "true"}
        machine.annotate(NEEDED, None)
        machine.await_state("operational")
        assert machine.marks() == {}

        # And once more as it is meant to be.
        machine.annotate(NEEDED, "true")
        eventually(lambda: len(receiver.texts("/hook")) == 3, "it is told of")
        assert machine.marks() == {NEEDED: "true"}
        machine.annotate(APPROVED, "true")
        eventually(lambda: machine.marks() == {NEEDED: "true", OK: "true"}, "it may go")
        eventually(lambda: len(receiver.texts("/hook")) == 4, "it is told of")
        machine.annotate(NEEDED, None)
        machine.await_state("operational")
        assert machine.marks() == {}
    around = ["maintenance-required", "in-maintenance", "operational"]
    assert seen.moves[machine.name] == ["operational", *around, *around]
    wish, gone = receiver.texts("/hook")[:2]
    assert receiver.texts("/hook") == [wish, gone] * 2
    assert f"`kubectl annotate node {machine.name} {APPROVED}=true`" in wish
    assert machine.name in gone
    assert {body["channel"] for _, body in receiver.got} == {"Your channel"}
    plane.wipe(prefix)
