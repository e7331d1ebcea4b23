"""Random fleets under random budgets, drained on several nodes at once, on the embedded cluster in virtual time."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.embedded import DISRUPTION_BUDGETS, Json
from tests.build.drains import QUICK, Drains
from tests.build.examples import examples
from tests.build.workloads import World, budget, deployment, is_leaving, stateful_set, template

APPS = "abc"
NODES = 5
LONG, TRIALS = 900.0, 40

bounds = st.one_of(
    st.none(),
    st.builds(lambda count: {"maxUnavailable": count}, st.sampled_from([0, 1, 2, "25%", "50%"])),
    st.builds(lambda count: {"minAvailable": count}, st.sampled_from([0, 1, 2, "50%", "100%"])),
)
apps = st.tuples(st.sampled_from([deployment, stateful_set]), st.integers(1, 7), bounds, st.sampled_from(["0s", "9s"]))


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(
    fleet=st.fixed_dictionaries(dict.fromkeys(APPS, apps)),
    drained=st.sets(st.integers(0, NODES - 2), min_size=1, max_size=NODES - 1),
    doubled=st.booleans(),
)
def test_whoever_can_go_goes_and_nobody_is_refused(
    fleet: dict[str, tuple[Any, int, Any, str]], drained: set[int], doubled: bool
) -> None:
    """`doubled`: the pods of one app are under two budgets, which the server does not know how to evict."""
    world = World(QUICK, nodes=NODES)
    for name, (kind, replicas, bound, starts) in fleet.items():
        world.make(kind(name, replicas, template(name, notes={"starts-after": starts})))
        if bound is not None:
            world.make(budget(name, **bound))
    if doubled:
        second = budget("a", maxUnavailable=1)
        second["metadata"]["name"] = "second"
        world.make(second)
    drains = Drains(world)
    drains.run(300)
    nodes = [f"n{number}" for number in sorted(drained)]
    kept, since = kept_so_far(world), len(world.log)
    drains.drain(*nodes)
    for _ in range(TRIALS):
        drains.run(2.3)
        nobody_waits_in_vain(drains, nodes)
    drains.run(LONG - TRIALS * 2.3)
    nobody_waits_in_vain(drains, nodes)
    left = [pod for pod in world.pods() if pod["spec"].get("nodeName") in nodes]
    stuck = {name for pod in left for name in covering(world, pod)}
    assert drains.refusals.count(429) <= len(stuck) * LONG / 30, "a budget is asked, and tried only when it is silent"
    for pod in left:
        names = covering(world, pod)
        assert len(names) > 1 or (names and closed(world, names[0])), f"nothing keeps {pod['metadata']['name']}"
    told = [change.object for change in world.log[since:] if change.resource == DISRUPTION_BUDGETS]
    assert all(is_kept(each) for each in told if each["metadata"]["name"] in kept), "a budget was violated"


def covering(world: World, pod: Json) -> list[str]:
    app = pod["metadata"]["labels"]["app"]
    found = world.objects.list(DISRUPTION_BUDGETS, "default")
    return [each["metadata"]["name"] for each in found if each["spec"]["selector"]["matchLabels"]["app"] == app]


def closed(world: World, name: str) -> bool:
    status = world.status(DISRUPTION_BUDGETS, name)
    return bool(status["disruptionsAllowed"] == 0)


def nobody_waits_in_vain(drains: Drains, nodes: list[str]) -> None:
    """Assert at rest that every remaining pod is terminating, behind a closed budget, or behind several budgets."""
    for pod in drains.world.pods():
        if pod["spec"].get("nodeName") in nodes and not is_leaving(pod):
            names = covering(drains.world, pod)
            assert len(names) > 1 or (names and closed(drains.world, names[0])), f"{pod['metadata']['name']} waits"


def kept_so_far(world: World) -> set[str]:
    """Return the budgets whose pods are healthy enough."""
    found = world.objects.list(DISRUPTION_BUDGETS, "default")
    return {each["metadata"]["name"] for each in found if is_kept(each)}


def is_kept(each: Json) -> bool:
    return bool(each["status"]["currentHealthy"] >= each["status"]["desiredHealthy"])
