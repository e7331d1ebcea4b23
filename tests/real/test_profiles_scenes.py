"""Nodes with profiles: two at once, many at once, a file that becomes invalid, nodes that come and go."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real.profiles import DATA, GO, PROFILE, STATE, Sampled, entries_of, label_of, roll_config, sampled
from tests.rig.api import Api, Json
from tests.rig.fleet import node_object
from tests.rig.operator import MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.wait import PATIENCE, eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver")

AROUND = ["maintenance-required", "in-maintenance", "operational"]
INSIDE = "in-maintenance"
VALID = "maintenance_controller_config_valid"


@pytest.fixture
def nodes(plane: ControlPlane, prefix: str) -> Iterator[Nodes]:
    made = Nodes(plane, prefix)
    yield made
    plane.wipe(prefix)


class Nodes:
    """The nodes of one test, named after it."""

    def __init__(self, plane: ControlPlane, prefix: str) -> None:
        self.plane = plane
        self.api: Api = plane.api()
        self.prefix = prefix

    def make(self, *names: str, profile: str, go: bool = True) -> list[str]:
        labels = {PROFILE: profile, **({GO: "true"} if go else {})}
        made = [f"{self.prefix}-{name}" for name in names]
        self.plane.load(node_object(name, labels=labels) for name in made)
        return made

    def get(self, name: str) -> Json:
        return self.api.get("nodes", name)

    def label(self, name: str, **labels: str | None) -> None:
        self.api.patch("nodes", name, {"metadata": {"labels": labels}})

    def current(self, name: str) -> dict[str, str]:
        node = self.get(name)
        entries = entries_of(node) if DATA in node["metadata"]["annotations"] else {}
        return {profile: entry["Current"] for profile, entry in entries.items()}

    def await_current(self, name: str, **wanted: str) -> None:
        eventually(lambda: self.current(name) == wanted, f"{name}: {wanted}")

    def inside(self, profile: str) -> int:
        return len(self.api.items("nodes", labelSelector=f"{PROFILE}={profile},{STATE}={INSIDE}"))


class Slots(Sampled):
    """Samples of how many profiles of one node are in maintenance at once."""

    def __init__(self) -> None:
        super().__init__()
        self.most_of_one = 0

    def take(self, event: dict[str, Any]) -> None:
        super().take(event)
        if event["type"] != "BOOKMARK" and DATA in event["object"]["metadata"].get("annotations", {}):
            entries = entries_of(event["object"]).values()
            self.most_of_one = max(self.most_of_one, [entry["Current"] for entry in entries].count(INSIDE))


TWO = f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
  - {{type: hasLabel, name: kernel_done, config: {{key: kernel-done}}}}
  - {{type: hasLabel, name: disk_done, config: {{key: disk-done}}}}
profiles:
- name: kernel
  operational: {{transitions: [{{check: go && !kernel_done, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: go, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: kernel_done, next: operational}}]}}
- name: disk
  operational: {{transitions: [{{check: go && !disk_done, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: go, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: disk_done, next: operational}}]}}
"""


def test_two_profiles_of_a_node_take_turns(plane: ControlPlane, nodes: Nodes, tmp_path: Path) -> None:
    """In the label's order; the one that waits is otherwise free to move."""
    (node,) = nodes.make("n", profile="disk--kernel")
    with (
        sampled(plane, f"{PROFILE}=disk--kernel", Slots()) as seen,
        MaintenanceController(plane, tmp_path, TWO),
    ):
        nodes.await_current(node, disk=INSIDE, kernel="maintenance-required")
        nodes.label(node, **{"disk-done": "true"})
        nodes.await_current(node, disk="operational", kernel=INSIDE)
        # Again, while the other profile is in maintenance: the label belongs to the node, not to a profile.
        nodes.label(node, **{"disk-done": None})
        nodes.await_current(node, disk="maintenance-required", kernel=INSIDE)
        assert label_of(nodes.get(node), STATE) == INSIDE
        nodes.label(node, **{"kernel-done": "true"})
        nodes.await_current(node, disk=INSIDE, kernel="operational")
        nodes.label(node, **{"disk-done": "true"})
        nodes.await_current(node, disk="operational", kernel="operational")
        eventually(lambda: seen.moves[node][-1] == "operational", "the node is back")
    assert isinstance(seen, Slots)
    assert seen.most_of_one == 1


