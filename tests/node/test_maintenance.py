"""A NodeMaintenance of a real node: pods stop with grace, a budget keeps one of them, and the node returns."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.test_node import await_traps, pod, run
from tests.rig.api import Api, Json
from tests.rig.maintenances import (
    BUDGETS,
    NMS,
    OUT,
    budget,
    define,
    ends,
    maintenance,
    marks,
    phase,
    pods_on,
    status,
    succeeds,
)
from tests.rig.node import Node
from tests.rig.operator import NodeMaintenanceOperator
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

pytestmark = [
    pytest.mark.root,
    pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kubelet"),
]

SLOW = 'trap "sleep 3; echo done > /host/var/{0}; exit 0" TERM; echo started; while :; do sleep 0.1; done'


@pytest.fixture(scope="module")
def counting(plane: ControlPlane) -> ControlPlane:
    """The controller that computes the status of budgets."""
    define(plane.api())
    plane.start_controllers(("disruption-controller",))
    return plane


@pytest.fixture
def operator(counting: ControlPlane, tmp_path: Path) -> Iterator[NodeMaintenanceOperator]:
    with NodeMaintenanceOperator(counting, tmp_path) as made:
        yield made


def slow(name: str, node: str, **labels: str) -> Json:
    """Create a pod that takes 3 of its 20 seconds of grace to stop, and then leaves a file on its host."""
    made = pod(name, node, SLOW.format(name), grace=20)
    made["metadata"]["labels"] = labels
    return made


def blocked(api: Api, name: str) -> list[str]:
    return [each["name"] for each in status(api, name).get("blockedPods", ())]


def test_pods_end_in_their_own_time_and_a_budget_keeps_one(
    counting: ControlPlane, node: Node, namespace: str, operator: NodeMaintenanceOperator
) -> None:
    api = counting.api()
    # The taint of admission stays, because the controller that would remove it does not run here.
    before = marks(api, node.name)
    run(api, slow("free", node.name), namespace)
    run(api, slow("kept", node.name, app="web"), namespace)
    for name in ("free", "kept"):
        await_traps(node, namespace, name)
    api.create(BUDGETS, budget("web", "web", minAvailable=1), namespace)
    counted = {"currentHealthy": 1, "disruptionsAllowed": 0}
    eventually(lambda: counted.items() <= api.get(BUDGETS, "web", namespace).get("status", {}).items(), "counted")

    api.create(NMS, maintenance(namespace, node.name))
    eventually(lambda: pods_on(api, node.name, namespace) == ["kept"], "one is gone, the other is not")
    assert (node.root / "var" / "free").read_text() == "done\n", "it was left the time that it needed"
    eventually(lambda: blocked(api, namespace) == ["kept"], "it says so")
    assert phase(api, namespace) == "Running"
    assert marks(api, node.name) == (True, sorted([*before[1], *OUT[1]]), "true")
    assert not (node.root / "var" / "kept").exists()

    api.patch(BUDGETS, "web", {"spec": {"minAvailable": 0}}, namespace)
    succeeds(api, namespace)
    assert pods_on(api, node.name, namespace) == []
    assert (node.root / "var" / "kept").read_text() == "done\n"

    ends(api, namespace)
    assert marks(api, node.name) == before
