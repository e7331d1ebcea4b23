"""The root reasons that keep a pod on its node, and the one act that would help."""

from __future__ import annotations

import pytest

from haulout.cluster.key import Key
from haulout.core.drain.causes import causes
from haulout.core.drain.options import DrainOptions
from haulout.core.reason import Reason, best_act, roots
from haulout.embedded import PODS
from tests.build.drains import Drains
from tests.build.workloads import budget, daemon_set, deployment, pod, stateful_set, template

STUCK = {"starts-after": "1h"}


def drained(*objects: dict[str, object], options: DrainOptions | None = None, seconds: float = 20) -> Drains:
    drains = Drains(options=options)
    drains.world.make(*objects)
    drains.run(30)
    return drains.drain("n0", "n1", "n2").run(seconds)


def trees(drains: Drains) -> tuple[Reason, ...]:
    return tuple(tree for node in ("n0", "n1", "n2") for tree in drains.reasons(node))


@pytest.mark.parametrize(
    ("spec", "act"),
    [
        pytest.param(
            {"minAvailable": 2},
            "add a replica to Deployment default/web or lower minAvailable of PodDisruptionBudget default/web (now 2)",
            id="as many needed as there are",
        ),
        pytest.param(
            {"minAvailable": "100%"},
            "lower minAvailable of PodDisruptionBudget default/web (now 100%)",
            id="more replicas would not help",
        ),
        pytest.param(
            {"maxUnavailable": 0},
            "raise maxUnavailable of PodDisruptionBudget default/web (now 0)",
            id="none may ever go",
        ),
    ],
)
def test_a_budget_that_never_opens(spec: dict[str, object], act: str) -> None:
    found = trees(drained(deployment("web", 2), budget("web", **spec)))
    assert [tree.code for tree in found] == ["pdb-blocks", "pdb-blocks"]
    assert {root.code for tree in found for root in roots(tree)} == {"pdb-strict"}
    assert best_act(found) == act


def test_a_budget_that_waits_for_a_replica_that_finds_no_node() -> None:
    """All nodes are drained at once, so that no node is left for the replacements of evicted pods."""
    found = trees(drained(deployment("web", 3), budget("web", maxUnavailable=1)))
    assert {root.code for tree in found for root in roots(tree)} == {"replica-not-ready"}
    act = best_act(found)
    assert act.startswith("find a node for pod default/web-")
    assert act.endswith(": Unschedulable")


def test_a_replica_that_does_not_start() -> None:
    made = Drains()
    made.world.make(stateful_set("db", 2, template("db", notes=STUCK)), budget("db", minAvailable=1))
    made.run(30)
    made.drain("n0", "n1", "n2").run(20)
    acts = {root.act for tree in trees(made) for root in roots(tree) if root.act}
    assert acts <= {f"wait until pod default/db-0 on node {node} is ready" for node in ("n0", "n1", "n2")}


def test_a_finalizer() -> None:
    drains = Drains()
    drains.world.make(deployment("web", 1))
    drains.run(30)
    name = drains.world.names()[0]
    drains.world.change(PODS, name, {"metadata": {"finalizers": ["example.com/f"]}})
    found = trees(drains.drain("n0", "n1", "n2").run(60))
    assert [tree.code for tree in found] == ["finalizer"]
    act = f"remove finalizer example.com/f from pod default/{name}, or see why its owner does not"
    assert best_act(found) == act


def test_two_budgets_over_one_pod() -> None:
    other = budget("web", maxUnavailable=1)
    other["metadata"]["name"] = "also"
    found = trees(drained(deployment("web", 1), budget("web", maxUnavailable=1), other))
    assert [tree.code for tree in found] == ["pdbs-overlap"]
    assert best_act(found).startswith("let only one of the PodDisruptionBudgets default/also, default/web select pod ")


def test_a_drain_that_must_not_begin() -> None:
    found = trees(drained(pod("lone"), daemon_set("agent"), options=DrainOptions(ignore_daemonsets=True)))
    assert [tree.code for tree in found] == ["drain-refused"]
    assert best_act(found) == "remove default/lone by hand, or allow the drain to"


def test_what_most_pods_wait_for_comes_first() -> None:
    found = trees(
        drained(
            deployment("web", 1),
            budget("web", maxUnavailable=0),
            deployment("api", 3),
            budget("api", maxUnavailable=0),
        )
    )
    assert best_act(found) == "raise maxUnavailable of PodDisruptionBudget default/api (now 0)"


def test_pods_are_grouped_by_cause_and_what_goes_is_told_last() -> None:
    slow = template("slow", notes={"stops-after": "25s"})
    found = trees(drained(deployment("slow", 2, slow), deployment("web", 3), budget("web", maxUnavailable=0)))
    groups = causes(found)
    assert [(cause.code, len(cause.pods), cause.blocks) for cause in groups] == [
        ("pdb-blocks", 3, True),
        ("terminating", 2, False),
    ]
    assert groups[0].text == (
        "PodDisruptionBudget default/web: allows no evictions even with all 3 pods healthy (maxUnavailable: 0)"
    )
    assert groups[1].until is not None


def test_behind_an_open_budget_nobody_is_blocked() -> None:
    paced = Reason("pdb-paced", Key("", "PodDisruptionBudget", "ns", "b"), "PodDisruptionBudget ns/b: 2 may go")
    pods = [Key("", "Pod", "ns", name) for name in ("a", "b")]
    (cause,) = causes([Reason("pdb-blocks", pod, f"pod {pod.name}: waits", because=(paced,)) for pod in pods])
    assert (cause.code, cause.text, cause.pods, cause.blocks) == ("pdb-paced", paced.text, tuple(pods), False)
