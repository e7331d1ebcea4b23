"""Packages beside another surface, under turns and budgets that both obey, in virtual time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from haulout.cluster.view import HOLD
from haulout.core.declaration import Enabled
from haulout.embedded import NODES, Resource
from haulout.surfaces.nodemaintenance.options import Options as MaintenanceOptions
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.packages.groups import SKYHOOK
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.surface import sources
from tests.build.maintenances import MAINTENANCES, NAMESPACES
from tests.build.skyhooks import Skyhooks, pkg
from tests.build.units import Units

BUDGETS = Resource("haulout.dev", "v1alpha1", "nodedisruptionbudgets")
NOOP = {"type": "noop"}
KINDS = sorted(source.kind for source in sources(Options(alone=False)))


def together(nodes: int) -> Skyhooks:
    ops = Skyhooks(Options(alone=False), Enabled(NODEMAINTENANCE, MaintenanceOptions(alone=False)), nodes=nodes)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "medik8s-leases"}}
    ops.world.objects.create(NAMESPACES, namespace)
    return ops


def maintain(ops: Skyhooks, node: str) -> None:
    body = {
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
        "kind": "NodeMaintenance",
        "metadata": {"name": "held"},
        "spec": {"nodeName": node},
    }
    ops.world.objects.create(MAINTENANCES, body)


def ledgers(ops: Skyhooks) -> list[str]:
    nodes = ops.world.objects.list(NODES, "")
    return [
        node["metadata"]["name"] for node in nodes if "haulout.dev/cordon" in node["metadata"].get("annotations", {})
    ]


def test_a_node_in_maintenance_is_not_picked_until_it_is_given_back() -> None:
    ops = together(2)
    maintain(ops, "n0")
    ops.run(20).make("demo", {"base": pkg()}).run(40)
    assert ops.shows("demo", "n0", "n1") == ["blocked", "complete"]
    ops.world.objects.delete(MAINTENANCES, "", "held")
    ops.run(60)
    assert (ops.failures, ops.phase("demo")) == ([], "complete")


def test_one_budget_holds_for_both() -> None:
    ops = together(4)
    spec = {"selector": {}, "maxUnavailable": 1}
    metadata = {"name": "b"}
    body = {"apiVersion": "haulout.dev/v1alpha1", "kind": "NodeDisruptionBudget", "metadata": metadata, "spec": spec}
    ops.world.objects.create(BUDGETS, body)
    seen = {0}

    def look(body: object) -> None:
        nodes = ops.world.objects.list(NODES, "")
        seen.add(sum(bool(node["spec"].get("unschedulable")) for node in nodes))

    ops.before = look
    ops.make("demo", {"base": pkg(interrupt=NOOP)}).run(300)
    assert (ops.failures, ops.phase("demo"), max(seen), ledgers(ops)) == ([], "complete", 1, [])


def test_a_maintenance_that_comes_while_a_package_is_at_work_neither_evicts_it_nor_blocks_it() -> None:
    """The drain of a NodeMaintenance begins before its turn, with a taint that no Skyhook tolerates."""
    ops = together(1)
    ops.make("demo", {"base": pkg(interrupt=NOOP)}).run(1.5)
    made = len(ops.made)
    maintain(ops, "n0")
    ops.run(0.2)
    taints = [taint["key"] for taint in ops.node("n0")["spec"]["taints"]]
    assert ("medik8s.io/drain" in taints, len(ops.pods()), len(ops.made)) == (True, 1, made)
    ops.run(60)
    assert (ops.phase("demo"), ops.failures) == ("complete", [])
    assert len(ops.made) == len(set(ops.trail())), "each stage has run once"
    held = ops.world.objects.get(MAINTENANCES, "", "held") or {}
    assert held["status"]["phase"] == "Succeeded"


def test_nodes_that_others_keep_do_not_hold_up_those_behind_them() -> None:
    """More of them than a rollout claims at once, and all older than the rest."""
    ops = together(16)
    spec = {"selector": {"matchLabels": {"pool": "shut"}}, "maxUnavailable": 0}
    body = {
        "apiVersion": "haulout.dev/v1alpha1",
        "kind": "NodeDisruptionBudget",
        "metadata": {"name": "b"},
        "spec": spec,
    }
    ops.world.objects.create(BUDGETS, body)
    names = sorted(f"n{number}" for number in range(16))
    for name in names[:12]:
        ops.change_node(name, {"metadata": {"labels": {"pool": "shut"}}})
    ops.run(5).make("demo", {"base": pkg(interrupt=NOOP)}, interruptionBudget={"count": 1}).run(120)
    assert ops.shows("demo", *names) == ["blocked"] * 12 + ["complete"] * 4
    assert ops.failures == []


def test_a_rollout_claims_few_nodes_at_a_time() -> None:
    ops = together(40)
    most = [0]

    def look(body: object) -> None:
        most[0] = max(most[0], len(ops.kernel.store.rows("", HOLD)))

    ops.before = look
    ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 2}).run(200)
    assert (ops.phase("demo"), most[0] <= 2 + 5) == ("complete", True)


@pytest.mark.parametrize("late", KINDS)
def test_a_new_operator_evicts_no_package_before_it_knows_whose_turn_it_is(late: str) -> None:
    ops = together(1)
    ops.fate = lambda about: "hang"
    ops.make("demo", {"base": pkg(interrupt=NOOP)}).run(1.5)
    (working,) = ops.pods()
    maintain(ops, "n0")
    ops.run(2)
    ops.late = {late: timedelta(seconds=30)}
    ops.begin().run(20)
    assert [pod.name for pod in ops.pods()] == [working.name]


def test_a_changed_configuration_that_interrupts_drains_the_node() -> None:
    """The node is complete until its entries show the change: its claim has to want the drain before."""
    ops = together(1)
    more: dict[str, Any] = {"interrupt": NOOP, "configInterrupts": {"*.conf": {"type": "service", "services": ["x"]}}}
    ops.make("demo", {"base": pkg(configMap={"a.conf": "1"}, **more)}).run(60)
    assert ops.phase("demo") == "complete"
    ops.packages("demo", {"base": pkg(configMap={"a.conf": "2"}, **more)}).run(90)
    assert (ops.failures, ops.phase("demo")) == ([], "complete")
    assert ops.trail()[-3:] == ["base/config", "base/interrupt", "base/post-interrupt"]


def test_a_configuration_that_changes_while_its_stage_runs_drains_the_node_again() -> None:
    """When the node has completed, its claim has given up the drain, and has to want it anew before the node is cordoned."""
    ops = Units(Options(executor="jobs", alone=False), nodes=2)
    ops.create(SKYHOOK, {"base": pkg(interrupt=NOOP, configMap={"a": "1"})}, interruptionBudget={"count": 1}).run(1)
    ops.fate = lambda about: "hangs"
    ops.run(1)
    ops.change(SKYHOOK, {"spec": {"packages": {"base": {"configMap": {"a": "2"}}}}})
    ops.run(5)
    ops.fate = lambda about: "ok"
    for running in ops.pods():
        ops.finish(running)
    ops.run(600)
    assert (ops.failures, ops.counts(SKYHOOK)) == ([], ("complete", "2/2"))
