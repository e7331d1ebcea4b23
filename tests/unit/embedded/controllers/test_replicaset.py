"""The ReplicaSet controller of the embedded cluster."""

from datetime import timedelta

import pytest

from haulout.embedded import PODS, REPLICA_SETS, Json
from haulout.embedded.controllers.object_fields import timestamp
from haulout.embedded.controllers.replicaset import first_to_go
from tests.build.workloads import START, World, replica_set


def test_failed_pods_are_replaced_and_stay() -> None:
    world = World(nodes=1).make(replica_set("web", 2)).run()
    world.objects.patch(PODS, "default", world.names()[0], {"status": {"phase": "Failed"}}, subresource="status")
    assert len(world.run().names()) == 3
    assert world.status(REPLICA_SETS, "web")["replicas"] == 2


def test_more_than_a_burst_comes_in_two_looks() -> None:
    world = World(nodes=3).make(replica_set("web", 700)).run()
    assert world.status(REPLICA_SETS, "web")["readyReplicas"] == 700
    world.change(REPLICA_SETS, "web", {"spec": {"replicas": 10}})
    assert len(world.run().names()) == 10


COST = "controller.kubernetes.io/pod-deletion-cost"


def candidate(name: str, *, node: str = "a", phase: str = "Running", ready: int | None = 60, cost: str = "0") -> Json:
    since = timestamp(START - timedelta(seconds=ready or 0))
    status = {
        "phase": phase,
        "conditions": [{"type": "Ready", "status": str(ready is not None), "lastTransitionTime": since}],
    }
    metadata = {
        "namespace": "default",
        "name": name,
        "uid": name,
        "creationTimestamp": since,
        "annotations": {COST: cost},
    }
    return {"metadata": metadata, "spec": {"nodeName": node}, "status": status}


@pytest.mark.parametrize(
    ("first", "then"),
    [
        pytest.param(candidate("z", node=""), candidate("b", phase="Pending", ready=None), id="not scheduled"),
        pytest.param(candidate("z", phase="Pending", ready=None), candidate("b", ready=None), id="pending"),
        pytest.param(candidate("z", ready=None), candidate("b"), id="not ready"),
        pytest.param(candidate("z", cost="-5"), candidate("b"), id="cheap"),
        pytest.param(candidate("z", ready=10), candidate("b", ready=3600), id="young"),
        pytest.param(candidate("b", ready=3601), candidate("z", ready=3600), id="same magnitude, by UID"),
        pytest.param(candidate("b"), candidate("z"), id="name"),
    ],
)
def test_which_pod_goes_first(first: Json, then: Json) -> None:
    assert first_to_go([then, first], [], START) == [first, then]


def test_who_shares_a_node_goes_first() -> None:
    pods = [candidate("a", node="x"), candidate("b", node="y"), candidate("c", node="y")]
    assert first_to_go(pods, pods, START)[-1] is pods[0]
