"""NodeMaintenances with two events at once: two failures, a change of the wish, or a change of the operator."""

from __future__ import annotations

from datetime import datetime

import pytest

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core import cordon
from haulout.core.action import Create, Delete, Evict, KeepCordoned, Release
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Claim, Want, is_granted
from haulout.embedded import DISRUPTION_BUDGETS, NODES
from haulout.kernel.requests import Change, Refused
from haulout.surfaces.nodemaintenance.options import Options
from tests.build.maintenances import MAINTENANCES, Maintenances, options
from tests.build.workloads import budget, pod

OUT = (True, ["node.kubernetes.io/unschedulable", "medik8s.io/drain"], "true")
IN: tuple[bool, list[str], str | None] = (False, [], None)
LABEL = "remediation.medik8s.io/exclude-from-remediation"
LEDGER = "haulout.dev/cordon"
RUN = Options(alone=False, restore_node_state=True)


@pytest.fixture
def ops() -> Maintenances:
    return Maintenances()


def stuck(ops: Maintenances, **drain: int) -> Maintenances:
    """Create a maintenance whose only pod is kept by its budget."""
    ops.world.make(pod("p", app="p", nodeName="n0"), budget("p", minAvailable=1))
    return ops.run(10).make("a", "n0", **drain)


def switched(ops: Maintenances, other: Options) -> Maintenances:
    """Start another operator, with other options."""
    ops.options = other
    return ops.begin()


def notes(ops: Maintenances, node: str = "n0") -> dict[str, str]:
    found: dict[str, str] = ops.node(node)["metadata"].get("annotations", {})
    return found


class TestLeases:
    def test_one_that_has_missed_its_deadline_lets_the_node_go_when_it_loses_the_lease(self, ops: Maintenances) -> None:
        stuck(ops, deadlineSeconds=20).run(40)
        assert (ops.phase("a"), ops.marks("n0")) == ("Failed", OUT)
        ops.put_lease("n0", "other")
        ops.run(30)
        assert ops.status("a")["lastError"] == "maintenance failed: lease could not be extended after 4 attempts"
        assert (ops.phase("a"), ops.marks("n0")) == ("Failed", IN)

    def test_one_that_has_missed_its_deadline_evicts_nothing_after_the_lease_was_away(self, ops: Maintenances) -> None:
        stuck(ops, deadlineSeconds=20).run(40)
        ops.put_lease("n0", "other")
        ops.run(4)
        ops.world.objects.delete(DISRUPTION_BUDGETS, "default", "p")
        ops.put_lease("n0", "node-maintenance")
        ops.run(60)
        assert ops.status("a")["lastError"].startswith("the drain did not end within 20s")
        assert (ops.phase("a"), ops.pods("n0"), ops.marks("n0")) == ("Failed", ["p"], OUT)

    def test_losses_with_the_lease_in_hand_between_them_are_not_added_up(self, ops: Maintenances) -> None:
        stuck(ops).run(33)
        for _ in range(3):
            ops.put_lease("n0", "other")
            ops.run(4)
            assert ops.status("a")["errorOnLeaseCount"] == 2
            ops.put_lease("n0", "node-maintenance")
            ops.run(4)
            assert "errorOnLeaseCount" not in ops.status("a")
        assert (ops.phase("a"), ops.marks("n0")) == ("Running", OUT)

    def test_one_whose_node_has_come_and_whose_lease_is_not_free_runs(self, ops: Maintenances) -> None:
        ops.put_lease("late", "other")
        ops.make("a", "late").run(3)
        assert ops.phase("a") == "Failed"
        ops.world.objects.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "late"}})
        ops.run(3)
        assert ops.phase("a") == "Running"
        assert ops.status("a")["lastError"].startswith("failed to obtain a lease that is not owned by us")

    def test_what_was_done_stays_done_when_the_lease_is_lost(self, ops: Maintenances) -> None:
        ops.world.make(pod("p", nodeName="n0"))
        ops.run(5).make("a", "n0").run(15)
        ops.put_lease("n0", "other")
        ops.run(4)
        status = ops.status("a")
        assert (status["phase"], status["drainProgress"], status["errorOnLeaseCount"]) == ("Succeeded", 100, 2)


