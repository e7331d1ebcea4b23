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
from tests.build.workloads import deployment, node

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


def test_maintaining_needs_the_surface(planned: Plan, capsys: pytest.CaptureFixture[str]) -> None:
    Path("only.yaml").write_text("surfaces: {profiles: {config: maintenance.yaml}}\n")
    assert plan(PlanSettings(config="only.yaml", nodes=1, maintain="node-1")) == 1
    assert "switch on nodemaintenance" in capsys.readouterr().err
