"""NodeMaintenances on the embedded cluster, in virtual time. F and G are the numbers of docs/nodemaintenance.md."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from haulout.base import selector
from haulout.cluster.key import Key
from haulout.cluster.view import Record, View
from haulout.core.action import Create, Delete
from haulout.core.drain.options import Act, PodRules, Rule
from haulout.embedded import DISRUPTION_BUDGETS, NODES, PODS, ActorOptions, Resource
from haulout.kernel.requests import Change, Refused
from haulout.model.meta import wire_time
from haulout.surfaces.nodemaintenance.decide import decide
from haulout.surfaces.nodemaintenance.wire import API_VERSION, KIND, LEASE_HOLDER
from tests.build.drains import QUICK
from tests.build.maintenances import DEFINITIONS, LEASES, MAINTENANCES, NAMESPACES, Maintenances, definition, options
from tests.build.workloads import World, budget, condition_of, daemon_set, deployment, is_leaving, pod

OUT = (True, ["node.kubernetes.io/unschedulable", "medik8s.io/drain"], "true")
IN: tuple[bool, list[str], str | None] = (False, [], None)
LABEL = "remediation.medik8s.io/exclude-from-remediation"
HELD = "can't update or invalidate the lease because it is held by different owner: other"


@pytest.fixture
def ops() -> Maintenances:
    return Maintenances()


def reasons(ops: Maintenances) -> list[str]:
    return [reason for reason, _ in ops.told]


def blocked(ops: Maintenances) -> str:
    """Create a maintenance whose only pod is kept by its budget. Return the name of the pod."""
    ops.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    ops.run(30).make("a", "n0").run(3)
    return ops.pods("n0")[0]


def leaving(ops: Maintenances) -> list[str]:
    return [each["metadata"]["name"] for each in ops.world.pods() if is_leaving(each)]


def drained_message(ops: Maintenances) -> str:
    drained = next(each for each in ops.status("a")["conditions"] if each["type"] == "Drained")
    return str(drained.get("message", ""))


def version_of(ops: Maintenances) -> str:
    found = ops.found("a")
    assert found is not None
    return str(found["metadata"]["resourceVersion"])


def shown(ops: Maintenances, node: str) -> dict[str, str]:
    """Return the conditions of a node that report maintenances."""
    kinds = ("DrainInProgress", "Drained", "MaintenanceInProgress")
    return {kind: found for kind in kinds if (found := condition_of(ops.node(node), kind))}


class TestFlow:
    def test_there_and_back(self, ops: Maintenances) -> None:
        ops.world.make(deployment("web", replicas=3), daemon_set("agent"))
        began_at = ops.run(30).now
        ops.make("a", "n0").run(5)
        status = ops.status("a")
        assert (status["phase"], status["drainProgress"], status["totalpods"]) == ("Succeeded", 100, 2)
        assert status["evictionPods"] == 1
        assert ops.marks("n0") == OUT
        ops.delete("a").run(1)
        assert (ops.found("a"), ops.marks("n0"), ops.lease("n0")) == (None, IN, None)
        assert reasons(ops) == ["BeginMaintenance", "SucceedMaintenance", "UncordonNode", "RemovedMaintenance"]
        (took,) = ops.measured
        assert (took.counter, took.since) == ("nodemaintenance_drain_duration_seconds", began_at)
        assert ops.refusals == []

    def test_what_other_taints_and_labels_there_are_stays(self, ops: Maintenances) -> None:
        mine = {"key": "medik8s.io/drain", "effect": "NoSchedule", "value": "x"}
        keep = {"key": "keep", "effect": "NoExecute"}
        ops.world.change(NODES, "n0", {"spec": {"taints": [mine, keep]}})
        ops.world.change(
            NODES, "n0", {"metadata": {"labels": {"remediation.medik8s.io/exclude-from-remediation": "no"}}}
        )
        ops.make("a", "n0").run(1)
        taints = ops.node("n0")["spec"]["taints"]
        assert [taint["key"] for taint in taints] == ["node.kubernetes.io/unschedulable", "medik8s.io/drain", "keep"]
        assert "value" not in taints[1]
        ops.delete("a").run(1)
        assert ops.marks("n0") == (False, ["keep"], None)

    def test_a_budget_blocks_then_allows(self, ops: Maintenances) -> None:
        name = blocked(ops)
        ops.run(30)
        status = ops.status("a")
        assert status["lastError"] == f'error when evicting pods/"{name}" -n "default": global timeout reached: 30s'
        assert (status["phase"], status["pendingPods"]) == ("Running", [name])
        assert status["pendingPodsRefs"] == [{"namespace": "default", "name": name}]
        assert ops.said == [f"evicting pod default/{name}", "Reconciling with fixed duration"], "not once per try"
        ops.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 2}})
        ops.run(10)
        assert ops.phase("a") == "Succeeded"
        assert "lastError" not in ops.status("a"), "F2"
        assert "pendingPods" not in ops.status("a")
        assert ops.said[2:] == [f"pod: default:{name} Evicted from node: n0"]

    def test_the_status_follows_the_pods_also_beside_one_that_takes_for_ever(self) -> None:
        """Between two passes, too, and whatever grace a pod has been given. The drop-in waits for the pass to end."""
        ops = Maintenances(options=options(alone=False))
        name = blocked(ops)
        endless = pod("endless", nodeName="n0", terminationGracePeriodSeconds=2**62)
        endless["metadata"]["finalizers"] = ["test.haulout.dev/stays"]
        ops.world.make(endless)
        ops.run(3)
        assert set(ops.status("a")["pendingPods"]) >= {name}
        ops.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 2}})
        ops.run(12)
        assert (ops.phase("a"), ops.status("a")["pendingPods"]) == ("Running", ["endless"])

    def test_a_decision_goes_through_the_pods_once_whatever_it_has_to_report(self) -> None:
        ops = Maintenances(World(QUICK, nodes=1))
        ops.world.make(deployment("web", replicas=40), budget("web", minAvailable=40))
        # Long enough for a pass to end and to be reported.
        ops.run(30).make("a", "n0").run(31)
        assert ops.status("a")["pendingPods"]
        gone_through = []
        for seconds in (0, 3, 60):
            record = Record()
            decide(Key("", KIND, "", "a"), View(ops.kernel.store, record), ops.now + timedelta(seconds=seconds))
            gone_through.append(record.rows)
        # Each pod once, its permit once where it is reported, and the maintenances of the node.
        assert max(gone_through) <= 2 * 40 + 5

    def test_a_status_that_is_as_stored_is_not_built_anew_for_two_seconds(self) -> None:
        ops = Maintenances(World(QUICK, nodes=1))
        ops.world.make(deployment("web", replicas=40), budget("web", minAvailable=40))
        ops.run(30).make("a", "n0").run(20).kick("a", "again").run(0.1)
        version = version_of(ops)
        record = Record()
        decide(Key("", KIND, "", "a"), View(ops.kernel.store, record), ops.now + timedelta(seconds=1))
        assert version_of(ops) == version
        # The pods, and not the permit of each of them, which only a report needs.
        assert record.rows < 45

    def test_whom_a_drain_leaves_alone_is_told_when_it_begins(self, ops: Maintenances) -> None:
        ops.world.make(daemon_set("agent"), pod("p", nodeName="n0"), pod("q", nodeName="n0"))
        (agent,) = [name for name in ops.run(30).pods("n0") if name.startswith("agent")]
        ops.make("a", "n0").run(10)
        warnings = [line for line in ops.said if line.startswith("WARNING: ")]
        ignored = f"ignoring DaemonSet-managed Pods: default/{agent}"
        bare = "deleting Pods that declare no controller: default/p, default/q"
        assert warnings == [f"WARNING: {ignored}; {bare}"]

    def test_a_pass_is_reported_every_timeout_and_a_restart_does_not_begin_it_anew(self, ops: Maintenances) -> None:
        blocked(ops)
        first = ops.status("a")["lastUpdate"]
        ops.run(15)
        ops.begin()
        ops.run(13)
        assert ops.status("a")["lastUpdate"] > first, "30 s after the first, whoever counts"

    def test_a_node_that_is_not_there(self, ops: Maintenances) -> None:
        ops.make("a", "ghost").run(1)
        assert (ops.phase("a"), ops.status("a")["lastError"]) == ("Failed", 'nodes "ghost" not found')
        assert reasons(ops) == ["BeginMaintenance", "FailedMaintenance"]
        ops.run(600)
        assert reasons(ops).count("FailedMaintenance") == 1
        ops.delete("a").run(1)
        assert ops.found("a") is None

    def test_a_node_that_comes_later_is_taken(self, ops: Maintenances) -> None:
        ops.make("a", "late").run(1)
        ops.world.objects.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}})
        ops.run(2)
        assert ops.phase("a") == "Succeeded"

    def test_a_node_that_goes_takes_its_maintenance_with_it(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(2)
        ops.world.objects.delete(NODES, "", "n0")
        ops.run(60)
        assert (ops.found("a"), ops.lease("n0")) == (None, None)

    def test_a_node_that_is_made_anew_owns_maintenance_and_lease_before_they_are_collected(self) -> None:
        slow = ActorOptions(actors=("kubelet",), heartbeats=False)
        ops = Maintenances(World(slow, nodes=1)).make("a", "n0").run(2)
        held = ops.lease("n0")
        ops.world.objects.delete(NODES, "", "n0")
        ops.world.objects.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n0"}})
        ops.run(2)
        uid, found, lease = ops.node("n0")["metadata"]["uid"], ops.found("a"), ops.lease("n0")
        assert found is not None
        assert held is not None
        assert lease is not None
        assert [owner["uid"] for owner in found["metadata"]["ownerReferences"]] == [uid]
        assert [owner["uid"] for owner in lease["metadata"]["ownerReferences"]] == [uid]
        assert lease["metadata"]["uid"] == held["metadata"]["uid"]
        assert lease["spec"]["acquireTime"] == held["spec"]["acquireTime"]
        assert ops.phase("a") == "Succeeded"

    def test_a_foreign_finalizer_keeps_the_object_but_not_the_node(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(2)
        ops.world.objects.patch(
            MAINTENANCES,
            "",
            "a",
            {"metadata": {"finalizers": ["foregroundDeleteNodeMaintenance", "test/other"]}},
        )
        ops.delete("a").run(5)
        found = ops.found("a")
        assert found is not None
        assert found["metadata"]["finalizers"] == ["test/other"]
        assert ops.marks("n0") == IN


class TestRefusals:
    """What the server refuses is told in the original's words, and tried again."""

    @pytest.mark.parametrize(
        ("given", "text"),
        [
            pytest.param({}, "no touching", id="the label comes first"),
            pytest.param({LABEL: "true"}, "patching node taints failed: no touching", id="then the taints"),
        ],
    )
    def test_of_the_node(self, ops: Maintenances, given: dict[str, str], text: str) -> None:
        ops.world.change(NODES, "n0", {"metadata": {"labels": given}})
        ops.refuses[Change, "Node"] = Refused(403, "no touching")
        ops.make("a", "n0").run(5)
        assert (ops.phase("a"), ops.status("a")["lastError"]) == ("Running", text)
        ops.refuses.clear()
        ops.run(60)
        assert (ops.phase("a"), ops.marks("n0")) == ("Succeeded", OUT)
        assert "lastError" not in ops.status("a")

    def test_of_what_somebody_has_undone(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5)
        ops.refuses[Change, "Node"] = Refused(403, "no touching")
        ops.world.change(NODES, "n0", {"spec": {"unschedulable": None}})
        ops.run(5)
        assert (ops.phase("a"), ops.status("a")["lastError"]) == ("Running", "patching node taints failed: no touching")
        ops.refuses.clear()
        ops.run(60)
        assert (ops.phase("a"), ops.marks("n0")) == ("Succeeded", OUT)

    def test_of_the_finalizer(self, ops: Maintenances) -> None:
        ops.refuses[Change, "NodeMaintenance"] = Refused(500, "failed calling webhook")
        ops.make("a", "n0").run(2)
        assert (ops.phase("a"), ops.status("a")["lastError"]) == ("", "failed calling webhook")
        ops.refuses.clear()
        ops.run(5)
        assert ops.phase("a") == "Succeeded"

    def test_of_the_owner_nothing_depends_on_it(self, ops: Maintenances) -> None:
        metadata = {"name": "a", "finalizers": ["foregroundDeleteNodeMaintenance"]}
        body = {"apiVersion": API_VERSION, "kind": "NodeMaintenance", "metadata": metadata, "spec": {"nodeName": "n0"}}
        ops.refuses[Change, "NodeMaintenance"] = Refused(500, "failed calling webhook")
        ops.world.objects.create(MAINTENANCES, body)
        ops.run(5)
        assert (ops.phase("a"), ops.marks("n0")) == ("Succeeded", OUT)
        ops.refuses.clear()
        ops.run(60)
        found = ops.found("a")
        assert found is not None
        assert [owner["name"] for owner in found["metadata"]["ownerReferences"]] == ["n0"]

    def test_of_the_last_word(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5)
        ops.refuses[Change, "NodeMaintenance"] = Refused(500, "failed calling webhook")
        ops.delete("a").run(5)
        assert (ops.status("a")["lastError"], ops.marks("n0")) == ("failed calling webhook", IN)
        ops.refuses.clear()
        ops.run(60)
        assert ops.found("a") is None
        assert reasons(ops).count("UncordonNode") == 1

    def test_at_the_end(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5)
        ops.refuses[Change, "Node"] = Refused(403, "no touching")
        ops.delete("a").run(5)
        assert ops.status("a")["lastError"] == "patching node taints failed: no touching"
        ops.refuses.clear()
        ops.run(60)
        assert (ops.found("a"), ops.marks("n0")) == (None, IN)

    def test_of_a_conflict_nothing_is_told(self, ops: Maintenances) -> None:
        ops.refuses[Change, "Node"] = Refused(409, "the object has been modified")
        ops.make("a", "n0").run(5)
        assert (ops.phase("a"), ops.status("a").get("lastError")) == ("Running", None)


