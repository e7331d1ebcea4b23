"""`haulout plan` over all surfaces: maintenances, budgets, drain rules, cordons that stand, and turns between surfaces."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.cli.root import main
from haulout.embedded import Json
from haulout.plan.command import plan
from haulout.settings.settings import PlanSettings
from tests.build.workloads import budget as pod_budget
from tests.build.workloads import daemon_set, deployment, node, pod, stateful_set, template

PROFILES = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: wanted, config: {key: wanted}}
  - {type: hasLabel, name: booted, config: {key: booted}}
  trigger:
  - {type: eviction, name: drain, config: {action: drain}}
  - {type: eviction, name: uncordon, config: {action: uncordon}}
profiles:
- name: image
  operational: {transitions: [{check: "wanted && !booted", next: maintenance-required}]}
  maintenance-required: {transitions: [{check: wanted, trigger: drain, next: in-maintenance}]}
  in-maintenance: {transitions: [{check: booted, trigger: uncordon, next: operational}]}
"""
Plan = Callable[..., Any]


def budget(most: int | str) -> Json:
    return {
        "apiVersion": "haulout.dev/v1alpha1",
        "kind": "NodeDisruptionBudget",
        "metadata": {"name": "few"},
        "spec": {"maxUnavailable": most},
    }


def maintenance(name: str, of: str) -> Json:
    return {
        "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
        "kind": "NodeMaintenance",
        "metadata": {"name": name},
        "spec": {"nodeName": of},
    }


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plan:
    monkeypatch.chdir(tmp_path)
    Path("maintenance.yaml").write_text(PROFILES)

    def of(*objects: Json, words: tuple[str, ...] = (), **blocks: Any) -> Any:
        whole = {"surfaces": {"nodemaintenance": {}}, **blocks}
        Path("haulout.yaml").write_text(yaml.safe_dump(whole))
        Path("snapshot.yaml").write_text(yaml.safe_dump({"kind": "List", "items": list(objects)}))
        given = ("--snapshot", "snapshot.yaml", "--days", "2", "--at", "2026-04-01T12:00:00Z", "-o", "json", *words)
        made = main(["plan", *given])
        assert isinstance(made, PlanSettings)
        assert plan(made) == 0
        return json.loads(capsys.readouterr().out)

    return of


def spans(found: Any, state: str) -> dict[str, tuple[datetime, datetime | None]]:
    return {
        each["name"]: (
            datetime.fromisoformat(span["from"]),
            datetime.fromisoformat(span["to"]) if span["to"] else None,
        )
        for each in found["nodes"]
        for span in each["states"]
        if span["state"] == state
    }


def waits(found: Any) -> dict[str, str]:
    return {each["name"]: each["waitsFor"] for each in found["nodes"]}


def test_made_up_maintenances_take_turns_under_a_budget(planned: Plan) -> None:
    found = planned(node("a"), node("b"), node("c"), budget(1), words=("--maintain", "a,b,c", "--work-for", "30m"))
    out = sorted(spans(found, "in-maintenance").values())
    assert [each["name"] for each in found["nodes"]] == ["a", "b", "c"]
    assert all(ends is not None and ends <= begins for (_, ends), (begins, _) in itertools.pairwise(out))
    assert all(ends is not None and (ends - begins).total_seconds() >= 1800 for begins, ends in out)
    assert found["finishedAt"] is not None


def test_a_selector_says_which_nodes_are_maintained(planned: Plan) -> None:
    found = planned(node("a", pool="blue"), node("b", pool="red"), words=("--maintain", "pool=blue"))
    assert set(spans(found, "in-maintenance")) == {"a"}


def test_a_budget_that_allows_nothing_keeps_maintenances_waiting(planned: Plan) -> None:
    found = planned(node("a"), budget(0), words=("--maintain", "a"))
    assert not spans(found, "in-maintenance")
    assert "few" in waits(found)["a"]


