"""What plans read from nodes that packages were rolled over: states, and how long stages took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from haulout.cluster.key import Key
from haulout.surfaces.packages import planned
from haulout.surfaces.packages.entries.stage_history import seen_times, with_runs
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.bodies import About, PodPlace, interrupt_pod, package_pod
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.pods.verdict import InitContainer
from haulout.surfaces.packages.wire import Interrupt, Package

P = "skyhook.nvidia.com/"
NOON = datetime(2026, 4, 1, 12, tzinfo=UTC)
PACKAGE = Package(name="base", version="1.0.0", image="x")
PLACE = PodPlace("n0", "demo", "uid", 1, Options())


def node(**notes: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {P + name: text for name, text in notes.items()}}}


def pod(stage: str = "apply", seconds: int | None = 7, restarts: int = 0, *, is_package: bool = True) -> PackagePodRow:
    ended_at = NOON + timedelta(seconds=seconds) if seconds is not None else None
    return PackagePodRow(
        key=Key("", "PackagePod", "skyhook", "p"),
        created_at=NOON,
        about=About("base", "1.0.0", "demo", stage),
        containers=(InitContainer("i", exit_code=0, restarts=restarts, ended_at=ended_at),),
        is_package=is_package,
    )


class TestNotes:
    def test_the_last_run_of_each_stage_is_noted(self) -> None:
        first = with_runs(None, [pod()], {"base"})
        assert first == '{"base":{"apply":7}}'
        both = with_runs(first, [pod("config", 3), pod(seconds=9)], {"base"})
        assert both == '{"base":{"apply":9,"config":3}}'

    @pytest.mark.parametrize("run", [pod(seconds=None), pod(restarts=1)], ids=["no time", "failed before"])
    def test_a_run_that_says_nothing_of_the_next_is_left_out(self, run: PackagePodRow) -> None:
        assert with_runs('{"base":{"apply":7}}', [run], {"base"}) == '{"base":{"apply":7}}'

    def test_an_interrupt_is_restarted_by_the_reboot_that_it_makes(self) -> None:
        assert with_runs(None, [pod("interrupt", 90, 1, is_package=False)], {"base"}) == '{"base":{"interrupt":90}}'

    def test_packages_that_left_are_forgotten(self) -> None:
        assert with_runs('{"old":{"apply":1}}', [pod()], {"base"}) == '{"base":{"apply":7}}'

    @pytest.mark.parametrize("text", ["{broken", "[]", '{"base":3}', "[" * 100_000])
    def test_what_cannot_be_read_is_replaced(self, text: str) -> None:
        assert with_runs(text, [pod()], {"base"}) == '{"base":{"apply":7}}'
        assert seen_times([{f"{P}stageTime_demo": text}]) == {}

    def test_the_median_of_all_nodes_counts(self) -> None:
        notes = [{f"{P}stageTime_demo": f'{{"base":{{"apply":{seconds}}}}}'} for seconds in (5, 400, 7)]
        assert seen_times(notes) == {("base", "apply"): (timedelta(seconds=7), 3)}


class TestPods:
    def test_a_pod_runs_as_long_as_such_pods_did(self) -> None:
        run = planned.pod_runs([node(stageTime_demo='{"base":{"apply":42}}')])(package_pod(PLACE, PACKAGE, "apply"))
        assert run is not None
        assert (run.runs_for, run.count, run.reboots) == (timedelta(seconds=42), 1, False)

    @pytest.mark.parametrize(
        "kind, expected", [("reboot", (timedelta(minutes=5), True)), ("noop", (timedelta(seconds=30), False))]
    )
    def test_interrupts_are_guessed_by_what_they_do(self, kind: str, expected: tuple[timedelta, bool]) -> None:
        run = planned.pod_runs([])(interrupt_pod(PLACE, PACKAGE, Interrupt(kind), "/d"))
        assert run is not None
        assert (run.runs_for, run.reboots, run.count) == (*expected, 0)

    @pytest.mark.parametrize("annotations", [{}, {f"{P}package": "{"}, None])
    def test_other_pods_are_left_alone(self, annotations: dict[str, str] | None) -> None:
        other = {"metadata": {"labels": {f"{P}name": "demo"}, "annotations": annotations}, "spec": {}}
        assert planned.pod_runs([])(other) is None
        assert planned.pod_runs([])({"metadata": {}, "spec": {}}) is None


@pytest.mark.parametrize(
    "notes, state",
    [
        ({}, ""),
        ({"status_a": "complete"}, "operational"),
        ({"status_a": "complete", "status_b": "waiting"}, "maintenance-required"),
        ({"status_a": "in_progress"}, "changing"),
        ({"status_a": "in_progress", "cordon_a": "true"}, "draining"),
        (
            {
                "cordon_a": "true",
                "nodeState_a": '{"b|1":{"name":"b","version":"1","stage":"apply","state":"in_progress"}}',
            },
            "in-maintenance",
        ),
        ({"cordon_a": "true", "nodeState_a": "{broken"}, "draining"),
    ],
)
def test_the_state_of_a_node(notes: dict[str, str], state: str) -> None:
    assert planned.node_state(node(**notes)) == state


def test_a_skyhook_enters_a_plan_with_its_picks_and_without_boot_ids() -> None:
    stored = {"status": "in_progress", "nodePriority": {"a": "x"}, "nodeBootIds": {"a": "b"}, "observedGeneration": 4}
    stored["halt"] = {"generation": 5, "wave": 2}
    kept = {"status": "in_progress", "nodePriority": {"a": "x"}, "observedGeneration": 0}
    body, problem = planned.entering("Skyhook", {"metadata": {"generation": 5}, "status": stored})
    # A halt stands for the generation at which it was made; in a plan every object is of the first.
    assert (body["status"], problem) == ({**kept, "halt": {"generation": 1, "wave": 2}}, "")
    assert planned.entering("DeploymentPolicy", {"metadata": {}, "status": stored}) == ({"metadata": {}}, "")


UNHEARD = "Skyhook demo: a change of its configuration that has not reached all nodes yet is left out"


@pytest.mark.parametrize(
    "status, config, problem",
    [
        ({"status": "complete", "observedGeneration": 5, "nodesInProgress": 1}, {"a": "1"}, ""),
        ({"status": "waiting", "observedGeneration": 4}, {}, ""),
        (
            {"status": "complete", "observedGeneration": 4},
            {"a": "1"},
            UNHEARD,
        ),
        (
            {"status": "in_progress", "nodesInProgress": 1},
            {"a": "1"},
            f"{UNHEARD}, and stages that run now begin anew",
        ),
        ({"status": "in_progress", "nodesInProgress": 1}, {}, "Skyhook demo: stages that run now begin anew"),
    ],
)
def test_what_only_config_maps_and_pods_say_is_named_as_left_out(
    status: dict[str, object], config: dict[str, str], problem: str
) -> None:
    spec = {"packages": {"base": {"version": "1", "configMap": config}}}
    body = {"metadata": {"name": "demo", "generation": 5}, "spec": spec, "status": status}
    assert planned.entering("Skyhook", body)[1] == problem


@pytest.mark.parametrize("spec", [None, {"packages": None}, {"packages": {"base": None}}])
def test_a_skyhook_that_is_odd_enters_a_plan_all_the_same(spec: object) -> None:
    body = {"metadata": {"name": "demo"}, "spec": spec, "status": {"nodesInProgress": 1}}
    assert planned.entering("Skyhook", body)[1] == "Skyhook demo: stages that run now begin anew"


def test_a_gate_that_asks_prometheus_is_named_as_left_out() -> None:
    gate = {"soak": "1m", "prometheus": {"url": "https://p", "query": "q"}}
    policy = {"metadata": {"name": "guarded"}, "spec": {"gate": gate}}
    body, problem = planned.entering("DeploymentPolicy", policy)
    assert body["spec"] == {"gate": {"soak": "1m"}}
    assert problem == "the gate of DeploymentPolicy guarded asks Prometheus: every wave counts as passed"