def test_f6_one_that_runs_again_is_not_at_its_end(ops: Maintenances) -> None:
    ops.make("a", "n0").run(5)
    ops.refuses[Evict, "Pod"] = Refused(500, "not now")
    ops.world.make(pod("late", nodeName="n0"))
    ops.run(5)
    assert (ops.phase("a"), ops.status("a")["drainProgress"]) == ("Running", 99)


def test_f8_one_that_is_refused_after_it_had_begun_holds_nothing(ops: Maintenances) -> None:
    """Created in the same second, the smaller name is the older one."""
    ops.make("b", "n0").run(0.2).make("a", "n0").run(5)
    assert (ops.phase("b"), set(ops.conditions("b").values())) == ("Failed", {"False"})
    ops.delete("a").run(5)
    assert (ops.phase("b"), ops.marks("n0")) == ("Succeeded", OUT)


def test_g18_one_that_becomes_a_preview_after_it_has_begun_undoes_what_it_did() -> None:
    ops = Maintenances(options=RUN).make("a", "n0").run(5)
    ops.world.objects.patch(MAINTENANCES, "", "a", {"spec": {"drain": {"dryRun": True}}})
    ops.run(1)
    ops.world.change(NODES, "n0", {"spec": {"taints": None}})
    ops.run(1).delete("a").run(5)
    assert (ops.found("a"), ops.marks("n0"), ops.lease("n0")) == (None, IN, None)
    assert LEDGER not in notes(ops)


class TestRestoring:
    @pytest.mark.parametrize("restore", [True, False])
    def test_a_maintenance_that_the_original_has_begun(self, ops: Maintenances, restore: bool) -> None:
        """What was before it is not known: it ends as the original would end it."""
        ops.make("a", "n0").run(5)
        switched(ops, Options(alone=False, restore_node_state=restore)).run(5).delete("a").run(5)
        assert (ops.found("a"), ops.marks("n0")) == (None, IN)
        assert LEDGER not in notes(ops)

    def test_a_maintenance_that_the_original_has_left_in_its_end(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5)
        ops.delete("a")
        switched(ops, RUN).run(5)
        assert (ops.found("a"), ops.marks("n0")) == (None, IN)

    @pytest.mark.parametrize("alone", [True, False])
    def test_asked_for_in_the_middle(self, alone: bool) -> None:
        ops = Maintenances(options=Options(alone=alone)).make("a", "n0").run(5)
        ops.world.objects.patch(MAINTENANCES, "", "a", {"spec": {"drain": {"restoreNodeState": True}}})
        ops.run(5).delete("a").run(5)
        assert ops.marks("n0") == IN

    @pytest.mark.parametrize("before", [options(restore_node_state=True), RUN, Options(alone=False)])
    def test_not_asked_for_any_more(self, before: Options) -> None:
        ops = Maintenances(options=before)
        ops.world.change(NODES, "n0", {"spec": {"unschedulable": True}})
        ops.make("a", "n0").run(5)
        switched(ops, Options()).delete("a").run(5)
        assert ops.marks("n0") == IN
        assert LEDGER not in notes(ops), "nobody shall restore by it later"

    def test_a_label_that_was_there_before_stays_whatever_goes_wrong_at_the_end(self) -> None:
        ops = Maintenances(options=options(restore_node_state=True))
        ops.world.change(NODES, "n0", {"metadata": {"labels": {LABEL: "true"}}})
        ops.make("a", "n0").run(5)
        ops.refuses[Delete, "Lease"] = Refused(500, "not now")
        ops.delete("a").run(5)
        ops.refuses.clear()
        ops.begin().run(60)
        assert (ops.found("a"), ops.marks("n0")) == (None, (False, [], "true"))


def _cordons(key: Key, view: View, now: datetime) -> Decision:
    """Keep n0 cordoned as another surface whose object says so."""
    if key.name != "n0":
        return NOTHING
    return Decision(claims=(Claim(key, key, frozenset({Want.CORDON}), begun=True),))


class TestBesideAnotherSurface:
    @pytest.fixture
    def ops(self) -> Maintenances:
        return Maintenances(None, RUN, Decider("other", "Node", _cordons), turns=True)

    def test_a_node_that_stays_cordoned_is_not_told_to_be_uncordoned(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5).delete("a").run(5)
        assert ops.found("a") is None
        assert ops.marks("n0") == (True, ["node.kubernetes.io/unschedulable"], None)
        assert [reason for reason, _ in ops.told] == ["BeginMaintenance", "SucceedMaintenance", "RemovedMaintenance"]

    def test_each_maintenance_puts_back_the_label_that_it_found(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5).delete("a").run(5)
        ops.world.change(NODES, "n0", {"metadata": {"labels": {LABEL: "maybe"}}})
        ops.make("b", "n0").run(5).delete("b").run(5)
        assert ops.marks("n0")[2] == "maybe"


