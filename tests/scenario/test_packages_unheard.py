"""Skyhooks some of whose nodes have not been decided about yet: writes are under way, or a new operator has not listed all."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.project import within
from haulout.kernel.requests import Body, Change
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.config_maps import PACKAGE_CONFIG
from haulout.surfaces.packages.surface import sources
from haulout.surfaces.packages.wire_policy import POLICY
from tests.build.skyhooks import AT_ONCE, SKYHOOKS, P, Skyhooks, pkg

SLOW_FOR = timedelta(seconds=4)
KINDS = sorted(source.kind for source in sources(Options()))


def slow_nodes(body: Body) -> timedelta:
    return SLOW_FOR if isinstance(body, Change) and body.target.kind == "Node" else AT_ONCE


def is_complete(ops: Skyhooks, name: str) -> bool:
    """Whether the Skyhook says of its present spec that it is complete."""
    found = ops.get(name)
    status = found.get("status", {})
    is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
    return bool(is_seen and status.get("status") == "complete")


def busy_node() -> Skyhooks:
    """Return a world in which a write to the only node is under way, for a Skyhook that comes after all others."""
    ops = Skyhooks(nodes=1)
    ops.make("demo", {"base": pkg()}).run(30)
    assert is_complete(ops, "demo")
    ops.latency = slow_nodes
    return ops.make("other", {"base": pkg()}, priority=300).run(1)


def test_an_edit_is_not_complete_before_a_busy_node_has_heard_of_it() -> None:
    ops = busy_node()
    ops.packages("demo", {"base": pkg("1.1.0")}).run(2)
    assert not is_complete(ops, "demo")
    ops.run(120)
    assert is_complete(ops, "demo")
    assert ops.trail(skyhook="demo", version="1.1.0") == ["base/upgrade", "base/config"]


def test_a_new_skyhook_is_not_complete_before_a_busy_node_has_heard_of_it() -> None:
    ops = busy_node()
    ops.make("newest", {"base": pkg()}, priority=100).run(2)
    assert ops.phase("newest") != "complete"
    ops.run(120)
    assert is_complete(ops, "newest")
    assert ops.trail(skyhook="newest") == ["base/apply", "base/config"]


def test_a_deleted_skyhook_waits_until_a_busy_node_has_been_given_back() -> None:
    ops = Skyhooks(nodes=1)
    ops.fate = lambda about: "hang"
    ops.make("demo", {"base": pkg(interrupt={"type": "noop"})}).run(20)
    assert ops.node("n0")["spec"]["unschedulable"]
    ops.latency = slow_nodes
    ops.make("other", {"base": pkg()}, priority=300).run(1)
    ops.delete("demo").run(60)
    assert ops.world.objects.get(SKYHOOKS, "", "demo") is None
    assert "unschedulable" not in ops.node("n0")["spec"]
    assert [name for name in ops.node("n0")["metadata"]["annotations"] if name.endswith("_demo")] == [
        f"{P}nodeState_demo"
    ]


@pytest.mark.parametrize("late", KINDS)
def test_a_new_operator_goes_on_with_the_stage_whatever_it_lists_last(late: str) -> None:
    """Its first look finds a pod that has succeeded since the operator before it was killed."""
    ops = Skyhooks(nodes=1)
    package = pkg(interrupt={"type": "reboot"}, configMap={"a": "1"})
    ops.make("demo", {"base": package})
    while ops.trail() != ["base/apply", "base/config"]:
        ops.run(0.5)
    ops.world.run(5)
    ops.late, ops.latency = {late: timedelta(seconds=1)}, slow_nodes
    ops.begin()
    seen = set[str]()
    for _ in range(40):
        ops.run(0.1)
        seen |= {ops.phase("demo")}
    assert "complete" not in seen
    ops.run(60)
    assert is_complete(ops, "demo")
    assert ops.trail() == ["base/apply", "base/config", "base/interrupt", "base/post-interrupt"]


@pytest.mark.parametrize("late", KINDS)
def test_a_new_operator_keeps_the_budget_whatever_it_lists_last(late: str) -> None:
    ops = Skyhooks(nodes=3)
    ops.make("demo", {"base": pkg(configMap={"a": "1"})}, interruptionBudget={"count": 1})
    while ops.trail() != ["base/apply"]:
        ops.run(0.5)
    ops.world.run(5)
    ops.late, ops.latency = {late: timedelta(seconds=1)}, slow_nodes
    ops.begin()
    ops.fate = lambda about: "hang"
    ops.run(60)
    assert {about.node for about in ops.made} == {ops.made[0].node}


def test_an_uninstalled_version_is_followed_by_the_other_whatever_a_new_operator_lists_last() -> None:
    ops = Skyhooks(nodes=1)
    ops.make("demo", {"base": pkg("2.0.0", configMap={"a": "1"})}).run(30)
    ops.packages("demo", {"base": pkg("1.0.0", configMap={"a": "1"})})
    while ops.trail()[-1] != "base/uninstall":
        ops.run(0.5)
    ops.world.run(5)
    ops.late = {within(PACKAGE_CONFIG, "skyhook"): timedelta(seconds=3)}
    ops.begin().run(60)
    assert is_complete(ops, "demo")
    assert ops.trail(version="1.0.0") == ["base/apply", "base/config"]


def test_a_new_operator_keeps_the_order_of_skyhooks_before_it_has_listed_policies() -> None:
    ops = Skyhooks(nodes=1)
    ops.fate = lambda about: "hang"
    ops.policy("careful", default={"budget": {"count": 1}, "strategy": {"fixed": {}}})
    ops.late = {POLICY: timedelta(seconds=3)}
    ops.make("first", {"base": pkg()}, priority=1, deploymentPolicy="careful")
    ops.make("second", {"base": pkg()}, priority=2)
    ops.begin().run(60)
    assert {about.skyhook for about in ops.made} == {"first"}


def test_an_interrupt_that_ended_meanwhile_serves_all_its_packages_whatever_a_new_operator_lists_last() -> None:
    ops = Skyhooks(nodes=1)
    package = pkg(interrupt={"type": "reboot"}, configMap={"a": "1"})
    ops.make("demo", {"aa": package, "bb": package})
    while "aa/interrupt" not in ops.trail():
        ops.run(0.5)
    ops.world.run(5)
    ops.late = {within(PACKAGE_CONFIG, "skyhook"): timedelta(seconds=3)}
    ops.begin().run(60)
    assert is_complete(ops, "demo")
    assert [name for name in ops.trail() if name.endswith("/interrupt")] == ["aa/interrupt"]
