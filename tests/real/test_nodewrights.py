"""Skyhooks and NodeWrights on the real API server: each promise about two groups, in one scene of its own."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, Group
from tests.build.examples import rotating
from tests.real.profiles import Sampled, sampled
from tests.rig.api import CRDS, Json
from tests.rig.crash import Run, leases_and_events_apart
from tests.rig.faults import FaultProxy, Write
from tests.rig.plane import ControlPlane
from tests.rig.rights import printed
from tests.rig.units import JOBS, MANAGED, PATHS, POLICIES, UnitWorld, define, entry, pkg
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

S, N = SKYHOOK.prefix, NODEWRIGHT.prefix
GROUP = pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.word)
WAYS = pytest.mark.parametrize(("first", "second"), [(SKYHOOK, NODEWRIGHT), (NODEWRIGHT, SKYHOOK)], ids=["S-N", "N-S"])
ALPHA: Json = {"alpha": pkg()}
DONE = {"alpha|1.2.3": "config/complete"}
REBOOT = {"type": "reboot"}
TAINTS = {group: {"key": group.name, "value": "runtime-required", "effect": "NoSchedule"} for group in GROUPS}
ONE_AT_A_TIME: Json = {"default": {"budget": {"count": 1}, "strategy": {"fixed": {"initialBatch": 1}}}}


@pytest.fixture
def world(managed_plane: ControlPlane, managed_namespace: str, tmp_path: Path) -> Iterator[UnitWorld]:
    define(managed_plane.api())
    with UnitWorld(managed_plane, managed_namespace, tmp_path) as made:
        yield made


def settled(world: UnitWorld, group: Group, nodes: int = 2, packages: Json | None = None, **more: Any) -> list[str]:
    """Return the nodes of a unit that is complete on all of them."""
    names = world.nodes(nodes)
    world.start()
    world.create(group, packages or ALPHA, **more)
    world.await_complete(group, nodes)
    return names


def joined(world: UnitWorld, group: Group, nodes: int = 2) -> None:
    """Create the object of the other group, and wait until the nodes have the keys of both."""
    world.create(group, ALPHA)
    world.await_equal(lambda: world.counts(group), ("complete", f"{nodes}/{nodes}"))
    names = [f"{world.name}-n{number}" for number in range(1, nodes + 1)]
    world.await_equal(lambda: [world.entries(name, each) for name in names for each in GROUPS], [DONE] * 2 * nodes)


@pytest.mark.timeout(300)
@WAYS
def test_a_settled_pair_is_not_written_for_a_minute(world: UnitWorld, first: Group, second: Group) -> None:
    names = settled(world, first)
    joined(world, second)
    assert world.is_quiet()
    before = [each["metadata"]["resourceVersion"] for each in (world.read(first), world.read(second))]
    count = world.writes()
    time.sleep(60)
    assert world.writes() == count
    assert [each["metadata"]["resourceVersion"] for each in (world.read(first), world.read(second))] == before
    assert [world.entries(name, group) for name in names for group in GROUPS] == [DONE] * 4


@GROUP
def test_a_group_alone_has_its_own_names(world: UnitWorld, group: Group) -> None:
    (other,) = (each for each in GROUPS if each is not group)
    names = settled(world, group)
    assert world.read(group)["metadata"]["finalizers"] == [group.finalizer]
    assert world.condition(group, "Ready") == ("True", "NodesConverged")
    kind = f"{group.prefix}{world.name}/NotReady"
    world.await_equal(lambda: [kind in world.keys(name, group) for name in names], [True] * 2)
    for name in names:
        assert world.entries(name, group) == DONE
        assert world.api.get("nodes", name)["metadata"]["labels"][f"{group.prefix}status_{world.name}"] == "complete"
        assert world.keys(name, other) == set()
    assert sorted(world.trail()) == ["alpha/apply"] * 2 + ["alpha/config"] * 2
    assert world.owners() == {group.kind}
    assert world.is_quiet()


def test_units_of_both_groups_share_nodes(world: UnitWorld) -> None:
    (first, second) = (f"{world.name}-a", f"{world.name}-b")
    names = world.nodes(3)
    crowds = InProgress(first, second)
    with sampled(world.plane, f"{MANAGED}={world.name}", crowds):
        world.start()
        world.create(SKYHOOK, ALPHA, first, interruptionBudget={"count": 1})
        world.create(NODEWRIGHT, ALPHA, second, interruptionBudget={"count": 1})
        eventually(lambda: is_complete(world, SKYHOOK, first, len(names)), f"{first} is complete")
        eventually(lambda: is_complete(world, NODEWRIGHT, second, len(names)), f"{second} is complete")
    assert crowds.crowds == {first: 1, second: 1}


def is_complete(world: UnitWorld, group: Group, name: str, nodes: int) -> bool:
    return bool(world.api.get(PATHS[group], name).get("status", {}).get("completeNodes") == f"{nodes}/{nodes}")


class InProgress(Sampled):
    """How many nodes of each unit are in progress at once, at most."""

    def __init__(self, *units: str) -> None:
        super().__init__()
        self.crowds = dict.fromkeys(units, 0)
        self._nodes: dict[str, set[str]] = {unit: set() for unit in units}

    def take(self, event: Json) -> None:
        if event["type"] not in ("ADDED", "MODIFIED"):
            return
        metadata = event["object"]["metadata"]
        notes = metadata.get("annotations", {})
        for unit, inside in self._nodes.items():
            statuses = {notes.get(f"{group.prefix}status_{unit}") for group in GROUPS}
            (inside.add if "in_progress" in statuses else inside.discard)(metadata["name"])
            self.crowds[unit] = max(self.crowds[unit], len(inside))


@WAYS
def test_a_rename_of_a_complete_unit_runs_nothing(world: UnitWorld, first: Group, second: Group) -> None:
    names = settled(world, first)
    made = world.trail()
    joined(world, second)
    assert world.counts(first) == ("complete", "2/2")
    assert world.is_quiet()
    mine = {f"{first.prefix}pool": "x", f"{first.prefix}ignore": "false"}
    world.api.patch("nodes", names[1], {"metadata": {"labels": mine}, "spec": {"unschedulable": True}})
    world.remove(first)
    world.await_gone(first, 10)
    world.await_equal(lambda: [world.keys(name, first) for name in names], [set()] * 2)
    assert mine.items() <= world.api.get("nodes", names[1])["metadata"]["labels"].items()
    assert [world.is_cordoned(name) for name in names] == [False, True]
    assert [world.entries(name, second) for name in names] == [DONE] * 2
    assert (world.trail(), world.owners()) == (made, {second.kind})
    assert world.is_quiet()


@WAYS
def test_a_stage_that_runs_during_the_rename_stays_and_counts_once(
    world: UnitWorld, first: Group, second: Group
) -> None:
    node = world.node()
    world.kubelet.works = lambda stage: False
    world.start()
    world.create(first, {"alpha": pkg(configMap={"k": "v"})})
    stage = world.await_stage("apply")
    assert stage.executor == world.pod_name("alpha", "1.2.3", "apply", node)
    world.swap(first, second)
    world.await_gone(first)
    assert [each.uid for each in world.kubelet.stages()] == [stage.uid]
    assert world.entries(node, second) == {"alpha|1.2.3": "apply/in_progress"}
    world.kubelet.works = lambda stage: True
    world.await_complete(second)
    assert world.trail() == ["alpha/apply", "alpha/config"]
    config = world.api.get("configmaps", f"{world.name}-alpha-1.2.3", world.namespace)
    assert [each["kind"] for each in config["metadata"]["ownerReferences"]] == [second.kind]
    assert config["metadata"]["labels"][f"{second.prefix}name"] == world.name
    assert (world.keys(node, first), world.owners(), world.is_cordoned(node)) == (set(), {second.kind}, False)


@WAYS
def test_an_interrupt_that_is_not_recorded_keeps_its_identity(world: UnitWorld, first: Group, second: Group) -> None:
    node = world.node()
    world.kubelet.works = lambda stage: stage.stage != "interrupt"
    world.start()
    world.create(first, {"alpha": pkg(interrupt=REBOOT)})
    before = world.await_stage("interrupt")
    world.swap(first, second)
    world.await_gone(first)
    world.api.patch("nodes", node, {"status": {"nodeInfo": {"bootID": "another"}}}, sub="status")
    world.kubelet.lose(before)
    after = eventually(
        lambda: next((each for each in world.kubelet.stages() if each.uid != before.uid), None), "the interrupt is back"
    )
    assert (after.stage, after.identity) == ("interrupt", before.identity)
    world.kubelet.works = lambda stage: True
    world.await_complete(second)
    assert [world.trail().count(f"alpha/{stage}") for stage in ("apply", "config", "post-interrupt")] == [1, 1, 1]
    marks = {key for group in GROUPS for key in world.keys(node, group) if "cordon" in key or "resourceId" in key}
    assert (world.is_cordoned(node), marks) == (False, set())


KILLS = 6


@pytest.mark.timeout(600)
@WAYS
@pytest.mark.parametrize("stage", ["apply", "interrupt"])
@pytest.mark.parametrize("offset", rotating(range(KILLS), KILLS))
def test_an_operator_that_is_killed_at_writes_of_the_rename_is_replaced(
    managed_plane: ControlPlane,
    managed_namespace: str,
    tmp_path: Path,
    first: Group,
    second: Group,
    stage: str,
    offset: int,
) -> None:
    """At one write in so many, in turn before and after it. A run tries one sample, another one each day."""
    define(managed_plane.api())
    counted: list[int] = []

    def kills(write: Write) -> bool:
        if not counted:
            return False
        return ((write.number - counted[0] - offset) % KILLS, write.moment) in ((0, "before"), (KILLS // 2, "after"))

    with (
        FaultProxy(managed_plane) as proxy,
        UnitWorld(managed_plane, managed_namespace, tmp_path, server=proxy.url) as world,
    ):
        node = world.node()
        world.kubelet.works = lambda each: each.stage != stage
        with Run(proxy, world.ready_operator().process, leases_and_events_apart, kills) as run:
            world.create(first, {"alpha": pkg(interrupt=REBOOT, configMap={"k": "v"})})
            pod = world.await_stage(stage)
            counted.append(len(run.writes))
            world.swap(first, second)
            world.await_gone(first)
            assert [each.uid for each in world.kubelet.stages()] == [pod.uid]
            world.kubelet.works = lambda each: True
            world.await_complete(second)
            assert run.killed_at is not None
        assert world.trail() == [f"alpha/{each}" for each in ("apply", "config", "interrupt", "post-interrupt")]
        assert (world.keys(node, first), world.owners(), world.is_cordoned(node)) == (set(), {second.kind}, False)


def test_a_nodewright_with_another_spec_is_in_force_until_it_is_deleted(world: UnitWorld) -> None:
    packages = {"alpha": pkg(), "beta": pkg("1.0.0")}
    names = settled(world, SKYHOOK, packages=packages)
    made = len(world.made())
    world.create(NODEWRIGHT, {**packages, "alpha": pkg("1.3.0")})
    world.await_complete(NODEWRIGHT, 2)
    wanted = {"alpha|1.3.0": "config/complete", "beta|1.0.0": "config/complete"}
    world.await_equal(lambda: [world.entries(name, NODEWRIGHT) for name in names], [wanted] * 2)
    assert sorted(world.trail()[made:]) == ["alpha/config"] * 2 + ["alpha/upgrade"] * 2
    world.await_equal(lambda: world.condition(SKYHOOK, "Superseded"), ("True", "SameNameInOtherGroup"))
    world.await_equal(lambda: world.status(SKYHOOK).get("nodeState"), world.status(NODEWRIGHT).get("nodeState"))
    made = len(world.made())
    world.set_packages(SKYHOOK, beta={"version": "2.0.0"})
    world.never(lambda: len(world.made()) != made, "a spec that is not in force is carried out")
    world.set_packages(SKYHOOK, beta={"version": "1.0.0"})
    world.remove(NODEWRIGHT)
    world.await_gone(NODEWRIGHT)
    world.await_complete(SKYHOOK, 2)
    # A downgrade of a Skyhook's package uninstalls the higher version first.
    assert sorted(set(world.trail()[made:])) == ["alpha/apply", "alpha/config", "alpha/uninstall"]
    wanted = {"alpha|1.2.3": "config/complete", "beta|1.0.0": "config/complete"}
    world.await_equal(lambda: [world.entries(name, SKYHOOK) for name in names], [wanted] * 2)
    assert world.condition(SKYHOOK, "Superseded") is None


def test_a_pause_of_either_object_pauses_the_unit(world: UnitWorld) -> None:
    world.node()
    world.start()
    world.create(SKYHOOK, ALPHA, annotations={f"{S}pause": "true"})
    world.create(NODEWRIGHT, ALPHA)
    world.await_equal(lambda: [world.counts(group)[0] for group in GROUPS], ["paused"] * 2)
    world.never(world.made, "a paused unit begins something")
    world.annotate(SKYHOOK, pause=None)
    for group in GROUPS:
        world.await_complete(group)


def test_only_the_deletion_of_the_last_object_uninstalls(world: UnitWorld) -> None:
    packages = {"alpha": pkg(uninstall={"enabled": True})}
    node = world.node()
    world.start()
    for group in GROUPS:
        world.create(group, packages)
    world.await_complete(NODEWRIGHT)
    world.remove(SKYHOOK)
    world.await_gone(SKYHOOK)
    world.create(SKYHOOK, packages)
    world.await_equal(lambda: world.counts(SKYHOOK), ("complete", "1/1"))
    world.remove(NODEWRIGHT)
    world.await_gone(NODEWRIGHT)
    assert world.trail() == ["alpha/apply", "alpha/config"]
    world.swap(SKYHOOK, NODEWRIGHT)
    world.await_gone(SKYHOOK)
    world.await_equal(lambda: world.counts(NODEWRIGHT), ("complete", "1/1"))
    world.remove(NODEWRIGHT)
    world.await_gone(NODEWRIGHT)
    assert world.trail()[2:] == ["alpha/uninstall"]
    assert [world.keys(node, group) for group in GROUPS] == [set(), set()]


@pytest.mark.parametrize(("group", "entries"), [(SKYHOOK, {}), (NODEWRIGHT, DONE)], ids=["skyhook", "nodewright"])
def test_a_removed_package_is_uninstalled_for_a_skyhook_alone(
    world: UnitWorld, group: Group, entries: dict[str, str]
) -> None:
    beta = {"beta|1.0.0": "config/complete"}
    (node,) = settled(world, group, 1, {**ALPHA, "beta": pkg("1.0.0")})
    made = len(world.made())
    world.set_packages(group, alpha=None)
    world.await_complete(group)
    world.await_equal(lambda: world.entries(node, group), {**entries, **beta})
    assert world.trail()[made:] == ["alpha/uninstall"] * (group is SKYHOOK)


# What the original leaves behind


def test_a_mirrored_skyhook_leads_and_its_mirror_follows(world: UnitWorld) -> None:
    node = world.node()
    world.inherited(ALPHA)
    world.mirror({"alpha": {**pkg(), "uninstall": {"enabled": False}}}, interruptionBudget={})
    world.stamp(node, SKYHOOK, entry("1.0.0"))
    world.stamp(node, NODEWRIGHT, entry())
    world.tell(NODEWRIGHT, {node: entry()})
    world.start()
    world.await_equal(lambda: world.counts(SKYHOOK), ("complete", "1/1"), 10)
    assert world.is_quiet()
    assert world.made() == []
    world.set_packages(SKYHOOK, alpha={"version": "1.3.0"})
    world.await_complete(SKYHOOK)
    wanted = {"alpha|1.3.0": "config/complete"}
    world.await_equal(lambda: [world.entries(node, group) for group in GROUPS], [wanted] * 2)
    world.await_equal(lambda: world.read(NODEWRIGHT)["spec"]["packages"]["alpha"]["version"], "1.3.0")
    world.restart()
    assert world.is_quiet()
    assert world.condition(SKYHOOK, "Superseded") is None


def test_an_edited_mirror_leads(world: UnitWorld) -> None:
    node = world.node()
    world.inherited(ALPHA)
    world.mirror({"alpha": pkg("1.3.0")})
    world.stamp(node, SKYHOOK, entry())
    world.stamp(node, NODEWRIGHT, entry("1.3.0"))
    world.tell(NODEWRIGHT, {node: entry("1.3.0")})
    world.start()
    world.await_equal(lambda: world.condition(SKYHOOK, "Superseded"), ("True", "SameNameInOtherGroup"))
    world.await_equal(lambda: [world.counts(group) for group in GROUPS], [("complete", "1/1")] * 2)
    assert world.is_quiet()
    assert (world.made(), world.entries(node, NODEWRIGHT)) == ([], {"alpha|1.3.0": "config/complete"})


def test_a_rollout_that_the_original_holds_goes_on(world: UnitWorld) -> None:
    node, fresh = world.nodes(2)
    world.kubelet.works = lambda stage: False
    packages = {"alpha": pkg(interrupt={"type": "noop"})}
    owner = world.inherited(packages, interruptionBudget={"count": 1})
    world.mirror(packages, interruptionBudget={"count": 1})
    begun = entry(stage="apply", state="in_progress")
    world.api.patch("nodes", node, {"spec": {"unschedulable": True}})
    world.stamp(node, SKYHOOK, begun, status="in_progress", cordon="true")
    world.tell(SKYHOOK, {node: begun}, status="in_progress")
    pod = world.leave_pod(owner, "apply", node)
    world.start()
    world.await_equal(lambda: world.counts(NODEWRIGHT)[0], "in_progress")
    world.never(lambda: [each.uid for each in world.kubelet.stages()] != [pod["metadata"]["uid"]], "a second pod")
    assert world.is_cordoned(node)
    world.kubelet.works = lambda stage: True
    world.await_complete(SKYHOOK, 2)
    stages = [each.stage for each in world.made() if each.node == node]
    assert stages == ["config", "interrupt", "post-interrupt"]
    for name in (node, fresh):
        cordons = {key for group in GROUPS for key in world.keys(name, group) if "cordon" in key}
        assert (world.is_cordoned(name), cordons) == (False, set())


def test_a_suspended_job_of_a_paused_nodewright_runs_on_after_the_pause(world: UnitWorld) -> None:
    node = world.node()
    notes = {f"{N}pause": "true", f"{N}version": "v0.20.0"}
    owner = world.create(NODEWRIGHT, ALPHA, annotations=notes, finalizers=[NODEWRIGHT.finalizer])
    begun = entry(stage="apply", state="in_progress")
    world.stamp(node, NODEWRIGHT, begun, status="in_progress")
    world.tell(NODEWRIGHT, {node: begun}, status="paused", nodePriority={node: "2026-10-01T00:00:00Z"})
    job = world.leave_job(owner, "apply", node, suspend=True)
    world.start()
    world.never(lambda: world.kubelet.stages() or world.made(), "a paused unit runs something")
    world.annotate(NODEWRIGHT, pause=None)
    world.await_complete(NODEWRIGHT)
    assert world.trail() == ["alpha/config"]
    kept = world.api.get(JOBS, job["metadata"]["name"], world.namespace)
    assert kept["metadata"]["uid"] == job["metadata"]["uid"]
    assert kept["metadata"]["annotations"][f"{N}state-recorded"] == "true"


def test_a_finished_job_is_recorded_once(world: UnitWorld) -> None:
    node = world.node()
    notes = {f"{N}version": "v0.20.0"}
    owner = world.create(NODEWRIGHT, ALPHA, annotations=notes, finalizers=[NODEWRIGHT.finalizer])
    begun = entry(stage="apply", state="in_progress")
    world.stamp(node, NODEWRIGHT, begun, status="in_progress")
    world.tell(NODEWRIGHT, {node: begun}, status="in_progress", nodePriority={node: "2026-10-01T00:00:00Z"})
    job = world.leave_job(owner, "apply", node)
    name = job["metadata"]["name"]
    eventually(
        lambda: world.api.get(JOBS, name, world.namespace)["status"].get("succeeded") == 1, "the Job is complete"
    )
    world.start()
    world.await_complete(NODEWRIGHT)
    assert world.trail() == ["alpha/config"]
    writes = world.plane.audit.entries(since=world.since, user="operator", what="jobs", verb="patch")
    recorded = [each for each in writes if each.name == name and f"{N}state-recorded" in json.dumps(each.body)]
    assert len(recorded) == 1


@pytest.mark.parametrize("conditions", [False, True], ids=["the stamp", "the conditions"])
def test_what_the_original_left_on_nodes_is_left_alone(world: UnitWorld, conditions: bool) -> None:
    """The stamp is that of the first operator. Those since v0.16 have written the condition, too."""
    node = world.node()
    world.inherited(ALPHA, "v0.13.0" if conditions else "v0.17.1")
    entries = entry() | entry("1.0.0", name="beta")
    world.stamp(node, SKYHOOK, entries)
    ready = {"type": "Ready", "status": "True", "reason": "NodesConverged", "message": "", "lastTransitionTime": AT}
    world.tell(SKYHOOK, {node: entries}, conditions=[ready] if conditions else [])
    world.start()
    world.await_equal(lambda: world.counts(SKYHOOK), ("complete", "1/1"))
    assert world.is_quiet()
    world.restart()
    assert world.is_quiet()
    assert world.made() == []
    world.set_packages(SKYHOOK, alpha=None)
    world.await_equal(lambda: world.entries(node, SKYHOOK), {"beta|1.0.0": "config/complete"})
    assert world.trail() == ["alpha/uninstall"]


AT = "2026-10-01T00:00:00Z"


def test_the_prefix_of_the_object_whose_status_is_newer_counts(world: UnitWorld) -> None:
    node = world.node()
    packages = {"alpha": pkg("1.3.0", interrupt=REBOOT)}
    stale, live = entry(stage="post-interrupt"), entry("1.3.0", stage="post-interrupt")
    world.inherited(packages)
    world.mirror(packages)
    world.stamp(node, NODEWRIGHT, stale)
    world.stamp(node, SKYHOOK, live)
    world.tell(NODEWRIGHT, {node: stale})
    # Times of managed fields have seconds.
    eventually(lambda: seconds_of(world, NODEWRIGHT) < seconds_of_server(world), "a second has passed")
    world.tell(SKYHOOK, {node: live})
    world.start()
    world.await_equal(lambda: [world.counts(group) for group in GROUPS], [("complete", "1/1")] * 2)
    assert world.is_quiet()
    assert world.made() == []
    wanted = {"alpha|1.3.0": "post-interrupt/complete"}
    assert [world.entries(node, group) for group in GROUPS] == [wanted] * 2
    assert not world.is_cordoned(node)


def seconds_of(world: UnitWorld, group: Group) -> str:
    fields = world.read(group)["metadata"]["managedFields"]
    return max(str(each["time"]) for each in fields if each.get("subresource") == "status")


def seconds_of_server(world: UnitWorld) -> str:
    """Return the server's time, as a dry run stamps it."""
    body = {"metadata": {"name": f"{world.name}-clock"}}
    made = world.api.request("POST", f"/api/v1/namespaces/{world.namespace}/configmaps", body, query={"dryRun": "All"})
    return str(made["metadata"]["creationTimestamp"])


