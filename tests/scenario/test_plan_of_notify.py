"""`haulout plan` for NotifyMaintenances: which node goes next, and why that one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.cli.root import main
from haulout.embedded import Json
from haulout.plan.command import plan
from haulout.settings.settings import PlanSettings
from haulout.surfaces.notify.wire import FINALIZER
from tests.build.workloads import node, pod

AT = datetime(2026, 4, 1, 12, tzinfo=UTC)
RECIPE = {
    "name": "flash",
    "type": "job",
    "timeout": "10m",
    "success": {"rebooted": True},
    "template": {"spec": {"template": {"spec": {"containers": [{"name": "flash", "image": "flash:1"}]}}}},
}
OPERATORS: Json = {
    "scheduler": {"enabled": True, "budgets": [{"name": "all", "maxUnavailable": 1}]},
    "drainer": {"enabled": True, "policies": [{"restartPolicies": ["Never"], "action": "Wait"}]},
    "returner": {"enabled": True},
}
RUNS: Json = {
    "runner": {"enabled": True, "defaultClient": "flash", "recipes": [RECIPE]},
    "validator": {"enabled": True, "default": "ok", "recipes": [{"name": "ok", "type": "builtin"}]},
}


def notice(name: str, of: str, mid: str = "firmware", annotations: Json | None = None, **more: Any) -> Json:
    return {
        "apiVersion": "ngn2.nvidia.com/v1alpha1",
        "kind": "NotifyMaintenance",
        "metadata": {"name": name, "namespace": "fleet", "annotations": annotations or {}},
        "spec": {"nodeObject": of, "maintenanceID": mid, "maintenanceType": "planned"},
        **more,
    }


def run(name: str, where: str, lasts: str, age: timedelta = timedelta(hours=1)) -> Json:
    """Return a pod that began some time ago and has announced how long it lasts, as the API server shows it."""
    made = pod(name, nodeName=where, restartPolicy="Never")
    made["metadata"]["annotations"] = {"haulout.dev/expected-duration": lasts}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": name, "controller": True}
    made["metadata"] |= {"ownerReferences": [owner], "uid": f"{name}-uid", "resourceVersion": "7"}
    made["status"] = {"phase": "Running", "startTime": f"{AT - age:%Y-%m-%dT%H:%M:%SZ}"}
    return made


class Planner:
    """Runs `haulout plan` in a folder, on a snapshot."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def text(self, *objects: Json, words: tuple[str, ...] = (), operators: Json = OPERATORS) -> str:
        Path("notify.yaml").write_text(yaml.safe_dump({"slaPeriod": "4h", "operators": operators}))
        Path("haulout.yaml").write_text(yaml.safe_dump({"surfaces": {"notify": {"config": "notify.yaml"}}}))
        Path("snapshot.yaml").write_text(yaml.safe_dump({"kind": "List", "items": list(objects)}))
        made = main(["plan", "--snapshot", "snapshot.yaml", "--days", "1", "--at", AT.isoformat(), *words])
        assert isinstance(made, PlanSettings)
        assert plan(made) == 0
        return self._capsys.readouterr().out

    def of(self, *objects: Json, words: tuple[str, ...] = (), operators: Json = OPERATORS) -> Any:
        found = json.loads(self.text(*objects, words=("-o", "json", *words), operators=operators))
        assert found["incomplete"] == []
        return found


@pytest.fixture
def planner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Planner:
    monkeypatch.chdir(tmp_path)
    return Planner(capsys)


def order(found: Any) -> list[str]:
    return [choice["node"] for choice in found["choices"]]


def lasts(found: Any, name: str, state: str) -> list[timedelta]:
    spans = next(each["states"] for each in found["nodes"] if each["name"] == name)
    return [
        datetime.fromisoformat(span["to"]) - datetime.fromisoformat(span["from"])
        for span in spans
        if span["state"] == state and span["to"]
    ]


FLEET = (
    *(node("a"), node("b"), node("c")),
    *(notice("ma", "a"), notice("mb", "b"), notice("mc", "c")),
    *(run("long", "a", "3h"), run("short", "b", "70m")),
)


def test_the_node_that_drains_soonest_is_next_and_the_others_are_named_with_their_scores(planner: Planner) -> None:
    found = planner.of(*FLEET)
    assert order(found) == ["c", "b", "a"]
    first = found["choices"][0]
    assert (first["object"], first["waiting"]) == ("fleet/mc", 2)
    assert first["why"] == "Selected: score=1.000 likelihood=1.000 drain=0s"
    # 10 minutes and 2 hours are left of the two runs.
    assert [each["node"] for each in first["before"]] == ["b", "a"]
    assert "drain=10m" in first["before"][0]["why"].replace("9m5", "10m")
    assert found["finishedAt"] is not None


