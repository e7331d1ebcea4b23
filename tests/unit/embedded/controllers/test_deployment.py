"""The Deployment controller of the embedded cluster."""

from typing import Any

import pytest

from haulout.embedded import DEPLOYMENTS, PODS, REPLICA_SETS
from haulout.embedded.controllers.rollout import Rollout, fenceposts
from tests.build.workloads import World, condition_of, deployment, is_leaving, template

NEW = {"spec": {"template": {"metadata": {"annotations": {"version": "2"}}}}}


def sizes(world: World) -> list[int]:
    """Return the sizes of the ReplicaSets, from old to new."""
    sets = world.objects.list(REPLICA_SETS)
    order = sorted(sets, key=lambda one: int(one["metadata"]["annotations"]["deployment.kubernetes.io/revision"]))
    return [one["spec"]["replicas"] for one in order]


def test_a_deployment_comes_up() -> None:
    world = World(nodes=2).make(deployment("web", 3)).run()
    status = world.status(DEPLOYMENTS, "web")
    assert (status["replicas"], status["availableReplicas"], status["observedGeneration"]) == (3, 3, 1)
    assert [(one["type"], one["status"], one["reason"]) for one in status["conditions"]] == [
        ("Available", "True", "MinimumReplicasAvailable"),
        ("Progressing", "True", "NewReplicaSetAvailable"),
    ]
    assert world.get(DEPLOYMENTS, "web")["metadata"]["annotations"] == {"deployment.kubernetes.io/revision": "1"}


def test_it_rolls_without_ever_having_too_few_or_too_many() -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
    world = World(nodes=2).make(deployment("web", 4, strategy=rolling)).run()
    world.change(DEPLOYMENTS, "web", NEW)
    for _ in range(60):
        staying = [pod for pod in world.run(1).pods() if not is_leaving(pod)]
        assert len(staying) <= 5
        assert world.ready() >= 3
    assert sizes(world) == [0, 4]
    assert world.status(DEPLOYMENTS, "web")["updatedReplicas"] == 4


def test_going_back_reuses_the_old_set() -> None:
    world = World(nodes=1).make(deployment("web", 2)).run()
    first = world.objects.list(REPLICA_SETS)[0]["metadata"]["name"]
    world.change(DEPLOYMENTS, "web", NEW)
    world.run()
    world.change(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": None}}}})
    world.run()
    assert len(world.objects.list(REPLICA_SETS)) == 2
    assert world.get(REPLICA_SETS, first)["spec"]["replicas"] == 2
    assert world.get(DEPLOYMENTS, "web")["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "3"


def test_recreate_waits_until_the_old_pods_are_gone() -> None:
    world = World(nodes=1).make(deployment("web", 2, strategy={"type": "Recreate"})).run()
    world.change(DEPLOYMENTS, "web", NEW)
    assert all(is_leaving(pod) for pod in world.run(20).pods())
    assert world.run().ready() == 2


def test_scaling_and_pausing() -> None:
    world = World(nodes=1).make(deployment("web", 2)).run()
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 5}})
    assert world.run().ready() == 5
    world.change(DEPLOYMENTS, "web", {"spec": {"paused": True, **NEW["spec"]}})
    assert sizes(world.run()) == [5]
    world.change(DEPLOYMENTS, "web", {"spec": {"replicas": 1}})
    assert sizes(world.run()) == [1]
    world.change(DEPLOYMENTS, "web", {"spec": {"paused": False}})
    assert sizes(world.run()) == [0, 1]


def test_a_stuck_rollout_times_out() -> None:
    world = World(nodes=1).make(deployment("web", 2, progressDeadlineSeconds=30)).run()
    world.change(DEPLOYMENTS, "web", {"spec": {"template": {"spec": {"nodeSelector": {"no": "such"}}}}})
    assert condition_of(world.run(20).get(DEPLOYMENTS, "web"), "Progressing") == "True"
    assert condition_of(world.run(20).get(DEPLOYMENTS, "web"), "Progressing") == "False"
    assert condition_of(world.get(DEPLOYMENTS, "web"), "Available") == "True"


def test_min_ready_seconds_slow_it_down() -> None:
    world = World(nodes=1).make(deployment("web", 1, minReadySeconds=20)).run(10)
    assert world.status(DEPLOYMENTS, "web").get("availableReplicas", 0) == 0
    assert world.run(15).status(DEPLOYMENTS, "web")["availableReplicas"] == 1


def test_old_sets_are_cleaned_up() -> None:
    world = World(nodes=1).make(deployment("web", 1, revisionHistoryLimit=1)).run()
    for version in "234":
        world.change(DEPLOYMENTS, "web", {"spec": {"template": {"metadata": {"annotations": {"version": version}}}}})
        world.run()
    assert sizes(world) == [0, 1]


def test_a_deleted_pod_is_replaced() -> None:
    world = World(nodes=1).make(deployment("web", 1, template("web", notes={"stops-after": "1s"}))).run()
    (name,) = world.names()
    world.objects.delete(PODS, "default", name)
    assert len(world.run(0).names()) == 2
    assert world.run(5).names() != [name]
    assert world.ready() == 1


@pytest.mark.parametrize(
    ("replicas", "rolling", "posts"),
    [
        (4, {}, (1, 1)),
        (10, {}, (3, 2)),
        (1, {}, (1, 0)),
        (3, {"maxSurge": 0, "maxUnavailable": "10%"}, (0, 1)),
        (3, {"maxSurge": "50%", "maxUnavailable": 9}, (2, 3)),
    ],
)
def test_fenceposts(replicas: int, rolling: dict[str, Any], posts: tuple[int, int]) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    assert fenceposts(deployment("web", replicas, strategy=strategy)) == posts


def replicas(name: str, size: int, available: int, maximum: int = 0) -> Any:
    notes = {"deployment.kubernetes.io/max-replicas": str(maximum), "deployment.kubernetes.io/desired-replicas": "10"}
    return {
        "metadata": {"namespace": "default", "name": name, "annotations": notes},
        "spec": {"replicas": size},
        "status": {"availableReplicas": available},
    }


def test_unhealthy_old_pods_go_first() -> None:
    old, older = replicas("old", 6, 6), replicas("older", 4, 1)
    sizes = Rollout(10, 3, 2).down(replicas("new", 3, 0), [older, old])
    assert sizes == {("default", "older"): 2}


def test_growing_in_the_midst_of_a_rollout_is_shared() -> None:
    old, new = replicas("old", 8, 8, 13), replicas("new", 5, 0, 13)
    assert Rollout(20, 3, 2).proportions(new, [old]) == {("default", "old"): 14, ("default", "new"): 9}