# Taints, metrics, policies, drains


def test_the_usual_taints_of_both_groups_are_removed_and_tolerated(world: UnitWorld) -> None:
    names = [world.node(number, taints=(TAINTS[group],)) for number, group in enumerate(GROUPS, 1)]
    seen = world.node(3, annotations={f"{S}nodeState_other": "{}"})
    world.start()
    world.create(NODEWRIGHT, ALPHA, runtimeRequired=True, autoTaintNewNodes=True)
    world.await_complete(NODEWRIGHT, 3)
    world.await_equal(lambda: [world.api.get("nodes", name)["spec"].get("taints", []) for name in names], [[], []])
    assert f"{N}autoTaint_nodewright.nvidia.com" not in world.annotations(seen)
    pod = next(iter(world.kubelet.seen.values())).pod
    tolerated = {each.get("key") for each in pod["spec"]["tolerations"]}
    assert {group.name for group in GROUPS} <= tolerated


@pytest.mark.parametrize("is_legacy", [True, False], ids=["both", "new alone"])
def test_metrics_have_the_names_of_both_groups(world: UnitWorld, is_legacy: bool) -> None:
    world.nodes(3)
    world.start(PUBLISH_LEGACY_METRICS=str(is_legacy).lower())
    for group in GROUPS:
        world.create(group, ALPHA)
    world.await_complete(NODEWRIGHT, 3)
    assert world.operator is not None
    new, old = (
        f'{group.word}_node_target_count{{{group.word}_name="{world.name}"}}' for group in (NODEWRIGHT, SKYHOOK)
    )
    world.await_equal(lambda: world.operator and world.operator.metric(new), 3.0)
    assert world.operator.metric(old) == (3.0 if is_legacy else 0.0)
    lines = world.operator.get("/metrics")[1].splitlines()
    for series in (new, old) if is_legacy else (new,):
        assert sum(line.startswith(series) for line in lines) == 1