def test_maintenances_of_the_snapshot_are_taken_along(planned: Plan) -> None:
    found = planned(node("a"), node("b"), maintenance("m", "b"))
    assert set(spans(found, "in-maintenance")) == {"b"}


def test_a_cordon_that_stands_counts_under_a_budget(planned: Plan) -> None:
    standing = node("a")
    standing["spec"] = {**standing.get("spec", {}), "unschedulable": True}
    found = planned(standing, node("b"), budget(1), words=("--maintain", "b"))
    assert not spans(found, "in-maintenance")
    assert "a is cordoned" in waits(found)["b"]


def test_a_node_that_is_down_counts_under_a_budget(planned: Plan) -> None:
    down = node("a")
    down["status"] = {"conditions": [{"type": "Ready", "status": "Unknown"}]}
    found = planned(down, node("b"), budget(1), words=("--maintain", "b"))
    assert not spans(found, "in-maintenance")
    assert "a is not ready" in waits(found)["b"]


def test_a_drain_rule_keeps_a_node_from_being_drained(planned: Plan) -> None:
    rules = {"rules": [{"namespaces": ["default"], "action": "block"}]}
    found = planned(node("a"), deployment("web", 1), words=("--maintain", "a"), drain=rules)
    assert not spans(found, "in-maintenance")
    assert "a rule keeps it on its node" in waits(found)["a"]


def test_an_annotation_on_a_pod_template_is_obeyed(planned: Plan) -> None:
    web = deployment("web", 1)
    web["spec"]["template"]["metadata"]["annotations"] = {"haulout.dev/drain": "block"}
    found = planned(node("a"), web, words=("--maintain", "a"))
    assert not spans(found, "in-maintenance")


def test_a_profile_and_a_maintenance_work_on_a_node_one_after_the_other(planned: Plan) -> None:
    both = node("a", wanted="v2")
    both["metadata"]["labels"]["cloud.sap/maintenance-profile"] = "image"
    found = planned(
        both,
        maintenance("m", "a"),
        words=("--after", "in-maintenance=10m:booted=v2", "--work-for", "1h"),
        surfaces={"nodemaintenance": {}, "profiles": {"config": "maintenance.yaml"}},
    )
    (course,) = found["nodes"]
    assert course["waitsFor"] == ""
    assert course["states"][-1]["state"] == "operational"
    begins, ends = datetime.fromisoformat(found["beginsAt"]), datetime.fromisoformat(found["finishedAt"])
    assert (ends - begins).total_seconds() >= 3600 + 600


BLOCK = {"haulout.dev/drain": "block"}
# A drain that never ends is tried again and again.
BRIEF = ("--days", "0.1", "--work-for", "10m")


def on(name: str, where: str, owner: str = "", notes: Json | None = None, **spec: Any) -> Json:
    """Return a running pod. `owner`: the kind and name of its controller."""
    made = pod(name, app="web", nodeName=where, **spec)
    made["metadata"]["annotations"] = notes or {}
    made["status"] = {"phase": "Running"}
    kind, _, called = owner.partition(" ")
    api = {"Job": "batch/v1", "Rollout": "argoproj.io/v1alpha1"}.get(kind, "apps/v1")
    reference = {"apiVersion": api, "kind": kind, "name": called, "uid": called, "controller": True}
    made["metadata"]["ownerReferences"] = [reference] if owner else []
    if kind == "ReplicaSet":
        made["metadata"]["labels"]["pod-template-hash"] = called.rpartition("-")[2]
    return made


@pytest.mark.parametrize(
    "owner",
    ["", "Job train", "ReplicaSet alone", "Rollout shop", "StatefulSet gone", "ReplicaSet gone-5d4f"],
    ids=[
        "bare",
        "of a Job",
        "of a ReplicaSet",
        "of a custom owner",
        "of an owner not read",
        "of a Deployment not read",
    ],
)
def test_a_pod_that_no_known_owner_makes_is_taken_along_on_its_node(planned: Plan, owner: str) -> None:
    kept = on("kept", "b", owner, notes=BLOCK)
    found = planned(node("a"), node("b"), kept, words=("--maintain", "a,b", *BRIEF))
    assert set(spans(found, "in-maintenance")) == {"a"}
    assert "default/kept" in waits(found)["b"]
    assert found["incomplete"] == []


