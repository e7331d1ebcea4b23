"""The disruption controller of the embedded cluster, and evictions under its budgets."""

from typing import Any

import pytest

from haulout.embedded import DEPLOYMENTS, DISRUPTION_BUDGETS, PODS, Actor, ActorOptions, Json
from haulout.kube.errors import TooManyRequests
from tests.build.workloads import (
    World,
    budget,
    daemon_set,
    deployment,
    job,
    node,
    pod,
    stateful_set,
    template,
)


def with_ready(word: str) -> Json:
    condition = {"type": "Ready", "status": word, "lastTransitionTime": "2026-01-01T00:00:01Z"}
    return {"status": {"phase": "Running", "conditions": [condition]}}


READY = with_ready("True")
BARE = [pod(f"bare-{number}", app="web") for number in range(3)]
NO_SCALE = "does not implement the scale subresource"

# Each line was compared with kube-controller-manager 1.36.3.
CASES: list[Any] = [
    pytest.param([deployment("web", 5)], 5, {"minAvailable": 3}, (2, 5, 3, 5), id="min"),
    pytest.param([deployment("web", 5)], 3, {"minAvailable": 3}, (0, 3, 3, 5), id="min, just enough ready"),
    pytest.param([deployment("web", 5)], 5, {"minAvailable": "50%"}, (2, 5, 3, 5), id="min 50% of 5 is 3"),
    pytest.param([deployment("web", 3)], 3, {"minAvailable": "34%"}, (1, 3, 2, 3), id="min 34% of 3 is 2"),
    pytest.param([deployment("web", 4)], 4, {"maxUnavailable": 1}, (1, 4, 3, 4), id="max"),
    pytest.param([deployment("web", 5)], 5, {"maxUnavailable": "25%"}, (2, 5, 3, 5), id="max 25% of 5 is 2"),
    pytest.param([deployment("web", 7)], 7, {"maxUnavailable": "30%"}, (3, 7, 4, 7), id="max 30% of 7 is 3"),
    pytest.param(
        [stateful_set("web", 3, podManagementPolicy="Parallel")],
        3,
        {"maxUnavailable": 1},
        (1, 3, 2, 3),
        id="StatefulSet",
    ),
    pytest.param([], 0, {"minAvailable": 1}, (0, 0, 1, 0), id="no pods, min"),
    pytest.param([*BARE[:2], deployment("web", 4)], 6, {"maxUnavailable": 1}, (3, 6, 3, 4), id="mixed"),
    pytest.param(
        [deployment("web", 4), stateful_set("web", 3, podManagementPolicy="Parallel")],
        7,
        {"minAvailable": "50%"},
        (3, 7, 4, 7),
        id="two owners",
    ),
    pytest.param([job("web", parallelism=2, completions=2)], 2, {"minAvailable": 1}, (1, 2, 1, 2), id="Job, min"),
    pytest.param([daemon_set("web")], 2, {"minAvailable": 1}, (1, 2, 1, 2), id="DaemonSet, min"),
]


def quiet_world(objects: list[Json], ready: int) -> World:
    """Return a world in which pods become ready only by hand, and make so many of them ready."""
    actors: tuple[Actor, ...] = ("deployment", "replicaset", "statefulset", "daemonset", "job", "pdb")
    world = World(ActorOptions(actors=actors, heartbeats=False))
    world.make(node("n0"), node("n1"))
    for name in ("n0", "n1"):
        world.change_taints(name, [])
    world.make(*objects).run(1)
    for name in world.names()[:ready]:
        world.objects.patch(PODS, "default", name, READY, subresource="status")
    return world


