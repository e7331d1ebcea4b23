"""Several surfaces in one process: their order, and that one with a missing kind or file does not block the others."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

import pytest

from haulout.cluster.key import Key
from haulout.cluster.project import within
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import Label
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.drain.options import POD_ANNOTATION, PodRules
from haulout.core.holds import PRIORITY_ANNOTATION, Claim, Want, is_granted
from haulout.embedded import NODES, PODS
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.wire import KIND
from tests.build.maintenances import MAINTENANCES, Maintenances
from tests.build.workloads import budget, deployment


def _works(key: Key, view: View, now: datetime) -> Decision:
    node = view.get(key, NodeRow)
    if node is None:
        return NOTHING
    claim = Claim(key, key, frozenset({Want.EXCLUSIVE}))
    goes = is_granted(view, "other", claim) and "done" not in node.labels
    return Decision(((Label(key, "done", "yes"),),) if goes else (), claims=(claim,))


def test_leases_of_maintenances_that_cannot_be_read() -> None:
    ops = Maintenances(None, None, Decider("other", "Node", _works), turns=True)
    leases = within("Lease", ops.options.lease_namespace)
    ops.kernel.store.set_listing("", leases, Listing.UNREADABLE, "forbidden")
    ops.run(5)
    assert ops.world.get(NODES, "n0")["metadata"]["labels"]["done"] == "yes"


OTHER = Decider("other", "Node", _works)


def _worked_on(ops: Maintenances) -> list[str]:
    return [name for name in ("n0", "n1", "n2") if "done" in ops.node(name)["metadata"]["labels"]]


def _forbidden(ops: Maintenances) -> None:
    ops.kernel.store.close("", KIND)
    ops.kernel.store.set_listing("", KIND, Listing.UNREADABLE, "forbidden")


def _not_served(ops: Maintenances) -> None:
    ops.kernel.store.begin_list("", KIND)
    ops.kernel.store.end_list("", KIND, 0, future=True)


@pytest.mark.parametrize("absent", [_forbidden, _not_served])
def test_nobody_takes_the_turn_on_a_marked_node_whose_maintenance_is_not_to_be_had(
    absent: Callable[[Maintenances], None],
) -> None:
    ops = Maintenances().make("a", "n0").run(30)
    assert ops.phase("a") == "Succeeded"
    ops.begin(OTHER, turns=True)
    absent(ops)
    ops.run(5)
    assert _worked_on(ops) == ["n1", "n2"]
    assert ops.marks("n0")[0]
    # Once it can be read again, it is up to the maintenance.
    ops.begin(OTHER, turns=True).run(5)
    assert _worked_on(ops) == ["n1", "n2"]
    ops.delete("a").run(5)
    assert _worked_on(ops) == ["n0", "n1", "n2"]
    assert ops.marks("n0") == (False, [], None)


@pytest.mark.parametrize(("alone", "first"), [(False, "urgent"), (True, "older")])
def test_the_priority_of_a_maintenance(alone: bool, first: str) -> None:
    ops = Maintenances(None, Options(max_concurrent_maintenances=1, alone=alone))
    ops.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    ops.run(30).make("now", "n0").run(5).make("older", "n1").run(5).make("urgent", "n2")
    ops.world.objects.patch(MAINTENANCES, "", "urgent", {"metadata": {"annotations": {PRIORITY_ANNOTATION: "7"}}})
    ops.run(5)
    node = {"older": "n1", "urgent": "n2"}
    assert not any(ops.node(name)["spec"].get("unschedulable") for name in node.values())
    ops.delete("now").run(5)
    assert [name for name in node if ops.node(node[name])["spec"].get("unschedulable")] == [first]


def test_a_wrong_word_for_a_drain_is_told_of_once() -> None:
    ops = Maintenances(None, Options(rules=PodRules(annotation=True), alone=False))
    ops.world.make(deployment("web", replicas=3), budget("web", minAvailable=3))
    ops.run(30)
    (name,) = ops.pods("n0")
    ops.world.change(PODS, name, {"metadata": {"annotations": {POD_ANNOTATION: "ignroe"}}})
    ops.make("a", "n0").run(30)
    assert [about for reason, about in ops.told if reason == "AnnotationInvalid"] == [name]
