"""Evictions and budgets, with the messages of the real server."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import Json
from haulout.kube.errors import NotFound, ServerFailure, TooManyRequests
from tests.build.apiserver import BUDGETS, PODS, Said, World, budget, pod

HEALTHY: Json = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
UNREADY: Json = {"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]}


def counts(allowed: int, healthy: int, desired: int, **rest: Any) -> Json:
    return {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "expectedPods": 3,
        **rest,
    }


def world_with(status: Json, budget_status: Json | None, **spec: Any) -> World:
    world = World()
    world.server.create(PODS, pod("a", on="n"))
    world.server.patch(PODS, "default", "a", {"status": status}, subresource="status")
    if budget_status is not None:
        world.server.create(BUDGETS, budget("b", **spec))
        world.server.patch(BUDGETS, "default", "b", {"status": budget_status}, subresource="status")
    return world


def evict(world: World, name: str = "a", query: str = "", **options: Any) -> Said:
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    body = eviction | ({"deleteOptions": options} if options else {})
    return world.ask("POST", f"/api/v1/namespaces/default/pods/a/eviction{query}", body)


def budget_status(world: World) -> Json:
    found = world.server.get(BUDGETS, "default", "b")
    assert found is not None
    status: Json = found["status"]
    return status


def test_an_eviction_spends_the_budget_and_marks_the_pod() -> None:
    world = world_with(HEALTHY, counts(1, 3, 2))
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
    world = world_with(HEALTHY, status)
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


@pytest.mark.parametrize(
    "status, budget_counts, spec, passes",
    [
        pytest.param(HEALTHY, None, {}, True, id="no budget"),
        pytest.param({"phase": "Pending"}, counts(0, 0, 1), {}, True, id="pending"),
        pytest.param({"phase": "Succeeded"}, counts(0, 0, 1), {}, True, id="ended"),
        pytest.param(UNREADY, counts(0, 1, 2), {}, False, id="unready, budget not kept"),
        pytest.param(UNREADY, counts(0, 2, 2), {}, True, id="unready, budget kept"),
        pytest.param(UNREADY, counts(0, 1, 2), {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, True, id="unready, always allowed"),
        pytest.param(HEALTHY, counts(0, 2, 2), {"unhealthyPodEvictionPolicy": "AlwaysAllow"}, False, id="ready all the same"),
    ],
)  # fmt: skip
def test_which_pods_a_budget_guards(status: Json, budget_counts: Json | None, spec: Json, passes: bool) -> None:
    world = world_with(status, budget_counts, **spec)
    assert evict(world).code == (201 if passes else 429)
    if budget_counts is not None and passes:
        assert "disruptedPods" not in budget_status(world)


def test_a_pod_that_is_leaving_costs_nothing() -> None:
    world = world_with(HEALTHY, counts(0, 2, 2))
    world.server.delete(PODS, "default", "a")
    assert evict(world).code == 201


def test_more_than_one_budget() -> None:
    world = world_with(HEALTHY, counts(1, 3, 2))
    world.server.create(BUDGETS, budget("c"))
    with pytest.raises(
        ServerFailure,
        match="This pod has more than one PodDisruptionBudget, which the eviction subresource does not support",
    ):
        world.server.evict("default", "a")


def test_dry_runs_leave_everything_as_it_is() -> None:
    world = world_with(HEALTHY, counts(1, 3, 2))
    before = world.server.storage.revision
    assert evict(world, query="?dryRun=All").code == 201
    assert evict(world, dryRun=["All"]).code == 201
    assert world.server.storage.revision == before


def test_a_refused_precondition_has_spent_the_budget() -> None:
    world = world_with(HEALTHY, counts(1, 3, 2))
    said = evict(world, preconditions={"uid": "x"})
    assert said.code == 409
    assert said.message.startswith('Operation cannot be fulfilled on Pod "a": the UID in the precondition (x)')
    assert budget_status(world)["disruptionsAllowed"] == 0


def test_the_grace_of_an_eviction() -> None:
    world = world_with(HEALTHY, None)
    world.server.evict("default", "a", grace=7)
    found = world.server.get(PODS, "default", "a")
    assert found is not None
    assert found["metadata"]["deletionGracePeriodSeconds"] == 7


def test_evictions_that_name_the_wrong_thing() -> None:
    world = world_with(HEALTHY, None)
    assert evict(world, "other").message == "name in URL does not match name in Eviction object"
    with pytest.raises(NotFound):
        world.server.evict("default", "none")
    wrong = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "a"}}
    assert world.ask("POST", "/api/v1/namespaces/default/pods/a/eviction", wrong).code == 400