@pytest.mark.parametrize(("objects", "ready", "spec", "numbers"), CASES)
def test_numbers(objects: list[Json], ready: int, spec: Json, numbers: tuple[int, ...]) -> None:
    status = quiet_world(objects, ready).make(budget("web", **spec)).run(1).status(DISRUPTION_BUDGETS, "web")
    names = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")
    assert tuple(status[name] for name in names) == numbers
    (found,) = status["conditions"]
    reason = "SufficientPods" if numbers[0] else "InsufficientPods"
    assert (found["type"], found["status"], found["reason"]) == ("DisruptionAllowed", str(numbers[0] > 0), reason)
    assert status["observedGeneration"] == found["observedGeneration"] == 1


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (job("web", parallelism=2, completions=2), f"jobs.batch {NO_SCALE}"),
        (daemon_set("web"), f"daemonsets.apps {NO_SCALE}"),
    ],
    ids=["Job", "DaemonSet"],
)
def test_what_has_no_scale_cannot_be_counted(workload: Json, message: str) -> None:
    status = quiet_world([workload], 2).make(budget("web", maxUnavailable=1)).run(1).status(DISRUPTION_BUDGETS, "web")
    (found,) = status["conditions"]
    assert (found["status"], found["reason"], found["message"]) == ("False", "SyncFailed", message)
    assert status["disruptionsAllowed"] == 0


def test_it_follows_pods_scale_and_its_own_spec() -> None:
    world = World(nodes=2).make(deployment("web", 4), budget("web", maxUnavailable="25%")).run()
    assert world.status(DISRUPTION_BUDGETS, "web")["disruptionsAllowed"] == 1
    name = world.names()[0]
    world.objects.patch(PODS, "default", name, with_ready("False"), subresource="status")
    assert world.run().status(DISRUPTION_BUDGETS, "web")["disruptionsAllowed"] == 0
    world.objects.patch(PODS, "default", name, with_ready("True"), subresource="status")
    world.change(DISRUPTION_BUDGETS, "web", {"spec": {"maxUnavailable": "50%"}})
    status = world.run().status(DISRUPTION_BUDGETS, "web")
    assert (status["disruptionsAllowed"], status["observedGeneration"]) == (2, 2)


@pytest.mark.parametrize(
    "spec", [{"maxUnavailable": "25%"}, {"minAvailable": "50%"}, {"minAvailable": 2}], ids=["most", "percent", "least"]
)
def test_every_status_is_the_one_that_another_sync_would_find(spec: Json) -> None:
    slow = template("web", notes={"stops-after": "5s"})
    world = World(nodes=2).make(deployment("web", 4, slow), budget("web", **spec)).run()
    world.objects.evict("default", world.names()[0])
    world.objects.delete(PODS, "default", world.names()[1])
    for second in range(40):
        if second == 20:
            world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 0}})
        status = world.run(1).status(DISRUPTION_BUDGETS, "web")
        world.change(DISRUPTION_BUDGETS, "web", {"metadata": {"annotations": {"second": str(second)}}})
        assert world.run(0).status(DISRUPTION_BUDGETS, "web") == status
    assert status["expectedPods"] == 0


def test_evictions_pass_one_by_one() -> None:
    world = World(nodes=2).make(deployment("web", 2), budget("web", maxUnavailable=1)).run()
    one, other = world.names()
    world.objects.evict("default", one)
    with pytest.raises(TooManyRequests):
        world.objects.evict("default", other)
    world.run(1)
    with pytest.raises(TooManyRequests):
        world.objects.evict("default", other)
    world.run(5).objects.evict("default", other)
    assert world.run().ready() == 2


def test_an_eviction_that_led_to_nothing_is_forgotten_after_two_minutes() -> None:
    world = quiet_world([deployment("web", 3)], 3).make(budget("web", minAvailable=2)).run(1)
    budget_ = world.get(DISRUPTION_BUDGETS, "web")
    status = {**budget_["status"], "disruptionsAllowed": 0, "disruptedPods": {world.names()[0]: "2026-01-01T00:00:02Z"}}
    world.objects.update(DISRUPTION_BUDGETS, {**budget_, "status": status}, subresource="status")
    status = world.run(110).status(DISRUPTION_BUDGETS, "web")
    assert (status["currentHealthy"], status["disruptionsAllowed"], len(status["disruptedPods"])) == (2, 0, 1)
    status = world.run(15).status(DISRUPTION_BUDGETS, "web")
    assert (status["currentHealthy"], status["disruptionsAllowed"]) == (3, 1)
    assert "disruptedPods" not in status
