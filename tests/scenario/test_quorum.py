"""The quorum of etcd, kept against every surface: a node waits if too many members would be out of service."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing
from haulout.cluster.view import GRANT, View
from haulout.core.action import Label
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Claim, Grant, Want, is_granted
from haulout.core.reason import roots
from haulout.embedded import NODES, PODS, Json
from haulout.surfaces.nodemaintenance.options import Options
from tests.build import workloads
from tests.build.maintenances import Maintenances
from tests.build.served import Served


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


# On OpenShift, without a setting

OPENSHIFT: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "clusterversions.config.openshift.io"},
    "spec": {
        "group": "config.openshift.io",
        "names": {"plural": "clusterversions", "kind": "ClusterVersion"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
PROFILES = """
intervals: {requeue: 30s}
instances:
  check: [{type: hasLabel, name: wanted, config: {key: wanted}}]
  trigger: [{type: eviction, name: drain, config: {action: drain}}]
profiles:
- name: image
  operational: {transitions: [{check: wanted, next: maintenance-required}]}
  maintenance-required: {transitions: [{check: wanted, trigger: drain, next: in-maintenance}]}
  in-maintenance: {transitions: [{check: "!wanted", next: operational}]}
"""
SETTINGS = """
surfaces: {profiles: {config: maintenance.yaml}}
leader: {elect: false}
listen: {http: "0", health: "0", webhooks: "0"}
"""
NAMES = ("n0", "n1", "n2")
QUORUM = "etcd keeps its quorum only with at most 1 member out of service"


def member(of: str) -> Json:
    labels, annotations = {"app": "etcd"}, {"kubernetes.io/config.mirror": "x"}
    metadata = {"name": f"etcd-{of}", "namespace": "openshift-etcd", "labels": labels, "annotations": annotations}
    spec = {"nodeName": of, "containers": [{"name": "etcd", "image": "etcd"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Three nodes of OpenShift's control plane, each with a member of etcd, all of which one profile wants."""
    (tmp_path / "haulout.yaml").write_text(SETTINGS)
    (tmp_path / "maintenance.yaml").write_text(PROFILES)
    with Served(tmp_path) as made:
        nodes = [workloads.node(name, wanted="yes") for name in NAMES]
        for each in nodes:
            each["metadata"]["labels"]["cloud.sap/maintenance-profile"] = "image"
        namespace: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "openshift-etcd"}}
        made.make(OPENSHIFT, namespace, *nodes, *map(member, NAMES))
        yield made


def out_of(served: Served) -> list[str]:
    return [name for name in NAMES if served.node(name)["spec"].get("unschedulable")]


def test_on_openshift_a_profile_keeps_the_quorum_and_explain_says_so(served: Served) -> None:
    with served.running("run"):
        served.until(lambda: len(out_of(served)) == 1)
        waiting = next(name for name in NAMES if name not in out_of(served))
        served.until(lambda: QUORUM in served.run("explain", waiting).stdout)
        assert len(out_of(served)) == 1
        assert "etcd/quorum: 1 of 1 out, 0 left\n" in served.run("status").stdout


def test_on_openshift_a_plan_keeps_the_quorum(served: Served) -> None:
    done = served.run("plan", "--days", "0.1", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    states = [{span["state"] for span in each["states"]} for each in json.loads(done.stdout)["nodes"]]
    assert sum("in-maintenance" in each for each in states) == 1