def test_a_policy_of_the_other_group_is_honoured(world: UnitWorld) -> None:
    world.nodes(3)
    policy = {"apiVersion": SKYHOOK.api_version, "kind": "DeploymentPolicy", "metadata": {"name": world.name}}
    world.api.create(POLICIES[SKYHOOK], {**policy, "spec": ONE_AT_A_TIME})
    crowds = InProgress(world.name)
    with sampled(world.plane, f"{MANAGED}={world.name}", crowds):
        world.start()
        world.create(NODEWRIGHT, ALPHA, deploymentPolicy=world.name)
        world.await_complete(NODEWRIGHT, 3)
    assert crowds.crowds == {world.name: 1}
    assert world.condition(NODEWRIGHT, f"{N}DeploymentPolicyNotFound") is None


def test_a_drain_that_a_budget_blocks_says_so_and_ends_at_its_timeout(world: UnitWorld) -> None:
    node = world.node()
    world.workload("held", node)
    budget = {"spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "held"}}}, "metadata": {"name": "held"}}
    path = "policy/v1/poddisruptionbudgets"
    world.api.create(path, budget, world.namespace)
    eventually(lambda: world.api.get(path, "held", world.namespace)["status"].get("currentHealthy") == 1, "it counts")
    world.start()
    packages = {"alpha": pkg(interrupt={"type": "noop"})}
    world.create(NODEWRIGHT, packages, drainConfig={"timeout": "8s"})
    world.await_equal(lambda: world.condition(NODEWRIGHT, "DrainBlocked"), ("True", "PodDisruptionBudget"))
    (text,) = (each["message"] for each in world.status(NODEWRIGHT)["conditions"] if each["type"] == "DrainBlocked")
    assert text.startswith(f"1/1 nodes blocked draining ({node}); {world.namespace}/held on {node}: Cannot evict pod")
    world.await_equal(lambda: world.counts(NODEWRIGHT)[0], "erroring")
    assert world.is_cordoned(node)
    assert world.made() == []
    eventually(lambda: any(each["reason"] == "DrainTimeout" for each in world.api.items("events")), "an event tells")


# More that follows from two groups


def test_the_definition_of_nodewrights_comes_while_the_operator_runs(world: UnitWorld) -> None:
    node = world.node()
    name = f"{NODEWRIGHT.plural}.{NODEWRIGHT.name}"
    world.api.delete(CRDS, name)
    eventually(lambda: world.api.find(CRDS, name) is None, "the definition is gone")
    try:
        world.start()
        world.create(SKYHOOK, ALPHA)
        world.await_complete(SKYHOOK)
    finally:
        define(world.api)
    # The API server serves the kind at once; the operator hears of that when its watch of the definitions tells it.
    world.create(NODEWRIGHT, ALPHA)
    world.await_equal(lambda: world.counts(NODEWRIGHT), ("complete", "1/1"), 40)
    world.await_equal(lambda: world.entries(node, NODEWRIGHT), DONE)
    assert world.trail() == ["alpha/apply", "alpha/config"]


def test_an_invalid_unit_does_not_delay_another(world: UnitWorld) -> None:
    world.node()
    world.start()
    world.create(NODEWRIGHT, {"alpha": pkg(image="reg.test/alpha:tag")}, f"{world.name}-bad", priority=1)
    world.create(NODEWRIGHT, ALPHA)
    world.await_complete(NODEWRIGHT)


def test_the_way_back_to_an_original_before_the_rename(world: UnitWorld) -> None:
    """Only the keys of skyhook remain, with the entries that an older operator knows."""
    (node,) = settled(world, NODEWRIGHT, 1)
    world.swap(NODEWRIGHT, SKYHOOK)
    world.await_gone(NODEWRIGHT)
    world.await_equal(lambda: world.counts(SKYHOOK), ("complete", "1/1"))
    assert (world.keys(node, NODEWRIGHT), world.entries(node, SKYHOOK)) == (set(), DONE)
    assert world.owners() == {"Skyhook"}
    assert {each["metadata"]["name"] for each in printed("crds", "packages")} >= {
        f"{group.plural}.{group.name}" for group in GROUPS
    }
