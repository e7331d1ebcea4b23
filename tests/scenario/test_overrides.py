"""An override lets one object pass one budget, only where admission guards overrides, and for no longer than it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from haulout.cluster.key import node_key
from haulout.cluster.rows import Value
from haulout.core.action import Measure
from haulout.core.arbiter import OVERRIDDEN
from haulout.core.logbook.wire import RecordedAct, read_record
from haulout.core.override import GUARD
from haulout.core.steering import OVERRIDE, OVERRIDE_BY
from haulout.embedded import NODES, Resource
from haulout.explain.node import explain
from haulout.explain.overrides import override_lines, overrides_in
from tests.build.all_surfaces import DEMO, NODE_BUDGETS, AllSurfaces
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES
from tests.build.skyhooks import SKYHOOKS

RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")


class _Owner:
    """An object that claims n0. `wish`: creates it."""

    def __init__(self, resource: Resource, namespace: str, name: str, wish: Callable[[AllSurfaces], None]) -> None:
        self.resource, self.namespace, self.name, self.wish = resource, namespace, name, wish


OWNERS = {
    "nodemaintenance": _Owner(MAINTENANCES, "", "n0", lambda world: world.maintain("n0")),
    "profiles": _Owner(NODES, "", "n0", lambda world: world.want_profile("n0")),
    "notify": _Owner(NOTICES, HOME, "n0", lambda world: world.notice("n0")),
    "packages": _Owner(SKYHOOKS, "", DEMO, lambda world: world.roll()),
}


class _Shut:
    """Nodes under a budget that lets none of them go, and an object that wants the first.

    `overrides`: the labels of the overrides that were counted.
    """

    def __init__(self, *, guarded: bool | None, owner: str = "nodemaintenance", nodes: int = 2) -> None:
        self.world = AllSurfaces(nodes, records=True)
        self.owner = OWNERS[owner]
        self.most(0)
        if guarded is not None:
            self.world.kernel.store.write(Value(key=GUARD.key, value=guarded, state="fresh"))
        self.counted: list[Measure] = []
        self.world.on_statement = lambda each: self.counted.append(each) if isinstance(each, Measure) else None
        self.owner.wish(self.world)
        self.world.run(10)
        assert self.world.cordoned() == []

    @property
    def overrides(self) -> list[tuple[tuple[str, str], ...]]:
        return [each.labels for each in self.counted if each.counter == OVERRIDDEN]

    def most(self, count: int) -> None:
        self.world.world.objects.patch(NODE_BUDGETS, "", "two", {"spec": {"maxUnavailable": count}})

    def override(self, limit: str = "two", lasts: float = 60, on: str = "") -> None:
        until = (self.world.world.time.now() + timedelta(seconds=lasts)).strftime("%Y-%m-%dT%H:%M:%SZ")
        value = json.dumps({"limit": limit, "reason": "outage", "until": until})
        author = json.dumps({"until": until, "by": "ada"})
        owner = OWNERS[on] if on else self.owner
        body = {"metadata": {"annotations": {OVERRIDE: value, OVERRIDE_BY: author}}}
        self.world.world.objects.patch(owner.resource, owner.namespace, owner.name, body)
        self.world.run(1)

    def acts(self) -> list[RecordedAct]:
        found: list[Any] = [read_record(each) for each in self.world.world.objects.list(RECORDS)]
        return [act for record in found for act in record.status.acts]


@pytest.mark.parametrize("owner", OWNERS)
def test_the_budget_lets_the_object_of_each_kind_pass(owner: str) -> None:
    shut = _Shut(guarded=True, owner=owner, nodes=1)
    shut.override(lasts=600)
    shut.world.run(120)
    assert shut.world.unfinished()[owner] == []
    assert set(shut.overrides) == {(("budget", "two"),)}


@pytest.mark.parametrize("owner", OWNERS)
def test_the_record_names_the_override_that_its_owner_used(owner: str) -> None:
    shut = _Shut(guarded=True, owner=owner, nodes=1)
    shut.override()
    shut.world.run(120)
    assert [(each.act, each.by, each.limit, each.reason) for each in shut.acts()] == [
        ("override", "ada", "two", "outage")
    ]


def test_a_record_does_not_name_the_override_of_another_object() -> None:
    shut = _Shut(guarded=True)
    shut.override(on="profiles")
    shut.most(2)
    shut.world.run(120)
    assert not shut.world.unfinished()["nodemaintenance"]
    assert shut.acts() == []


@pytest.mark.parametrize(("limit", "lasts"), [("other", 60), ("two", -5)], ids=["of another budget", "that has ended"])
def test_a_record_does_not_name_an_override_without_effect(limit: str, lasts: float) -> None:
    shut = _Shut(guarded=True)
    shut.override(limit, lasts)
    shut.most(2)
    shut.world.run(120)
    assert not shut.world.unfinished()["nodemaintenance"]
    assert shut.acts() == []


def test_only_the_object_that_overrides_passes() -> None:
    shut = _Shut(guarded=True)
    shut.world.maintain("n1")
    shut.override()
    assert shut.world.cordoned() == ["n0"]


def test_a_node_that_passes_is_counted_once() -> None:
    """A NodeMaintenance claims its node twice: to drain it, and then to have it alone."""
    shut = _Shut(guarded=True)
    shut.override()
    shut.world.run(60)
    assert not shut.world.unfinished()["nodemaintenance"]
    assert shut.overrides == [(("budget", "two"),)]


def test_an_override_that_was_not_needed_is_not_counted() -> None:
    shut = _Shut(guarded=True)
    shut.most(2)
    shut.override()
    shut.world.run(60)
    assert not shut.world.unfinished()["nodemaintenance"]
    assert shut.overrides == []


def test_an_override_that_is_not_guarded_is_not_counted() -> None:
    shut = _Shut(guarded=False)
    shut.override()
    shut.most(2)
    shut.world.run(60)
    assert not shut.world.unfinished()["nodemaintenance"]
    assert shut.overrides == []


def test_without_a_guard_it_has_no_effect() -> None:
    for guarded in (False, None):
        shut = _Shut(guarded=guarded)
        shut.override()
        assert shut.world.cordoned() == []


def test_another_budget_still_holds() -> None:
    shut = _Shut(guarded=True)
    shut.override("other")
    assert shut.world.cordoned() == []


def test_it_ends_by_itself() -> None:
    shut = _Shut(guarded=True)
    shut.override(lasts=-5)
    assert shut.world.cordoned() == []
    shut.override(lasts=90_000)
    assert shut.world.cordoned() == []


def _explained(shut: _Shut) -> list[str]:
    world = shut.world
    found = explain(world.kernel, world.enabled, node_key("n0"), world.world.time.now())
    assert found is not None
    return [reason.text for reason in found.reasons if reason.code.startswith("override-")]


def _status(shut: _Shut) -> list[str]:
    now = shut.world.world.time.now()
    return list(override_lines(overrides_in(shut.world.kernel.store, now), now))


@pytest.mark.parametrize("owner", ["nodemaintenance", "profiles", "notify"])
def test_explain_and_status_show_an_override_in_force(owner: str) -> None:
    shut = _Shut(guarded=True, owner=owner)
    # Another budget refuses, so that the object still waits.
    shut.world._create(NODE_BUDGETS, "NodeDisruptionBudget", {"name": "three"}, {"selector": {}, "maxUnavailable": 0})
    shut.world.run(1)
    shut.override()
    name = {"nodemaintenance": "NodeMaintenance n0", "profiles": "Node n0"}.get(owner, f"NotifyMaintenance {HOME}/n0")
    assert _explained(shut) == [f"{name} may pass budget two: outage"]
    assert [line.partition(" until")[0] for line in _status(shut)] == [f"OVERRIDE: {name} may pass budget two"]


@pytest.mark.parametrize(
    ("guarded", "limit", "lasts", "why"),
    [
        (False, "two", 60, "neither the webhook nor the policy that guards overrides is registered"),
        (None, "two", 60, "it is not known whether admission guards overrides"),
        (True, "other", 60, "NodeDisruptionBudget other does not exist, or does not select the node"),
        (True, "two", 90_000, "it lasts for longer than 24h"),
    ],
    ids=["unguarded", "guard unknown", "another budget", "too long"],
)
def test_explain_and_status_say_why_an_override_has_no_effect(
    guarded: bool | None, limit: str, lasts: float, why: str
) -> None:
    shut = _Shut(guarded=guarded)
    shut.override(limit, lasts)
    assert _explained(shut) == [f"the override of NodeMaintenance n0 has no effect: {why}"]
    assert _status(shut) == [f"OVERRIDE WITHOUT EFFECT: NodeMaintenance n0, budget {limit}: {why}"]


def test_explain_says_when_an_override_has_ended_and_status_forgets_it() -> None:
    shut = _Shut(guarded=True)
    shut.override(lasts=-60)
    (text,) = _explained(shut)
    assert text.startswith("the override of NodeMaintenance n0 has no effect: it ended at 20")
    assert _status(shut) == []
