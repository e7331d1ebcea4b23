"""An override lets one object pass one budget, only where admission guards overrides, and for no longer than it says."""

from __future__ import annotations

import json
from datetime import timedelta

from haulout.cluster.rows import Value
from haulout.core.action import Measure
from haulout.core.arbiter import OVERRIDDEN
from haulout.core.override import GUARD
from haulout.core.steering import OVERRIDE
from tests.build.all_surfaces import NODE_BUDGETS, AllSurfaces
from tests.build.maintenances import MAINTENANCES


def _shut(*, guarded: bool | None) -> AllSurfaces:
    """Two nodes under a budget that lets none go, and a NodeMaintenance for the first."""
    world = AllSurfaces(2)
    world.world.objects.patch(NODE_BUDGETS, "", "two", {"spec": {"maxUnavailable": 0}})
    if guarded is not None:
        world.kernel.store.write(Value(key=GUARD.key, value=guarded, state="fresh"))
    world.maintain("n0")
    world.run(10)
    assert world.cordoned() == []
    return world


def _override(world: AllSurfaces, limit: str = "two", lasts: float = 60) -> None:
    until = (world.world.time.now() + timedelta(seconds=lasts)).strftime("%Y-%m-%dT%H:%M:%SZ")
    value = json.dumps({"limit": limit, "reason": "outage", "until": until})
    body = {"metadata": {"annotations": {OVERRIDE: value}}}
    world.world.objects.patch(MAINTENANCES, "", "n0", body)
    world.run(1)


def test_the_budget_lets_the_object_pass() -> None:
    world = _shut(guarded=True)
    world.maintain("n1")
    _override(world)
    assert world.cordoned() == ["n0"]


def test_a_node_that_passes_is_counted_once() -> None:
    """A NodeMaintenance claims its node twice: to drain it, and then to have it alone."""
    world, counted = _shut(guarded=True), list[Measure]()
    world.on_statement = lambda each: counted.append(each) if isinstance(each, Measure) else None
    _override(world)
    world.run(60)
    assert not world.unfinished()["nodemaintenance"]
    assert [each.labels for each in counted if each.counter == OVERRIDDEN] == [(("budget", "two"),)]


def test_without_a_guard_it_has_no_effect() -> None:
    for guarded in (False, None):
        world = _shut(guarded=guarded)
        _override(world)
        assert world.cordoned() == []


def test_another_budget_still_holds() -> None:
    world = _shut(guarded=True)
    _override(world, "other")
    assert world.cordoned() == []


def test_it_ends_by_itself() -> None:
    world = _shut(guarded=True)
    _override(world, lasts=-5)
    assert world.cordoned() == []
    _override(world, lasts=90_000)
    assert world.cordoned() == []