@pytest.mark.parametrize(
    "made, owner, name",
    [
        (deployment("web", 3), "ReplicaSet web-5d4f", "web-5d4f-x"),
        (stateful_set("web", 3), "StatefulSet web", "web-1"),
        (daemon_set("web"), "DaemonSet web", "web-abc"),
    ],
    ids=["Deployment", "StatefulSet", "DaemonSet"],
)
def test_an_annotation_that_one_pod_alone_has_is_obeyed_on_its_node(
    planned: Plan, made: Json, owner: str, name: str
) -> None:
    nodes = [node(each) for each in "abcd"]
    found = planned(*nodes, made, on(name, "c", owner, notes=BLOCK), words=("--maintain", "a,b,c,d", *BRIEF))
    assert set(spans(found, "in-maintenance")) == {"a", "b", "d"}
    assert f"default/{name}" in waits(found)["c"]


def test_an_annotation_that_was_taken_off_one_pod_no_longer_keeps_it(planned: Plan) -> None:
    web = deployment("web", 1)
    web["spec"]["template"]["metadata"]["annotations"] = BLOCK
    found = planned(
        node("a"), node("b"), web, on("web-5d4f-x", "a", "ReplicaSet web-5d4f"), words=("--maintain", "a", *BRIEF)
    )
    assert set(spans(found, "in-maintenance")) == {"a"}


def test_a_pod_that_differs_is_one_of_its_owners_replicas(planned: Plan) -> None:
    """Three of three must be available: with a fourth pod, one could go."""
    guard = pod_budget("web", minAvailable=3)
    noted = on("web-5d4f-x", "a", "ReplicaSet web-5d4f", notes={"haulout.dev/drain": "evict"})
    found = planned(node("a"), node("b"), deployment("web", 3), guard, noted, words=("--maintain", "a", *BRIEF))
    assert not spans(found, "in-maintenance")


@pytest.mark.parametrize("allowed", [{"maxUnavailable": 1}, {"minAvailable": 1}], ids=["at most", "at least"])
def test_the_pods_of_a_custom_owner_are_made_anew_elsewhere(planned: Plan, allowed: Json) -> None:
    """A budget lets one of them go at a time, and all go in the end."""
    pods = [on(f"shop-{where}", where, "Rollout shop") for where in "ab"]
    found = planned(node("a"), node("b"), *pods, pod_budget("web", **allowed), words=("--maintain", "a,b", *BRIEF))
    assert set(spans(found, "in-maintenance")) == {"a", "b"}
    assert found["finishedAt"] is not None


def _ended(phase: str) -> Json:
    return {**on("over", "a", "Job train", notes=BLOCK), "status": {"phase": phase}}


def _with(name: str, value: Any) -> Json:
    made = on("static", "a")
    made["metadata"] |= {name: value}
    return made


@pytest.mark.parametrize(
    "over",
    [
        _ended("Succeeded"),
        _ended("Failed"),
        _with("annotations", {**BLOCK, "kubernetes.io/config.mirror": "x"}),
        _with("deletionTimestamp", "2026-04-01T11:59:00Z"),
        on("elsewhere", "gone", notes=BLOCK),
        pod("pending"),
    ],
    ids=["succeeded", "failed", "static", "being deleted", "of an unknown node", "pending"],
)
def test_pods_that_keep_no_node_have_no_part_in_a_plan(planned: Plan, over: Json) -> None:
    found = planned(node("a"), over, words=("--maintain", "a", *BRIEF))
    assert set(spans(found, "in-maintenance")) == {"a"}
    assert found["incomplete"] == []