def test_people_read_it_too(planner: Planner) -> None:
    lines = planner.text(*FLEET).splitlines()
    assert "next: node c for fleet/mc, 2026-04-01 12:00 UTC: Selected: score=1.000 likelihood=1.000 drain=0s" in lines
    assert any(line.startswith("  before b: score=0.6") for line in lines)
    assert any(line.startswith("then: node b for fleet/mb") for line in lines)


def test_waiting_for_the_budget_is_one_cause(planner: Planner) -> None:
    causes = [each["cause"] for each in planner.of(*FLEET)["waitedFor"]]
    full = "as many nodes are out of service as the budget allows (BudgetExhausted(all))"
    assert [cause for cause in causes if cause.startswith("as many")] == [full]


def test_runs_end_when_the_scheduler_expects_them_to(planner: Planner) -> None:
    found = planner.of(*FLEET)
    (drained,) = lasts(found, "a", "draining")
    began = datetime.fromisoformat(found["choices"][2]["at"])
    ends = AT + timedelta(hours=2)
    assert abs(began + drained - ends) < timedelta(seconds=30)


def test_work_without_a_runner_takes_the_time_that_is_given(planner: Planner) -> None:
    found = planner.of(node("a"), notice("ma", "a"), words=("--work-for", "25m"))
    (worked,) = lasts(found, "a", "in-maintenance")
    assert abs(worked - timedelta(minutes=25)) < timedelta(minutes=1)


@pytest.mark.parametrize(
    ("annotations", "minutes"), [({}, 25), ({"haulout.dev/expected-maintenance": "40m"}, 40)], ids=["given", "expected"]
)
def test_the_jobs_of_the_runner_take_the_time_of_the_work(planner: Planner, annotations: Json, minutes: int) -> None:
    made = notice("ma", "a", annotations=annotations)
    found = planner.of(node("a"), made, words=("--work-for", "25m"), operators={**OPERATORS, **RUNS})
    (worked,) = lasts(found, "a", "in-maintenance")
    assert abs(worked - timedelta(minutes=minutes)) < timedelta(minutes=2)
    assert found["finishedAt"] is not None


def test_a_maintenance_goes_on_from_where_it_stands(planner: Planner) -> None:
    """One that drains when the plan begins keeps its place, and its deadline."""
    out = node("a")
    out["metadata"]["labels"]["maintenance/firmware"] = ""
    out["spec"] = {**out.get("spec", {}), "unschedulable": True}
    out["metadata"].setdefault("annotations", {})["haulout.dev/cordoned-by"] = "fleet/ma"
    begun = notice("ma", "a")
    begun["metadata"] |= {"finalizers": [FINALIZER], "labels": {"maintenance/firmware": ""}}
    stamp = f"{AT - timedelta(hours=3):%Y-%m-%dT%H:%M:%SZ}"
    begun["status"] = {
        "maintenanceStatus": "MaintenanceStarted",
        "slaExpires": f"{AT + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}",
        "transitionTimestamps": [
            {"maintenanceStatus": state, "transitionTimestamp": stamp}
            for state in ("MaintenanceScheduled", "MaintenanceStarted")
        ],
    }
    found = planner.of(out, node("b"), begun, notice("mb", "b"), run("long", "a", "9h"))
    assert order(found) == ["b"]
    states = [span["state"] for span in found["nodes"][0]["states"]]
    assert states == ["draining", "in-maintenance", "operational"]
    (drained,) = lasts(found, "a", "draining")
    assert abs(drained - timedelta(hours=1)) < timedelta(minutes=1)
    assert datetime.fromisoformat(found["choices"][0]["at"]) > AT + timedelta(hours=2)


def test_what_holds_one_back_is_said(planner: Planner) -> None:
    found = planner.of(node("a"), notice("ma", "a", annotations={"haulout.dev/hold": "true"}))
    (waiting,) = found["nodes"]
    assert "its annotation haulout.dev/hold holds it" in waiting["waitsFor"]
    assert found["choices"] == []


def test_maintenances_can_be_made_up(planner: Planner) -> None:
    found = planner.of(node("a"), node("b"), words=("--maintain", "a,b"))
    assert sorted(order(found)) == ["a", "b"]