def test_ten_nodes_at_once_two_at_a_time(plane: ControlPlane, nodes: Nodes, prefix: str, tmp_path: Path) -> None:
    """G18: the limit holds at every single change, and for an observer that looks every 100 ms."""
    names = nodes.make(*map(str, range(10)), profile=prefix)
    looks = []
    config = roll_config(2, profile=prefix, wait="300ms")
    with sampled(plane, f"{PROFILE}={prefix}") as seen, MaintenanceController(plane, tmp_path, config):
        ends = time.monotonic() + PATIENCE
        while not all(seen.moves.get(name, [])[-3:] == AROUND for name in names):
            assert time.monotonic() < ends, seen.moves
            looks.append(nodes.inside(prefix))
            time.sleep(0.1)
    assert seen.most == 2
    assert max(looks, default=0) <= 2
    assert nodes.inside(prefix) == 0


def test_a_file_that_breaks_while_nodes_roll(plane: ControlPlane, nodes: Nodes, prefix: str, tmp_path: Path) -> None:
    """G5: the error is reported, and nodes on their way stay there.

    Once the file is valid, they go on by its new content.
    """
    names = nodes.make(*map(str, range(8)), profile=prefix)
    slow, more, quick = (
        roll_config(most, profile=prefix, wait=wait) for most, wait in ((2, "1h"), (3, "1h"), (3, "1ms"))
    )
    with (
        sampled(plane, f"{PROFILE}={prefix}") as seen,
        MaintenanceController(plane, tmp_path, slow) as operator,
    ):
        rolls = {"maintenance-required": 6, INSIDE: 2}
        eventually(lambda: Counter(moves[-1] for moves in seen.moves.copy().values() if moves) == rolls, "it rolls")
        held = set(seen.inside)
        operator.write(more.replace("maxMaintenance", "maxMaintainance"))
        eventually(lambda: operator.metric(VALID) == 0, "it is said")
        since, asked = plane.audit.mark(), operator.metric("haulout_askings_total")
        for name in names:
            nodes.label(name, touched="true")
        eventually(lambda: operator.metric("haulout_askings_total") >= asked + len(names), "all have been looked at")
        assert plane.audit.counts(since=since, user="operator")["patch nodes"] == 0
        assert seen.inside == held
        operator.write(more)
        eventually(lambda: len(seen.inside) == 3, "one more may go")
        operator.write(quick)
        eventually(lambda: all(seen.moves[name][-3:] == AROUND for name in names), "all have been around")
        assert operator.metric(VALID) == 1
    assert seen.most == 3


def cordoning(profile: str) -> str:
    return f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasLabel, name: go, config: {{key: {GO}}}}}
  - {{type: maxMaintenance, name: few, config: {{max: 2, profile: {profile}}}}}
  trigger:
  - {{type: eviction, name: cordon, config: {{action: cordon}}}}
  - {{type: eviction, name: uncordon, config: {{action: uncordon}}}}
profiles:
- name: {profile}
  operational: {{transitions: [{{check: go, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: few, trigger: cordon, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: "!go", trigger: uncordon, next: operational}}]}}
- name: {profile}-other
"""


def test_nodes_that_go_in_the_middle_of_their_maintenance(
    plane: ControlPlane, nodes: Nodes, prefix: str, tmp_path: Path
) -> None:
    """Relabelled, deleted and made anew: their places are free at once, and nothing of the old is held against them."""
    moved, reborn = nodes.make("a", "b", profile=prefix)
    with (
        sampled(plane, f"{PROFILE}={prefix}") as seen,
        MaintenanceController(plane, tmp_path, cordoning(prefix)),
    ):
        eventually(lambda: seen.inside == {moved, reborn}, "both are in maintenance")
        third, fourth = nodes.make("c", "d", profile=prefix)
        for name in (third, fourth):
            nodes.await_current(name, **{prefix: "maintenance-required"})

        nodes.label(moved, **{PROFILE: f"{prefix}-other"})
        nodes.await_current(moved, **{f"{prefix}-other": "operational"})
        node = nodes.get(moved)
        # The old profile, which the node no longer has, undoes nothing.
        assert (label_of(node, STATE), node["spec"].get("unschedulable")) == ("operational", True)
        eventually(lambda: len(seen.inside & {third, fourth}) == 1, "the first has its place")

        nodes.api.delete("nodes", reborn)
        eventually(lambda: seen.inside == {third, fourth}, "the second has the other")
        nodes.make("b", profile=prefix)
        nodes.await_current(reborn, **{prefix: "maintenance-required"})
        assert "unschedulable" not in nodes.get(reborn)["spec"]
        nodes.label(third, **{GO: None})
        eventually(lambda: seen.inside == {reborn, fourth}, "it has its turn like any other")
        for name in (reborn, fourth):
            nodes.label(name, **{GO: None})
        eventually(lambda: not seen.inside, "all are back")
        assert [bool(nodes.get(name)["spec"].get("unschedulable")) for name in (reborn, third, fourth)] == [False] * 3
    assert seen.most == 2
