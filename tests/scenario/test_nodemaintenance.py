"""NodeMaintenances on the embedded cluster, in virtual time."""

from __future__ import annotations

from haulout.embedded.controllers.kinds import DISRUPTION_BUDGETS
from tests.build.maintenances import Maintenances
from tests.build.workloads import budget, deployment

OUT = (True, ["node.kubernetes.io/unschedulable", "medik8s.io/drain"], "true")
IN = (False, [], None)


def test_there_and_back() -> None:
    all_ = Maintenances()
    all_.world.make(deployment("web", replicas=3))
    all_.run(30).make("a", "n0").run(5)
    assert all_.phase("a") == "Succeeded"
    assert all_.status("a")["drainProgress"] == 100
    assert all_.marks("n0") == OUT
    all_.delete("a").run(1)
    assert all_.found("a") is None
    assert all_.marks("n0") == IN
    assert all_.lease("n0") is None
    assert [reason for reason, _ in all_.told] == [
        "BeginMaintenance",
        "SucceedMaintenance",
        "UncordonNode",
        "RemovedMaintenance",
    ]
    assert all_.refusals == []


def test_a_budget_blocks_then_allows() -> None:
    all_ = Maintenances()
    all_.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    all_.run(30).make("a", "n0").run(33)
    pod = all_.pods("n0")[0]
    assert all_.status("a")["lastError"] == (
        f'error when evicting pods/"{pod}" -n "default": global timeout reached: 30s'
    )
    assert all_.status("a")["blockedPods"][0]["reason"] == "DisruptionBudget"
    assert all_.phase("a") == "Running"
    all_.world.change(DISRUPTION_BUDGETS, "web", {"spec": {"minAvailable": 2}})
    all_.run(10)
    assert all_.phase("a") == "Succeeded"
    assert "lastError" not in all_.status("a")