WANTED = "example.com/wanted"


def _lets_go(key: Key, view: View, now: datetime) -> Decision:
    """Cordon a node as another surface while its label asks for it, and release it afterwards."""
    node = view.get(key, NodeRow)
    assert node is not None
    stood = cordon.ledger(node)
    noted = stood is not None and "other" in stood.by
    claim = Claim(key, key, frozenset({Want.CORDON}), begun=noted)
    if WANTED in node.labels:
        may_cordon = noted or is_granted(view, "other", claim)
        return Decision(((KeepCordoned(key, "other"),),) if may_cordon else (), claims=(claim,))
    return Decision(((Release(key, "other"),),), claims=(claim,)) if noted else NOTHING


@pytest.mark.parametrize("restarts", [True, False])
def test_of_two_that_let_go_at_once_neither_leaves_the_cordon_to_the_other(restarts: bool) -> None:
    other = Decider("other", "Node", _lets_go)
    ops = Maintenances(None, RUN, other, turns=True).make("a", "n0").run(2)
    ops.world.change(NODES, "n0", {"metadata": {"labels": {WANTED: "yes"}}})
    ops.run(5)
    assert '"by":["other"]' in notes(ops)[LEDGER]
    ops.world.change(NODES, "n0", {"metadata": {"labels": {WANTED: None}}})
    ops.delete("a")
    running = ops.begin(other, turns=True) if restarts else ops
    running.run(5)
    assert (ops.found("a"), ops.marks("n0")) == (None, IN)
    assert LEDGER not in notes(ops)


class TestAPodSelectorThatCannotBeRead:
    def test_holds_the_node_and_evicts_nothing(self, ops: Maintenances) -> None:
        ops.world.make(pod("p", nodeName="n0"))
        ops.run(5).make("a", "n0", podSelector="(((").run(10)
        status = ops.status("a")
        assert (status["phase"], status["evictionPods"], ops.marks("n0"), ops.pods("n0")) == ("Running", 1, OUT, ["p"])
        assert status["lastError"].startswith("spec.drain.podSelector: ")
        assert ops.conditions("a") == {"Cordoned": "True", "LeaseHeld": "True", "Drained": "False", "Blocked": "True"}
        ops.world.objects.patch(MAINTENANCES, "", "a", {"spec": {"drain": None}})
        ops.run(10)
        assert (ops.phase("a"), ops.pods("n0"), ops.status("a").get("lastError")) == ("Succeeded", [], None)

    def test_does_not_cost_a_maintenance_its_lease(self, ops: Maintenances) -> None:
        ops.make("a", "n0").run(5)
        ops.world.objects.patch(MAINTENANCES, "", "a", {"spec": {"drain": {"podSelector": "((("}}})
        ops.run(5)
        assert (ops.phase("a"), ops.status("a")["drainProgress"]) == ("Running", 99)
        before = ops.lease("n0")
        ops.run(3600)
        after = ops.lease("n0")
        assert before is not None
        assert after is not None
        assert before["spec"]["renewTime"] < after["spec"]["renewTime"]
        ops.delete("a").run(5)
        assert (ops.found("a"), ops.marks("n0"), ops.lease("n0")) == (None, IN, None)

    def test_previews_nothing(self, ops: Maintenances) -> None:
        ops.make("a", "n0", podSelector="(((", dryRun=True).run(5)
        assert ops.status("a")["lastError"].startswith("spec.drain.podSelector: ")
        assert (ops.marks("n0"), ops.lease("n0")) == (IN, None)


def test_its_own_object_is_written_twice_before_the_node_is_touched() -> None:
    ops = Maintenances(None, RUN, together=True).make("a", "n0").run(5)
    writes = [(kind, name) for kind, name in ops.tried if kind in (Change, Create)]
    assert writes[: writes.index((Change, "Node"))] == [
        (Change, "NodeMaintenance"),
        (Change, "NodeMaintenance/status"),
        (Create, "Lease"),
    ]
    found = ops.found("a")
    assert found is not None
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("Node", "n0")
