"""Patches of a status alone take a shorter way through the server, with the same result."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import DEPLOYMENTS, DISRUPTION_BUDGETS, NODES, PODS, REPLICA_SETS, Json, Resource
from haulout.kube.errors import ApiError
from tests.build.apiserver import World
from tests.build.workloads import budget, deployment, node, template

CONDITION = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-04-01T12:00:00Z"}
READY = {
    "type": "Ready",
    "status": "True",
    "lastTransitionTime": "2026-04-01T14:00:00+02:00",
    "lastHeartbeatTime": None,
}
POD = {"metadata": {"name": "a", "namespace": "default"}, "spec": template("a")["spec"]}
SET = {"metadata": {"name": "a", "namespace": "default"}, "spec": {key: value for key, value in deployment("a", 1, template("a"))["spec"].items() if key != "strategy"}}  # fmt: skip

STATUSES = [
    pytest.param(PODS, POD, {"phase": "Running", "conditions": [CONDITION], "podIP": "10.0.0.1", "nonsense": 1}, id="a pod"),
    pytest.param(PODS, POD, {"conditions": [{"type": "no type", "status": "True"}]}, id="a pod with a bad condition"),
    pytest.param(PODS, POD, {"phase": 3}, id="a pod with a number for a phase"),
    pytest.param(PODS, POD, {"phase": None}, id="a pod without a phase"),
    pytest.param(NODES, node("n"), {"capacity": {"cpu": "4000m"}, "conditions": [READY]}, id="a node"),
    pytest.param(NODES, node("n"), {"addresses": [{"type": "Hostname", "address": "a"}] * 2}, id="a node with an address twice"),
    pytest.param(REPLICA_SETS, SET, {"replicas": 3, "readyReplicas": 0, "conditions": []}, id="a ReplicaSet"),
    pytest.param(DEPLOYMENTS, deployment("a", 2, template("a")), {"replicas": 2, "observedGeneration": 1}, id="a Deployment"),
    pytest.param(DISRUPTION_BUDGETS, budget("a", maxUnavailable=1), {"disruptionsAllowed": 2, "disruptedPods": {"b": "2026-04-01T12:00:00Z"}}, id="a budget"),
    pytest.param(DISRUPTION_BUDGETS, budget("a", maxUnavailable=1), {"disruptionsAllowed": -2}, id="a budget below zero"),
    pytest.param(DISRUPTION_BUDGETS, budget("a", maxUnavailable=1), {}, id="nothing at all"),
]  # fmt: skip


@pytest.mark.parametrize("resource, obj, status", STATUSES)
def test_the_shorter_way_ends_where_the_whole_way_does(resource: Resource, obj: Json, status: Json) -> None:
    # A member beside the status, though it says nothing, makes a patch go the whole way.
    assert patched(resource, obj, {"status": status}) == patched(resource, obj, {"status": status, "metadata": {}})


def patched(resource: Resource, obj: Json, body: Json) -> Any:
    """Return the object after the patch, or its refusal, and how many revisions there were."""
    server = World().server
    made = server.create(resource, obj)["metadata"]
    try:
        server.patch(resource, made.get("namespace", ""), made["name"], body, subresource="status")
    except ApiError as error:
        return error.status
    return server.get(resource, made.get("namespace", ""), made["name"]), server.storage.revision
