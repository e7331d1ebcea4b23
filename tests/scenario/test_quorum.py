"""The quorum of etcd, kept against every surface: what would take too many of its members out of service waits."""

from __future__ import annotations

from datetime import datetime

import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing
from haulout.cluster.view import GRANT, View
from haulout.core.action import Label
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Claim, Grant, Want, is_granted
from haulout.core.reason import roots
from haulout.embedded import NODES, PODS
from haulout.surfaces.nodemaintenance.options import Options
from tests.build.maintenances import Maintenances


def _drains(key: Key, view: View, now: datetime) -> Decision:
    """Stand for another surface: take every node with the label `wish` out of service, one label being all its work."""
    node = view.get(key, NodeRow)
    if node is None or "wish" not in node.labels:
        return NOTHING
    claim = Claim(key, key, frozenset({Want.CORDON}), begun="out" in node.labels)
    goes = is_granted(view, "other", claim) and not claim.begun
    return Decision(((Label(key, "out", "yes"),),) if goes else (), claims=(claim,))


class ControlPlane:
    """Three nodes, each with a member of etcd, under a nodemaintenance surface that keeps the quorum."""

    def __init__(self, members: int = 3, *, kept: bool = True) -> None:
        options = Options(quorum_on_kubernetes=kept)
        self.ops = Maintenances(None, options, Decider("other", "Node", _drains), together=True)
        for number in range(members):
            self._member(f"n{number}")
        self.ops.run(2)

    def _member(self, node: str) -> None:
        annotations = {"kubernetes.io/config.mirror": "x"}
        metadata = {"name": f"etcd-{node}", "namespace": "kube-system", "annotations": annotations}
        metadata["labels"] = {"component": "etcd"}
        spec = {"nodeName": node, "containers": [{"name": "etcd", "image": "etcd"}]}
        self.ops.world.objects.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def wish(self, *nodes: str) -> ControlPlane:
        for node in nodes:
            self.ops.world.objects.patch(NODES, "", node, {"metadata": {"labels": {"wish": ""}}})
        self.ops.run(5)
        return self

    def out(self) -> list[str]:
        return [name for name in ("n0", "n1", "n2") if "out" in self.ops.node(name)["metadata"]["labels"]]

    def codes(self, node: str) -> set[str]:
        rows = [row for row in self.ops.kernel.store.rows("", GRANT) if isinstance(row, Grant)]
        found = [row for row in rows if "other" in str(row.hold) and node in str(row.hold)]
        assert found
        return {root.code for row in found for reason in row.reasons for root in (reason, *roots(reason))}


def test_one_of_three_members_may_be_out_at_a_time_whatever_takes_it_out() -> None:
    plane = ControlPlane().wish("n0", "n1", "n2")
    assert len(plane.out()) == 1
    assert "quorum" in plane.codes("n2")


def test_a_member_that_is_not_ready_counts() -> None:
    plane = ControlPlane()
    conditions = [{"type": "Ready", "status": "False"}]
    plane.ops.world.objects.patch(NODES, "", "n2", {"status": {"conditions": conditions}}, subresource="status")
    plane.ops.run(2)
    assert plane.wish("n0").out() == []
    assert plane.wish("n2").out() == ["n2"]


@pytest.mark.parametrize("members, kept, out", [(0, True, 3), (3, False, 3), (1, True, 2)])
def test_only_nodes_of_members_are_kept_and_only_where_it_is_set(members: int, kept: bool, out: int) -> None:
    assert len(ControlPlane(members, kept=kept).wish("n0", "n1", "n2").out()) == out


def test_a_maintenance_that_was_admitted_waits_when_it_begins_after_another_member_went() -> None:
    plane = ControlPlane().wish("n0")
    assert plane.out() == ["n0"]
    plane.ops.make("later", "n1").run(30)
    assert plane.ops.phase("later") == "Running"
    assert "etcd keeps its quorum" in plane.ops.status("later")["lastError"]
    assert not plane.ops.node("n1")["spec"].get("unschedulable")


def test_while_pods_cannot_be_read_no_control_plane_node_goes() -> None:
    plane = ControlPlane()
    for node in ("n0", "n1"):
        labels = {"node-role.kubernetes.io/control-plane": ""}
        plane.ops.world.objects.patch(NODES, "", node, {"metadata": {"labels": labels}})
    plane.ops.kernel.store.set_listing("", "Pod", Listing.UNREADABLE, "forbidden")
    assert plane.wish("n0", "n1", "n2").out() == ["n2"]
    assert plane.codes("n0") == {"quorum"}
