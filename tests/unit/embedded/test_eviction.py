"""Evictions and budgets, beyond what contract cases show; the messages are those of the real server."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import Json
from haulout.kube.errors import TooManyRequests
from tests.build.apiserver import BUDGETS, PODS, Said, World, budget, pod

HEALTHY: Json = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}


def counts(allowed: int, healthy: int, desired: int, **rest: Any) -> Json:
    return {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": 3,
        **rest,
    }


def world_with(budget_status: Json) -> World:
    """Return a world with a ready pod and a budget with this status."""
    world = World()
    world.server.create(PODS, pod("a", on="n"))
    world.server.patch(PODS, "default", "a", {"status": HEALTHY}, subresource="status")
    world.server.create(BUDGETS, budget("b"))
    world.server.patch(BUDGETS, "default", "b", {"status": budget_status}, subresource="status")
    return world


def evict(world: World) -> Said:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a", "namespace": "default"}}
    return world.ask("POST", "/api/v1/namespaces/default/pods/a/eviction", body)


def budget_status(world: World) -> Json:
    found = world.server.get(BUDGETS, "default", "b")
    assert found is not None
    status: Json = found["status"]
    return status


def test_an_eviction_spends_the_budget_and_marks_the_pod() -> None:
    world = world_with(counts(1, 3, 2))
    said = evict(world)
    assert (said.code, said.body["status"], said.body["code"]) == (201, "Success", 201)
    evicted = world.server.get(PODS, "default", "a")
    assert evicted is not None
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    target = evicted["status"]["conditions"][-1]
    assert (target["type"], target["reason"], target["message"]) == (
        "DisruptionTarget",
        "EvictionByEvictionAPI",
        "Eviction API: evicting",
    )
    status = budget_status(world)
    assert (status["disruptionsAllowed"], status["disruptedPods"]) == (0, {"a": "2026-01-01T00:00:00Z"})
    assert (status["conditions"][0]["status"], status["conditions"][0]["reason"]) == ("False", "InsufficientPods")


@pytest.mark.parametrize(
    "status, why, retry",
    [
        pytest.param(counts(0, 2, 2), "The disruption budget b needs 2 healthy pods and has 2 currently", None, id="exhausted"),
        pytest.param(counts(0, 3, 2), "The disruption budget b does not allow evicting pods currently", None, id="for another reason"),
        pytest.param(counts(1, 3, 2) | {"observedGeneration": 0}, "The disruption budget b is still being processed by the server.", 10.0, id="not looked at yet"),
        pytest.param(counts(0, 0, 0, conditions=[{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale", "lastTransitionTime": None}]), "The disruption budget b does not allow evicting pods currently because it failed sync: no scale", None, id="failed"),
    ],
)  # fmt: skip
def test_budgets_refuse(status: Json, why: str, retry: float | None) -> None:
    world = world_with(status)
    with pytest.raises(
        TooManyRequests, match="Cannot evict pod as it would violate the pod's disruption budget"
    ) as refusal:
        world.server.evict("default", "a")
    details = refusal.value.status.details
    assert details is not None
    assert [cause.message for cause in details.causes] == [why]
    assert refusal.value.by_budget
    assert refusal.value.retry_after == retry
    said = evict(world)
    assert said.code == 429
    assert dict(said.headers) == ({"Retry-After": "10"} if retry else {})
