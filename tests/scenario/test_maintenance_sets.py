"""NodeMaintenanceSets in virtual time: a few nodes at a time, pause, start, cancel, and nodes that cannot be drained."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from haulout.cluster.project import Keep, Projector
from haulout.core.action import Create
from haulout.core.pause import ANNOTATION
from haulout.kernel.requests import Refused
from haulout.model.meta import ManagedMeta, wire_time
from haulout.surfaces.nodemaintenance.sets.wire import RESOURCE, NodeMaintenanceSet
from tests.build.all_surfaces import NODE_BUDGETS
from tests.build.maintenance_sets import SETS, MaintenanceSets
from tests.build.workloads import budget, pod

NODES = ("n0", "n1", "n2", "n3")


def test_a_roll_takes_a_few_nodes_at_a_time() -> None:
    ops = MaintenanceSets().roll("r", *NODES, reason="firmware").run(5)
    assert ops.at_work() == ["n0", "n1"]
    assert ops.maintenances()[0]["spec"]["reason"] == "firmware"
    status = ops.set_status("r")
    assert (status["phase"], status["total"], status["waiting"], status["inMaintenance"]) == ("Running", 4, 2, 2)
    ops.go(12)
    status = ops.set_status("r")
    assert status["nodes"] == dict.fromkeys(NODES, "Done")
    assert (status["phase"], status["done"], status["waiting"]) == ("Completed", 4, 0)
    assert (ops.most_at_once, ops.twice, ops.made) == (2, set(), list(NODES))
    assert [ops.marks(name)[0] for name in NODES] == [False] * 4


def test_nothing_begins_before_its_time() -> None:
    ops = MaintenanceSets()
    ops.roll("r", *NODES, startAt=wire_time(ops.now + timedelta(minutes=10))).run(590)
    assert (ops.at_work(), ops.set_status("r")["phase"]) == ([], "Pending")
    ops.run(20)
    assert ops.at_work() == ["n0", "n1"]


def test_a_paused_roll_begins_no_further_node() -> None:
    ops = MaintenanceSets().roll("r", *NODES).run(5)
    ops.change("r", paused=True)
    ops.go(4)
    assert (ops.at_work(), ops.set_status("r")["phase"]) == ([], "Paused")
    ops.change("r", paused=False)
    ops.go(8)
    assert ops.set_status("r")["phase"] == "Completed"


def test_a_roll_that_a_person_has_paused_begins_no_further_node() -> None:
    ops = MaintenanceSets().roll("r", *NODES).run(5)
    ops.world.objects.patch(SETS, "", "r", {"metadata": {"annotations": {ANNOTATION: "audit"}}})
    ops.go(4)
    assert (ops.at_work(), ops.set_status("r")["phase"]) == ([], "Paused")
    assert ops.set_status("r")["nodes"] == {"n0": "Done", "n1": "Done"}
    ops.world.objects.patch(SETS, "", "r", {"metadata": {"annotations": {ANNOTATION: None}}})
    ops.go(8)
    assert ops.set_status("r")["phase"] == "Completed"


def test_a_node_is_set_aside_and_given_back_while_all_nodes_are_paused() -> None:
    ops = MaintenanceSets()
    ops.begin(together=True)
    ops.world.make(budget("stuck", maxUnavailable=0), pod("stuck", nodeName="n0"))
    ops.run(5).roll("r", *NODES, most=1, setAsideAfter="10m").run(5)
    assert ops.at_work() == ["n0"]
    spec = {"paused": {"reason": "audit"}}
    body = {
        "apiVersion": "haulout.dev/v1alpha1",
        "kind": "NodeDisruptionBudget",
        "metadata": {"name": "all"},
        "spec": spec,
    }
    ops.world.objects.create(NODE_BUDGETS, body)
    ops.run(900)
    assert (ops.at_work(), ops.set_status("r")["nodes"], ops.marks("n0")[0]) == ([], {"n0": "SetAside"}, False)


def test_a_cancelled_roll_gives_its_nodes_back() -> None:
    ops = MaintenanceSets().roll("r", *NODES).run(5)
    ops.world.objects.delete(SETS, "", "r")
    ops.run(60)
    assert ops.at_work() == []
    assert [ops.marks(name)[0] for name in NODES] == [False] * 4


def test_a_node_that_cannot_be_drained_is_set_aside_and_the_roll_goes_on() -> None:
    ops = MaintenanceSets()
    ops.world.make(budget("stuck", maxUnavailable=0), pod("stuck", nodeName="n0"))
    ops.run(5).roll("r", *NODES, most=1, setAsideAfter="10m").go(10, 5)
    assert ops.at_work() == ["n0"]
    ops.go(40, 20)
    status = ops.set_status("r")
    assert status["nodes"] == {"n0": "SetAside", "n1": "Done", "n2": "Done", "n3": "Done"}
    (aside,) = status["setAsideNodes"]
    assert aside["name"] == "n0"
    assert "stuck" in aside["reason"]
    assert ops.marks("n0")[0] is False
    assert ("NodeSetAside", "r") in ops.told
    assert (ops.most_at_once, ops.pods("n0")) == (1, ["stuck"])


def test_a_node_that_does_not_exist_is_set_aside() -> None:
    ops = MaintenanceSets().roll("r", "nowhere", "n0").go(6)
    assert ops.set_status("r")["nodes"] == {"nowhere": "SetAside", "n0": "Done"}


def test_a_node_in_another_maintenance_waits_for_its_end() -> None:
    ops = MaintenanceSets().make("other", "n0").run(5)
    ops.roll("r", "n0", "n1").run(5)
    assert ops.at_work() == ["n0", "n1"]
    assert ops.set_status("r")["nodes"] == {"n1": "InMaintenance"}
    ops.go(8)
    assert ops.set_status("r")["nodes"] == {"n0": "Done", "n1": "Done"}
    assert ops.twice == set()


def test_a_finished_set_is_deleted_after_its_time() -> None:
    ops = MaintenanceSets().roll("r", "n0", ttl="1h").go(4)
    assert ops.set_status("r")["phase"] == "Completed"
    ops.run(3500)
    assert ops.set("r") is not None
    ops.run(200)
    assert ops.set("r") is None


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodes": []}, id="no nodes"),
        pytest.param({"nodes": "n0"}, id="no list"),
        pytest.param({"nodes": [1]}, id="no name"),
        pytest.param({"maxConcurrent": 0}, id="none at once"),
        pytest.param({"maxConcurrent": "x"}, id="no number"),
        pytest.param({"startAt": "tomorrow"}, id="no instant"),
        pytest.param({"startAt": 7}, id="a number"),
        pytest.param({"ttl": "long"}, id="no duration"),
        pytest.param({"setAsideAfter": "-1h"}, id="negative"),
    ],
)
def test_a_spec_that_cannot_be_read_changes_nothing(spec: dict[str, Any]) -> None:
    body = NodeMaintenanceSet(ManagedMeta(name="r", uid="u"), {"nodes": ["n0"], **spec}, {"nodes": {"n0": 7}})
    row: Any = Projector(RESOURCE, "", Keep()).row(body)
    assert row.problem.startswith("spec.")
    assert row.states == {}


def test_a_refused_creation_is_a_reason_and_is_tried_again() -> None:
    ops = MaintenanceSets()
    ops.refuses[Create, "NodeMaintenance"] = Refused(403, "nodemaintenances is forbidden: cannot create")
    ops.roll("r", "n0").run(30)
    assert ops.at_work() == []
    ops.refuses.clear()
    ops.run(600)
    assert ops.at_work() == ["n0"]


def test_a_node_that_admission_refuses_is_set_aside() -> None:
    ops = MaintenanceSets()
    ops.refuses[Create, "NodeMaintenance"] = Refused(403, 'admission webhook "x" denied the request: no')
    ops.roll("r", "n0").run(120)
    assert ops.set_status("r")["nodes"] == {"n0": "SetAside"}