def test_the_pods_of_a_job_leave_their_finalizer_behind(planned: Plan) -> None:
    """Its controller, which would remove it, has no part in a plan."""
    tracked = on("train-x", "a", "Job train", restartPolicy="Never")
    tracked["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    found = planned(node("a"), tracked, words=("--maintain", "a", *BRIEF))
    assert set(spans(found, "in-maintenance")) == {"a"}


def test_a_pod_that_cannot_be_read_is_named(planned: Plan) -> None:
    broken = {**on("odd", "a"), "spec": {"nodeName": 7, "containers": "none"}}
    found = planned(node("a"), broken, words=("--maintain", "a", *BRIEF))
    assert found["incomplete"] == ["pod odd is left out: Expected `array`, got `str` - at `$.spec.containers`"]


def test_a_snapshot_without_pods_says_so(planned: Plan) -> None:
    assert "pods" in planned(node("a"), words=("--maintain", "a"))["notInSnapshot"]
    assert "pods" not in planned(node("a"), pod("a"), words=("--maintain", "a"))["notInSnapshot"]


ONE_AT_A_TIME = "budget few: at most 1 node may be out at a time"


def test_what_a_node_waited_for_is_what_kept_it_then(planned: Plan) -> None:
    found = planned(*(node("a"), node("b"), node("c")), budget(1), words=("--maintain", "a,b,c", "--work-for", "1h"))
    assert [(each["cause"], each["seconds"] // 60) for each in found["waitedFor"]] == [(ONE_AT_A_TIME, 180)]


def test_a_claim_that_waits_for_two_budgets_names_the_one_that_keeps_it(planned: Plan) -> None:
    wide = budget(2)
    wide["metadata"] = {"name": "wide"}
    found = planned(
        *(node("a"), node("b"), node("c")), budget(1), wide, words=("--maintain", "a,b,c", "--work-for", "1h")
    )
    assert {each["cause"] for each in found["waitedFor"]} == {ONE_AT_A_TIME}


@pytest.mark.parametrize(
    "wanted, text",
    [
        ("a,x,y", "--maintain: there is no node 'x' and no node 'y'"),
        ("x,y", "--maintain: no node is named or labelled 'x,y'"),
    ],
)
def test_unknown_nodes_are_named(planned: Plan, capsys: pytest.CaptureFixture[str], wanted: str, text: str) -> None:
    planned(node("a"))
    assert plan(PlanSettings(config="haulout.yaml", snapshot="snapshot.yaml", maintain=wanted)) == 1
    assert text in capsys.readouterr().err


def test_maintaining_needs_the_surface(planned: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    Path("only.yaml").write_text("surfaces: {profiles: {config: maintenance.yaml}}\n")
    assert plan(PlanSettings(config="only.yaml", nodes=1, maintain="node-1")) == 1
    assert "switch on nodemaintenance" in capsys.readouterr().err


def test_the_budget_that_makes_a_drain_miss_its_deadline_is_named(planned: Plan) -> None:
    one = maintenance("one", "a")
    one["spec"]["drain"] = {"deadlineSeconds": 60, "deadlineAction": "Fail"}
    found = planned(node("a"), deployment("db", 1), pod_budget("db", minAvailable=1), one)
    (course,) = found["nodes"]
    assert course["doneAt"] is None
    assert course["waitsFor"].startswith("PodDisruptionBudget default/db: allows no evictions")


def test_a_drain_past_its_deadline_says_so_and_never_the_times_of_the_plan(planned: Plan) -> None:
    """The pod may be evicted by now, but the deadline has passed."""
    one = maintenance("one", "a")
    one["spec"]["drain"] = {"deadlineSeconds": 20, "deadlineAction": "Fail"}
    slow = template("db", terminationGracePeriodSeconds=3600)
    found = planned(node("a"), deployment("db", 1, slow), one)
    (course,) = found["nodes"]
    assert course["waitsFor"] == "the drain of node a exceeded its deadline of 20 s: it evicts no more pods"
