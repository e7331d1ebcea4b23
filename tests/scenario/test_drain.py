"""Drains on the embedded cluster: its own PDB arithmetic, controllers and kubelets answer."""

from __future__ import annotations

from tests.build.drains import Drains
from tests.build.workloads import budget, deployment


def test_a_node_is_empty_as_soon_as_its_pods_have_stopped() -> None:
    drains = Drains()
    drains.world.make(deployment("web", replicas=6))
    drains.run(30)
    assert drains.on("n0")
    drains.drain("n0").run(3.5)
    assert drains.on("n0") == []
    assert drains.progress("n0").done
    assert drains.refusals == []


def test_evictions_keep_to_the_budget_over_all_nodes_and_none_is_refused() -> None:
    drains = Drains()
    drains.world.make(deployment("web", replicas=9), budget("web", maxUnavailable=2))
    drains.run(30)
    drains.drain("n0", "n1").run(300)
    assert drains.on("n0") == drains.on("n1") == []
    assert drains.refusals == []