class TestFixes:
    def test_f1_the_node_owns_it(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(1)
        found = ops.found("a")
        assert found is not None
        uid = ops.node("n0")["metadata"]["uid"]
        owner = {"apiVersion": "v1", "kind": "Node", "name": "n0", "uid": uid}
        assert found["metadata"]["ownerReferences"] == [{**owner, "controller": False, "blockOwnerDeletion": False}]

    def test_f3_success_is_told_once_and_a_kick_renews_the_lease(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(1)
        for number in range(3):
            lease = ops.lease("n0")
            assert lease is not None
            ops.run(2).kick("a", str(number)).run(1)
            renewed = ops.lease("n0")
            assert renewed is not None
            assert renewed["spec"]["renewTime"] > lease["spec"]["renewTime"]
            assert renewed["spec"]["acquireTime"] == lease["spec"]["acquireTime"]
            assert ops.status("a")["lastUpdate"] == wire_time(ops.now - timedelta(seconds=1))
        assert reasons(ops).count("SucceedMaintenance") == 1

    def test_f4_waiting_for_a_foreign_lease_counts_nothing(self, ops: Maintenances) -> None:
        ops.world.make(pod("p", app="p", nodeName="n0"))
        ops.put_lease("n0", "other")
        ops.make("a", "n0").run(5)
        ops.world.objects.delete(PODS, "default", "p")
        ops.run(60).kick("a", "1").run(60)
        status = ops.status("a")
        assert status["phase"] == "Running"
        assert status["lastError"] == f"failed to obtain a lease that is not owned by us : {HELD} errorOnLeaseCount 0"
        assert "errorOnLeaseCount" not in status
        assert ops.marks("n0") == IN

    def test_f5_and_g4_the_lease_is_renewed_for_as_long_as_the_maintenance_is_there(self) -> None:
        ops = Maintenances(options=options(lease_duration=timedelta(seconds=30)))
        ops.make("a", "n0").run(1)
        for _ in range(4):
            lease = ops.lease("n0")
            assert lease is not None
            ops.run(15)
            renewed = ops.lease("n0")
            assert renewed is not None
            assert renewed["spec"]["renewTime"] > lease["spec"]["renewTime"]
        assert ops.phase("a") == "Succeeded"

    def test_f7_and_f19_a_lost_lease_ends_it_once_and_not_too_soon(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(1)
        ops.put_lease("n0", "other")
        lost_at = ops.now
        ops.run(5)
        assert ops.phase("a") == "Succeeded"
        assert "incrementing error on lease count" in ops.status("a")["lastError"]
        ops.run(40)
        status = ops.status("a")
        assert status["phase"] == "Failed"
        assert status["lastError"] == "maintenance failed: lease could not be extended after 4 attempts"
        assert status["errorOnLeaseCount"] == 4
        assert ops.marks("n0") == IN
        lease = ops.lease("n0")
        assert lease is not None
        assert lease["spec"]["holderIdentity"] == "other"
        assert timedelta(seconds=6) <= ops.now - lost_at
        ops.world.change(NODES, "n0", {"spec": {"unschedulable": True}})
        ops.begin()
        ops.kick("a", "1").run(600)
        assert ops.marks("n0")[0], "what a person does to the node later is left alone"
        assert reasons(ops).count("FailedMaintenance") == 1

    def test_a_lease_that_comes_back_resets_the_count(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(1)
        ops.put_lease("n0", "other")
        ops.run(4)
        assert ops.status("a")["errorOnLeaseCount"] >= 1
        ops.put_lease("n0", "node-maintenance")
        ops.run(10)
        assert ops.phase("a") == "Succeeded"
        assert "errorOnLeaseCount" not in ops.status("a")

    def test_f8_a_second_one_for_the_node_is_refused_until_the_first_is_gone(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(2).make("b", "n0").run(2)
        assert ops.phase("b") == "Failed"
        assert ops.status("b")["lastError"] == "invalid nodeName, a NodeMaintenance for node n0 already exists"
        ops.delete("b").run(2)
        assert ops.found("b") is None
        assert ops.marks("n0") == OUT
        ops.make("b", "n0").run(2)
        ops.delete("a")
        ops.world.make(pod("q", nodeName="n0"))
        ops.run(5)
        assert (ops.phase("b"), ops.status("b")["evictionPods"]) == ("Succeeded", 1), "counted when it begins"
        assert ops.marks("n0") == OUT

    @pytest.mark.parametrize("how", ["released", "expired"])
    def test_f10_a_foreign_lease_is_taken_when_it_is_free(self, ops: Maintenances, how: str) -> None:
        ops.put_lease("n0", "other", seconds=60)
        ops.make("a", "n0").run(20)
        if how == "released":
            ops.world.objects.delete(LEASES, "medik8s-leases", "node-n0")
            ops.run(5)
        else:
            ops.run(45)
        assert ops.phase("a") == "Succeeded"
        lease = ops.lease("n0")
        assert lease is not None
        assert lease["spec"].get("leaseTransitions", 0) == (0 if how == "released" else 1)

    def test_a_lease_of_ours_that_arrives_after_all_is_over_goes(self, ops: Maintenances) -> None:
        """It arrives late, because it was given up and made again; or it stays because a client removed the finalizer."""
        ops.make("a", "n0").run(5).delete("a").run(1)
        ops.put_lease("n0", "node-maintenance", seen="abc")
        ops.put_lease("n1", "other")
        ops.run(1)
        assert ops.lease("n0") is None
        assert ops.lease("n1") is not None

    def test_a_lease_that_the_original_has_left_is_taken_over_as_it_is(self, ops: Maintenances) -> None:
        ops.put_lease("n0", "node-maintenance", renewed_ago=1800)
        ops.run(5)
        left = ops.lease("n0")
        assert left is not None
        ops.make("a", "n0").run(5)
        taken = ops.lease("n0")
        assert taken is not None
        assert taken["spec"]["acquireTime"] == left["spec"]["acquireTime"]
        assert taken["spec"]["renewTime"] > left["spec"]["renewTime"]

    def test_the_lease_of_a_marked_node_stays_while_maintenances_are_not_served(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5)
        ops.kernel.store.begin_list("", "NodeMaintenance")
        ops.kernel.store.end_list("", "NodeMaintenance", 0, future=True)
        ops.run(1)
        assert ops.lease("n0") is not None

    def test_f12_the_namespace_of_the_leases_is_made_again(self, ops: Maintenances) -> None:
        ops.world.objects.delete(NAMESPACES, "", "medik8s-leases")
        ops.run(1).make("a", "n0").run(10)
        assert ops.phase("a") == "Succeeded"
        assert "errorOnLeaseCount" not in ops.status("a")

    @pytest.mark.parametrize("holder", [LEASE_HOLDER, None])
    def test_a_lease_that_may_not_be_deleted_is_emptied(self, ops: Maintenances, holder: str | None) -> None:
        """The role that the original publishes does not allow to delete leases."""
        ops.refuses[Delete, "Lease"] = Refused(403, "cannot delete")
        ops.make("a", "n0").run(5)
        spec = {"spec": {"holderIdentity": holder}}
        ops.delete("a").world.objects.patch(LEASES, "medik8s-leases", "node-n0", spec)
        ops.run(10)
        assert (ops.marks("n0"), ops.found("a")) == (IN, None)
        lease = ops.lease("n0")
        assert lease is not None
        assert not {"holderIdentity", "renewTime"} & lease["spec"].keys()
        assert ops.tried.count((Delete, "Lease")) == 1
        ops.make("b", "n0").run(5)
        taken = ops.lease("n0")
        assert taken is not None
        assert (ops.phase("b"), taken["spec"]["holderIdentity"]) == ("Succeeded", LEASE_HOLDER)

    def test_another_refusal_to_delete_a_lease_is_reported(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5)
        ops.refuses[Delete, "Lease"] = Refused(500, "no leader")
        ops.delete("a").run(5)
        assert ops.status("a")["lastError"] == "no leader"
        ops.refuses.clear()
        ops.run(60)
        assert ops.marks("n0") == IN

    def test_f12_a_namespace_that_exists_is_not_made_again_and_again(self, ops: Maintenances) -> None:
        ops.refuses[Create, "Lease"] = Refused(404, 'namespaces "medik8s-leases" not found')
        ops.make("a", "n0").run(2)
        assert "errorOnLeaseCount" not in ops.status("a"), "not before the namespace has been tried"
        ops.run(2)
        assert ops.status("a")["lastError"] == 'namespaces "medik8s-leases" not found'
        ops.run(40)
        status = ops.status("a")
        assert (status["phase"], status["errorOnLeaseCount"]) == ("Failed", 4)
        assert ops.tried.count((Create, "Namespace")) < ops.tried.count((Create, "Lease")) == 5

    def test_a_lease_that_is_had_at_last_leaves_no_trace_of_the_refusals(self, ops: Maintenances) -> None:
        name = blocked(ops)
        ops.refuses[Change, "Lease"] = Refused(500, "no leader")
        ops.kick("a", "1").run(1)
        status = ops.status("a")
        assert (status["lastError"], status["errorOnLeaseCount"]) == ("no leader", 1)
        ops.refuses.clear()
        counted_at = datetime.fromisoformat(status["lastUpdate"])
        ops.driver.run(counted_at + timedelta(seconds=30.5))
        assert "errorOnLeaseCount" not in ops.status("a"), "a pass has ended"
        ops.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 2}})
        ops.run(1)
        assert leaving(ops) == [name], "nothing is put off any more"

    def test_a_lease_that_goes_just_before_it_is_renewed_is_made_anew(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5)
        ops.refuses[Change, "Lease"] = Refused(404, 'leases.coordination.k8s.io "node-n0" not found')
        ops.world.objects.delete(LEASES, "medik8s-leases", "node-n0")
        ops.put_lease("n0", "node-maintenance")
        ops.run(0.5)
        ops.world.objects.delete(LEASES, "medik8s-leases", "node-n0")
        ops.run(2)
        assert ops.lease("n0") is not None
        assert "errorOnLeaseCount" not in ops.status("a")
        assert (Create, "Namespace") not in ops.tried

    def test_f14_an_empty_name_is_refused_and_can_be_deleted(self, ops: Maintenances) -> None:
        ops.world.make(pod("unscheduled", nodeSelector={"no": "such"}))
        ops.make("a", "").run(2)
        assert (ops.phase("a"), ops.status("a")["lastError"]) == (
            "Failed",
            "invalid nodeName, no node with name  found",
        )
        assert "pendingPods" not in ops.status("a")
        ops.delete("a").run(1)
        assert ops.found("a") is None

    def test_f17_who_never_began_undoes_nothing(self, ops: Maintenances) -> None:
        ops.put_lease("n0", "other")
        ops.world.change(NODES, "n0", {"spec": {"unschedulable": True}})
        ops.make("a", "n0").run(5).delete("a").run(2)
        assert ops.found("a") is None
        assert ops.marks("n0")[0], "somebody else's cordon stays"
        assert "UncordonNode" not in reasons(ops)


class TestBeyond:
    def test_g1_several_go_on_side_by_side(self) -> None:
        ops = Maintenances()
        ops.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
        ops.run(30)
        for number in range(3):
            ops.make(f"m{number}", f"n{number}")
        ops.run(10)
        assert [ops.marks(f"n{number}") for number in range(3)] == [OUT] * 3
        assert {ops.phase(f"m{number}") for number in range(3)} == {"Running"}

    def test_g1_as_many_at_once_as_are_allowed(self) -> None:
        ops = Maintenances(options=options(max_concurrent_maintenances=1))
        ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1))
        ops.run(10).make("m0", "n0").run(3).make("m1", "n1").run(5)
        assert ops.marks("n1") == IN
        assert "maintenances at work" in ops.status("m1")["lastError"]
        ops.world.objects.delete(DISRUPTION_BUDGETS, "default", "p")
        ops.run(10)
        assert (ops.phase("m0"), ops.phase("m1")) == ("Succeeded", "Succeeded")

    def test_g1_one_with_an_unreadable_pod_selector_counts_while_it_holds_its_node(self) -> None:
        ops = Maintenances(options=options(max_concurrent_maintenances=1))
        ops.run(10).make("m0", "n0", podSelector="a in").run(5).make("m1", "n1").run(10)
        assert (ops.marks("n0"), ops.marks("n1")) == (OUT, IN)
        ops.begin().run(10)
        assert (ops.marks("n0"), ops.marks("n1")) == (OUT, IN), "after a restart, too"
        ops.delete("m0").run(10)
        assert (ops.marks("n0"), ops.phase("m1")) == (IN, "Succeeded")

    def test_g1_one_past_its_deadline_counts_while_it_holds_its_node(self) -> None:
        ops = Maintenances(options=options(max_concurrent_maintenances=1))
        ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1))
        ops.run(10).make("m0", "n0", deadlineSeconds=5).run(30)
        assert ops.phase("m0") == "Failed"
        ops.make("m1", "n1").run(10)
        assert (ops.marks("n0"), ops.marks("n1")) == (OUT, IN)

    def test_g1_one_whose_node_was_uncordoned_by_hand_counts_until_it_is_cordoned_again(self) -> None:
        ops = Maintenances(options=options(max_concurrent_maintenances=1))
        ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1))
        ops.run(10).make("m0", "n0").run(5).make("m1", "n1").run(5)
        ops.refuses[Change, "Node"] = Refused(403, "no touching")
        ops.world.change(NODES, "n0", {"spec": {"unschedulable": None}})
        ops.run(30)
        assert "no touching" in ops.status("m0")["lastError"]
        assert "maintenances at work" in ops.status("m1")["lastError"]

    def test_g1_one_that_has_lost_its_lease_counts_while_it_holds_its_node(self) -> None:
        ops = Maintenances(options=options(max_concurrent_maintenances=1))
        ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1))
        ops.run(10).make("m0", "n0").run(5).make("m1", "n1").run(5)
        ops.put_lease("n0", "other")
        ops.run(2)
        assert (ops.marks("n0"), ops.marks("n1")) == (OUT, IN)

    def test_g1_one_that_waits_is_not_written_for_the_pods_that_others_bring_to_its_node(self) -> None:
        ops = Maintenances(options=options(max_concurrent_maintenances=1))
        ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1), pod("early", nodeName="n1"))
        ops.run(10).make("m0", "n0").run(3).make("a", "n1").run(5)
        assert ops.status("a")["pendingPods"] == ["early"]
        before = version_of(ops)
        ops.world.make(pod("late", nodeName="n1"))
        ops.run(10)
        assert version_of(ops) == before
        ops.world.objects.delete(DISRUPTION_BUDGETS, "default", "p")
        ops.run(10)
        assert (ops.phase("a"), ops.pods("n1")) == ("Succeeded", [])

    def test_g2_deletion_ends_a_blocked_drain_at_once(self, ops: Maintenances) -> None:
        name = blocked(ops)
        ops.delete("a").run(1)
        assert (ops.found("a"), ops.marks("n0")) == (None, IN)
        ops.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 1}})
        ops.run(60)
        assert ops.pods("n0") == [name]

    def test_g3_what_somebody_undoes_is_done_again(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(2)
        ops.world.change(NODES, "n0", {"spec": {"unschedulable": None}})
        ops.run(2)
        assert ops.marks("n0") == OUT
        ops.world.change(NODES, "n0", {"spec": {"taints": None}})
        ops.run(2)
        assert ops.marks("n0") == OUT

    def test_g3_a_new_pod_is_evicted(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(2)
        ops.world.make(pod("late", nodeName="n0")).run(10)
        seen = [ops.run(0.5).phase("a") for _ in range(20)]
        assert ops.pods("n0") == []
        assert (seen[0], seen[-1]) == ("Running", "Succeeded")

    def test_g5_a_drain_that_must_not_begin_evicts_nothing(self, ops: Maintenances) -> None:
        ops.world.make(pod("bare", nodeName="n0"), deployment("web", replicas=3))
        ops.run(10).make("a", "n0", force=False).run(5)
        assert ops.status("a")["lastError"] == (
            "cannot delete cannot delete Pods that declare no controller (use --force to override): default/bare"
        )
        assert len(ops.pods("n0")) == 2
        assert not [line for line in ops.said if line.startswith("evicting")]

    def test_g5_a_pod_that_does_not_end_is_waited_for_no_longer_than_asked(self, ops: Maintenances) -> None:
        ops.world.make(pod("p", nodeName="n0"))
        ops.world.change(PODS, "p", {"metadata": {"finalizers": ["test/stays"]}})
        ops.run(10).make("a", "n0", skipWaitForDeleteTimeoutSeconds=4).run(3)
        assert ops.phase("a") == "Running"
        ops.run(6)
        assert (ops.phase("a"), ops.pods("n0")) == ("Succeeded", ["p"])

    def test_g5_pods_that_are_deleted_are_told_of_as_deleted(self, ops: Maintenances) -> None:
        name = blocked(ops)
        ops.delete("a").run(2).said.clear()
        ops.make("b", "n0", disableEviction=True).run(10)
        assert ops.phase("b") == "Succeeded"
        assert ops.said == [f"pod: default:{name} Deleted from node: n0"]

    def test_g5_pods_that_are_deleted_are_not_named_when_time_is_up(self, ops: Maintenances) -> None:
        ops.world.make(pod("p", nodeName="n0"))
        ops.world.change(PODS, "p", {"metadata": {"finalizers": ["test/stays"]}})
        ops.run(10).make("a", "n0", disableEviction=True, timeoutSeconds=5).run(8)
        assert ops.status("a")["lastError"] == "context deadline exceeded"

    def test_g6_blocked_pods_are_shown_with_their_reason(self, ops: Maintenances) -> None:
        name = blocked(ops)
        ops.run(2)
        (shown,) = ops.status("a")["blockedPods"]
        assert (shown["name"], shown["reason"]) == (name, "DisruptionBudget")
        assert "default/web" in shown["message"]
        assert ops.conditions("a") == {"Cordoned": "True", "LeaseHeld": "True", "Drained": "False", "Blocked": "True"}

    @pytest.mark.parametrize("alone", [True, False])
    def test_g6_the_end_of_the_last_grace_period_rides_on_other_writes(self, alone: bool) -> None:
        """K9: it only says when. A status that differs in nothing else is not written for it."""
        ops = Maintenances(options=options(alone=alone))
        slow = pod("slow", nodeName="n0", terminationGracePeriodSeconds=600)
        slow["metadata"]["finalizers"] = ["test.haulout.dev/stays"]
        ops.world.make(slow)
        ops.run(5).world.actors.kill_kubelet("n0")
        ops.make("a", "n0").run(10)
        ends_at = ops.world.get(PODS, "slow")["metadata"]["deletionTimestamp"]
        assert drained_message(ops) == f"the last grace period ends {ends_at}"
        # A shorter grace period moves the end, and of a pod with finalizers nothing else that the status says.
        version = version_of(ops)
        ops.world.objects.delete(PODS, "default", "slow", grace=20)
        ops.run(3)
        shorter = ops.world.get(PODS, "slow")["metadata"]["deletionTimestamp"]
        assert shorter < ends_at
        assert version_of(ops) == version
        ops.run(30)
        assert drained_message(ops) == f"the last grace period ends {shorter}", "written when a pass ended"
        ops.world.change(PODS, "slow", {"metadata": {"finalizers": None}})
        ops.world.objects.delete(PODS, "default", "slow", grace=0)
        ops.run(10)
        assert (ops.phase("a"), drained_message(ops)) == ("Succeeded", "")

    def test_g6_a_lease_that_somebody_else_holds_is_shown(self, ops: Maintenances) -> None:
        ops.put_lease("n0", "other")
        ops.make("a", "n0").run(1)
        (shown,) = ops.status("a")["conditions"]
        assert (shown["type"], shown["status"], shown["message"]) == ("LeaseHeld", "False", HELD)
        ops.put_lease("n0", "other", renewed_ago=4000)
        ops.run(5)
        assert ops.conditions("a")["LeaseHeld"] == "True"

    def test_g6_one_that_has_let_go_shows_that(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(1)
        ops.put_lease("n0", "other")
        ops.run(1)
        assert ops.conditions("a") == {"Cordoned": "True", "LeaseHeld": "False", "Drained": "True", "Blocked": "False"}
        ops.run(40)
        assert ops.phase("a") == "Failed"
        assert set(ops.conditions("a").values()) == {"False"}

    def test_g7_after_the_deadline_it_fails_and_the_node_stays_cordoned(self, ops: Maintenances) -> None:
        ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1))
        ops.run(10).make("a", "n0", deadlineSeconds=20).run(40)
        assert ops.phase("a") == "Failed"
        assert ops.status("a")["lastError"].startswith("the drain did not end within 20s: error when evicting pods")
        assert ops.marks("n0") == OUT
        ops.world.objects.delete(DISRUPTION_BUDGETS, "default", "p")
        ops.run(60)
        assert ops.pods("n0") == ["p"]

    def test_g7_after_the_deadline_pods_are_deleted_where_that_was_asked_for(self, ops: Maintenances) -> None:
        ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1))
        ops.run(10).make("a", "n0", deadlineSeconds=20, deadlineAction="ForceDelete").run(15)
        assert ops.pods("n0") == ["p"]
        ops.run(15)
        assert (ops.pods("n0"), ops.phase("a")) == ([], "Succeeded")

    @pytest.mark.parametrize("restore", [True, False])
    def test_g8_a_node_that_was_cordoned_before(self, restore: bool) -> None:
        ops = Maintenances(options=options(restore_node_state=restore))
        label = "remediation.medik8s.io/exclude-from-remediation"
        ops.world.change(NODES, "n0", {"spec": {"unschedulable": True}, "metadata": {"labels": {label: "maybe"}}})
        ops.make("a", "n0").run(2).delete("a").run(2)
        assert ops.marks("n0")[0] is restore
        assert ops.marks("n0")[2] == ("maybe" if restore else None)
        assert "haulout.dev/cordon" not in ops.node("n0")["metadata"].get("annotations", {})

    def test_g14_the_node_shows_it_where_asked_for(self) -> None:
        ops = Maintenances(options=options(node_conditions=True))
        ops.world.make(deployment("web", replicas=3))
        ops.run(30).make("a", "n0").run(1)
        assert shown(ops, "n0") == {"DrainInProgress": "True", "Drained": "False", "MaintenanceInProgress": "False"}
        ops.run(10)
        assert shown(ops, "n0") == {"DrainInProgress": "False", "Drained": "True", "MaintenanceInProgress": "True"}
        ops.delete("a").run(2)
        assert shown(ops, "n0") == {}
        assert condition_of(ops.node("n0"), "Ready") == "True", "those of others stay"

    def test_g17_our_own_pod_goes_last(self) -> None:
        ops = Maintenances(options=options(own_pods=selector.parse("app=operator")))
        ops.world.make(pod("own", app="operator", nodeName="n0"), pod("other", nodeName="n0"))
        ops.run(10).make("a", "n0").run(1)
        assert leaving(ops) == ["other"]
        ops.run(10)
        assert ops.phase("a") == "Succeeded"

    def test_g19_pods_of_a_lost_node_are_not_waited_for_too_long(self) -> None:
        ops = Maintenances(options=options(skip_unreachable_after=timedelta(minutes=5)))
        ops.world.make(deployment("web", replicas=3))
        ops.run(30)
        ops.world.actors.kill_kubelet("n0")
        ops.run(120).make("a", "n0").run(60)
        assert ops.phase("a") == "Running"
        ops.run(600)
        assert ops.phase("a") == "Succeeded"
        (left,) = ops.pods("n0")
        assert ops.conditions("a")["Drained"] == "True"
        assert drained_message(ops) == f"no longer waited for: default/{left}"

    def test_g15_eviction_requests_where_the_cluster_knows_them(self) -> None:
        requests = Resource("lifecycle.k8s.io", "v1alpha1", "evictionrequests")
        world = World(QUICK, nodes=3)
        world.objects.create(DEFINITIONS, definition("EvictionRequest", *requests[:2], namespaced=True))
        ops = Maintenances(world, options(eviction_backend="evictionrequest"))
        world.make(deployment("web", replicas=3))
        ops.run(30).make("a", "n0").run(5)
        (pod_name,) = ops.pods("n0")
        (request,) = world.objects.list(requests)
        assert request["spec"]["target"]["pod"]["name"] == pod_name
        assert (request["spec"]["requesterName"], request["spec"]["intent"]) == ("haulout.dev/drain", "Eviction")
        ops.delete("a").run(5)
        (request,) = world.objects.list(requests)
        assert request["spec"]["intent"] == "Withdrawn"
        assert ops.pods("n0") == [pod_name]
        ops.make("b", "n0").run(5)
        world.objects.delete(PODS, "default", pod_name)
        ops.run(10)
        assert ops.phase("b") == "Succeeded"
        assert len(world.objects.list(requests)) == 1

    def test_g16_lower_priorities_go_first(self) -> None:
        ops = Maintenances(options=options(priority_order=True))
        ops.world.make(pod("high", nodeName="n0", priority=10), pod("low", nodeName="n0", priority=1))
        ops.run(10).make("a", "n0").run(1)
        assert leaving(ops) == ["low"]
        ops.run(10)
        assert ops.phase("a") == "Succeeded"

    def test_g18_a_preview_touches_nothing(self, ops: Maintenances) -> None:
        ops.world.make(deployment("web", replicas=3))
        ops.run(30).make("a", "n0", dryRun=True).run(5)
        assert ops.status("a")["pendingPods"] == ops.pods("n0")
        assert (ops.marks("n0"), ops.lease("n0")) == (IN, None)
        ops.delete("a").run(1)
        assert ops.found("a") is None

    def test_g18_a_preview_shows_what_would_be_in_the_way(self, ops: Maintenances) -> None:
        ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1), pod("free", nodeName="n0"))
        ops.run(10).make("a", "n0", dryRun=True).run(1)
        (shown,) = ops.status("a")["blockedPods"]
        assert (shown["name"], shown["reason"]) == ("p", "DisruptionBudget")
        ops.world.objects.delete(DISRUPTION_BUDGETS, "default", "p")
        ops.run(1)
        assert "blockedPods" not in ops.status("a")

    def test_g18_the_end_of_a_preview_undoes_nothing(self, ops: Maintenances) -> None:
        ops.world.change(NODES, "n0", {"spec": {"unschedulable": True}, "metadata": {"labels": {LABEL: "true"}}})
        ops.put_lease("n0", "node-maintenance")
        ops.make("a", "n0", dryRun=True).run(1).delete("a").run(1)
        assert ops.found("a") is None
        assert (ops.marks("n0")[0], ops.marks("n0")[2]) == (True, "true")
        assert ops.lease("n0") is not None

    def test_pods_that_cluster_api_waits_for_are_waited_for(self) -> None:
        ops = Maintenances(options=options(rules=PodRules(cluster_api_label=True)))
        ops.world.change(NODES, "n0", {"metadata": {"annotations": {"cluster.x-k8s.io/cluster-name": "alpha"}}})
        job = pod("job", nodeName="n0", restartPolicy="Never")
        job["metadata"]["labels"] = {"cluster.x-k8s.io/drain": "wait-completed"}
        ops.world.make(job)
        ops.run(10).make("a", "n0").run(60)
        assert (ops.phase("a"), ops.pods("n0")) == ("Running", ["job"])
        ops.world.objects.patch(PODS, "default", "job", {"status": {"phase": "Succeeded"}}, subresource="status")
        ops.run(10)
        assert (ops.phase("a"), ops.pods("n0")) == ("Succeeded", ["job"])

    def test_rules_for_pods_come_first(self) -> None:
        rules = PodRules((Rule(Act.IGNORE, namespaces=frozenset({"default"})),))
        ops = Maintenances(options=options(rules=rules))
        ops.world.make(deployment("web", replicas=3))
        ops.run(30).make("a", "n0").run(5)
        assert ops.phase("a") == "Succeeded"
        assert len(ops.pods("n0")) == 1
