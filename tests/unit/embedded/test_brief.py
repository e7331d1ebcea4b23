"""A brief world: fewer writes for a moving pod, and the same state at the end of each instant."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.embedded import DISRUPTION_BUDGETS, NODES, PODS, ActorOptions, Json, Resource
from haulout.kube.errors import TooManyRequests
from tests.build.workloads import World, budget, deployment, is_leaving


def shop(*, brief: bool) -> World:
    """A world with four pods of a Deployment, under a budget that allows one disruption at a time."""
    world = World(ActorOptions(heartbeats=False, brief=brief), nodes=2)
    world.make(deployment("shop", 4), budget("shop", maxUnavailable=1)).run()
    world.log.clear()
    return world


def names(world: World) -> list[str]:
    return [one["metadata"]["name"] for one in world.pods()]


def writes(world: World, resource: Resource, name: str) -> list[str]:
    return [one.type for one in world.log if one.resource == resource and one.object["metadata"]["name"] == name]


def states_after_each_second(world: World) -> list[tuple[list[tuple[str, bool]], Json]]:
    """Evict one pod, and return the pods and the status of the budget after each second of the next minute."""
    world.objects.evict("default", names(world)[0])
    states = []
    for _ in range(60):
        world.run(1)
        pods = [(one["metadata"]["name"], is_leaving(one)) for one in world.pods()]
        states.append((pods, world.status(DISRUPTION_BUDGETS, "shop")))
    return states


def test_an_eviction_comes_to_the_same_in_a_brief_world() -> None:
    assert states_after_each_second(shop(brief=True)) == states_after_each_second(shop(brief=False))


@pytest.mark.parametrize(
    ("brief", "of_the_pod", "of_the_budget"),
    [pytest.param(False, 5, 3, id="in full"), pytest.param(True, 2, 2, id="brief")],
)
def test_a_brief_world_writes_an_evicted_pod_and_its_budget_less_often(
    brief: bool, of_the_pod: int, of_the_budget: int
) -> None:
    world = shop(brief=brief)
    name = names(world)[0]
    world.objects.evict("default", name)
    world.run()
    assert len(writes(world, PODS, name)) == of_the_pod
    assert len(writes(world, DISRUPTION_BUDGETS, "shop")) == of_the_budget


def test_evictions_of_one_instant_spend_the_same_budget() -> None:
    world = shop(brief=True)
    first, second, *_ = names(world)
    world.objects.evict("default", first)
    with pytest.raises(TooManyRequests):
        world.objects.evict("default", second)


def test_a_replaced_pod_makes_room_for_the_next_eviction() -> None:
    world = shop(brief=True)
    first, second, *_ = names(world)
    world.objects.evict("default", first)
    world.run()
    world.objects.evict("default", second)
    world.run(0)
    assert is_leaving(world.get(PODS, second))


def test_an_evicted_pod_says_why_it_goes() -> None:
    world = shop(brief=True)
    name = names(world)[0]
    world.objects.evict("default", name)
    assert "DisruptionTarget" in [one["type"] for one in world.status(PODS, name)["conditions"]]


def test_a_brief_world_taints_a_node_that_goes_down_in_one_write() -> None:
    full, brief = shop(brief=False), shop(brief=True)
    for world in (full, brief):
        name = world.objects.list(NODES)[0]["metadata"]["name"]
        world.actors.reboot(name, timedelta(minutes=10))
        world.run(0)
    (first, *_), (second, *_) = (world.objects.list(NODES) for world in (full, brief))
    assert len(second["spec"]["taints"]) == 2
    assert second["spec"] == first["spec"]
    assert len(writes(full, NODES, name)) == len(writes(brief, NODES, name)) + 1
