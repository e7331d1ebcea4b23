"""Fields and conditions that packages have got since skyhook v0.16, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import NODES, Json
from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.options import Options
from tests.build.skyhooks import pkg
from tests.build.units import Units
from tests.build.workloads import pod

TAINT = {"key": "skyhook.nvidia.com", "value": "runtime-required", "effect": "NoSchedule"}
BOTH = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.word)
PACKAGES = {"base": pkg()}


# The cordon of nodes that lose the taint


def tainted(group: Group, options: Options | None = None, **more: Any) -> Units:
    ops = Units(options)
    ops.world.change_taints("n0", [TAINT])
    spec = {"runtimeRequired": True, "runtimeRequiredCordonAfter": True, **more}
    return ops.create(group, PACKAGES, **spec)


def is_cordoned(ops: Units) -> bool:
    return bool(ops.node("n0")["spec"].get("unschedulable"))


def taints(ops: Units) -> list[str]:
    return [each["key"] for each in ops.node("n0")["spec"].get("taints", [])]


def mark(ops: Units, group: Group) -> str | None:
    found: str | None = ops.node("n0")["metadata"]["annotations"].get(f"{group.prefix}runtimeRequiredCordon")
    return found


@BOTH
@pytest.mark.parametrize("options", [Options(), Options(alone=False)], ids=["drop-in", "together"])
def test_a_node_is_cordoned_when_it_loses_the_taint(group: Group, options: Options) -> None:
    ops = tainted(group, options)
    ops.run(60)
    assert ops.counts(group) == ("complete", "1/1")
    assert (is_cordoned(ops), mark(ops, group)) == (True, "true")
    assert TAINT["key"] not in taints(ops)
    assert ops.failures == []
    before = len(ops.writes)
    ops.run(120)
    assert ops.writes[before:] == []


def test_in_one_write_with_the_taint() -> None:
    ops = tainted(NODEWRIGHT)
    seen: list[Json] = []
    ops.world.objects.subscribe(NODES, lambda change: seen.append(change.object["spec"]))
    ops.run(60)
    free = [spec for spec in seen if not spec.get("unschedulable") and TAINT not in spec.get("taints", [])]
    assert free == []


@BOTH
def test_the_cordon_outlasts_an_interrupt_and_ends_with_an_uncordon_by_hand(group: Group) -> None:
    ops = tainted(group)
    ops.run(60)
    ops.change(group, {"spec": {"packages": {"base": pkg("1.1.0", interrupt={"type": "noop"})}}}).run(90)
    assert (ops.counts(group), is_cordoned(ops), mark(ops, group)) == (("complete", "1/1"), True, "true")
    assert not [key for key in ops.keys("n0", group) if "cordon" in key]
    ops.change_node("n0", {"spec": {"unschedulable": None}}).run(10)
    assert (is_cordoned(ops), mark(ops, group)) == (False, None)
    ops.change(group, {"spec": {"packages": {"base": {"version": "1.2.0"}}}}).run(90)
    assert (ops.counts(group), is_cordoned(ops)) == (("complete", "1/1"), False)


@BOTH
def test_a_package_with_an_interrupt_leaves_the_node_cordoned(group: Group) -> None:
    ops = Units()
    ops.world.change_taints("n0", [TAINT])
    packages = {"base": pkg(interrupt={"type": "noop"})}
    ops.create(group, packages, runtimeRequired=True, runtimeRequiredCordonAfter=True).run(90)
    assert (ops.counts(group), is_cordoned(ops), mark(ops, group)) == (("complete", "1/1"), True, "true")
    assert TAINT["key"] not in taints(ops)


@BOTH
def test_without_the_taint_no_node_is_cordoned(group: Group) -> None:
    ops = Units().create(group, PACKAGES, runtimeRequired=True, runtimeRequiredCordonAfter=True)
    ops.run(60)
    assert (ops.counts(group), is_cordoned(ops), mark(ops, group)) == (("complete", "1/1"), False, None)


def test_a_cordon_of_the_original_that_is_shared_stays() -> None:
    ops = Units()
    ops.create(NODEWRIGHT, {"base": pkg(interrupt={"type": "noop"})}).run(5)
    annotations = {f"{NODEWRIGHT.prefix}runtimeRequiredCordon": "true"}
    ops.change_node("n0", {"metadata": {"annotations": annotations}, "spec": {"unschedulable": True}}).run(90)
    assert (ops.counts(NODEWRIGHT), is_cordoned(ops)) == (("complete", "1/1"), True)


@pytest.mark.parametrize(("group", "is_tainted"), [(SKYHOOK, False), (NODEWRIGHT, True)], ids=["skyhook", "nodewright"])
def test_the_taint_comes_back_before_everything_runs_again_after_a_reboot(group: Group, is_tainted: bool) -> None:
    ops = Units(Options(reapply_on_reboot=True))
    ops.create(group, PACKAGES, runtimeRequired=True, autoTaintNewNodes=True).run(60)
    assert (ops.counts(group), taints(ops)) == (("complete", "1/1"), [])
    seen: list[tuple[bool, bool]] = []

    def see(change: Any) -> None:
        notes = change.object["metadata"].get("annotations", {})
        seen.append((f"{group.prefix}nodeState_demo" in notes, bool(change.object["spec"].get("taints"))))

    ops.world.objects.subscribe(NODES, see)
    ops.world.objects.patch(NODES, "", "n0", {"status": {"nodeInfo": {"bootID": "other"}}}, subresource="status")
    ops.run(60)
    assert (ops.counts(group), taints(ops)) == (("complete", "1/1"), [])
    assert {has_taint for has_state, has_taint in seen if not has_state} == {is_tainted}


def test_the_notes_of_the_original_about_a_drain_are_removed_with_the_drain() -> None:
    ops = Units()
    ops.change_node(
        "n0", {"metadata": {"annotations": {f"{NODEWRIGHT.prefix}drainStart_demo": "2026-01-01T00:00:00Z"}}}
    )
    ops.create(NODEWRIGHT, {"base": pkg(interrupt={"type": "noop"})}).run(90)
    assert ops.counts(NODEWRIGHT) == ("complete", "1/1")
    assert not [key for key in ops.keys("n0", NODEWRIGHT) if "drain" in key]


# Conditions without a prefix


@BOTH
def test_an_uninstallation_that_fails_is_a_condition(group: Group) -> None:
    ops = Units(Options(executor="pods")).create(group, {"base": pkg(uninstall={"enabled": True})})
    ops.run(60)
    ops.fate = lambda about: "fail"
    ops.change(group, {"spec": {"packages": {"base": {"uninstall": {"apply": True}}}}}).run(20)
    assert ops.has_condition(group, "UninstallInProgress") == ("True", "UninstallInProgress")
    assert ops.has_condition(group, "UninstallFailed") == ("True", "UninstallPodFailing")
    ops.finish(ops.pods()[0])
    ops.run(60)
    assert ops.has_condition(group, "UninstallInProgress") is None
    assert ops.has_condition(group, "UninstallFailed") is None


@BOTH
def test_a_dependency_that_is_uninstalled_blocks(group: Group) -> None:
    packages = {"base": pkg(uninstall={"enabled": True, "apply": True}), "more": pkg(dependsOn={"base": "1.0.0"})}
    ops = Units().create(group, packages)
    ops.run(60)
    assert ops.has_condition(group, "Blocked") == ("True", "DependencyUninstalled")


@BOTH
def test_protected_pods_block(group: Group) -> None:
    ops = Units()
    ops.world.make(pod("busy", nodeName="n0"))
    selector = {"matchLabels": {"app": "busy"}}
    ops.create(group, {"base": pkg(interrupt={"type": "noop"})}, podNonInterruptLabels=selector).run(30)
    assert ops.has_condition(group, "Blocked") == ("True", "NonInterruptPodsRunning")
    (found,) = (each for each in (ops.object(group) or {})["status"]["conditions"] if each["type"] == "Blocked")
    assert found["message"] == "1 node blocked by non-interrupt pods (n0). Waiting."
    assert any("non-interrupt pods run on n0" in text for text in ops.told)


@BOTH
def test_entries_that_cannot_be_parsed_are_a_condition(group: Group) -> None:
    ops = Units(nodes=2).create(group, PACKAGES)
    ops.run(60)
    bad = {f"{group.prefix}nodeState_demo": "{"}
    ops.change_node("n1", {"metadata": {"annotations": bad}}).run(10)
    assert ops.has_condition(group, "NodeStateMalformed") == ("True", "ParseError")
    assert ops.has_condition(group, f"{group.prefix}NodeStateMalformed") == ("True", "NodeStateMalformed")


@BOTH
@pytest.mark.parametrize(
    ("note", "reason"), [("pause", "PausedWithPendingUninstall"), ("disable", "DisabledWithPendingUninstall")]
)
def test_what_keeps_a_deletion_is_a_condition_and_an_event(group: Group, note: str, reason: str) -> None:
    ops = Units().create(group, {"base": pkg(uninstall={"enabled": True})})
    ops.run(60)
    ops.annotate(group, **{note: "true"}).remove(group).run(20)
    assert ops.has_condition(group, "DeletionBlocked") == ("True", reason)
    assert any(reason in text for text in ops.told)
    ops.annotate(group, **{note: None}).run(60)
    assert ops.object(group) is None


@BOTH
def test_a_long_list_of_nodes_is_left_out_of_the_condition(group: Group) -> None:
    ops = Units(nodes=11).create(group, PACKAGES, interruptionBudget={"percent": 100})
    ops.run(60)
    (found,) = (each for each in (ops.object(group) or {})["status"]["conditions"] if each["type"] == "Ready")
    assert found["message"] == "11/11 nodes complete (list truncated; see controller logs)"
