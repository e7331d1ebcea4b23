"""`explain` of Skyhooks and their nodes, on the embedded cluster with a package that was broken on purpose."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.embedded import PODS, Json
from tests.build.served import PATIENCE, Served
from tests.build.workloads import node
from tests.scenario.test_plan_of_packages import BASE, Fleet, P, skyhook

STEP = {"name": "mount disk", "path": "steps/mount.sh", "exitCode": 3}


def broken(**message: Any) -> Json:
    text = json.dumps(message) if message else ""
    values = {"SIMULATE_EXIT_CODE": "3", "SIMULATE_MESSAGE": text, "SIMULATE_RUNS_FOR": "0s"}
    return {**BASE, "env": [{"name": name, "value": value} for name, value in values.items() if value]}


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    with Served(tmp_path) as served:
        yield Fleet(served)


def operate(fleet: Fleet) -> None:
    """Run the operator until a package has failed on the node."""
    running = fleet.served.start("run")
    try:
        fleet.served.until(
            lambda: fleet.served.node("a")["metadata"].get("annotations", {}).get(f"{P}status_demo") == "erroring"
        )
    finally:
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=PATIENCE)
        fleet.served.has_leader()


def test_the_step_that_fails_is_named_with_its_exit_code(fleet: Fleet) -> None:
    fleet.served.make(node("a"), skyhook([broken(failedStep=STEP, log="/var/log/x.log")]))
    says = "step mount disk (steps/mount.sh) ended with exit code 3, see /var/log/x.log on the host"
    operate(fleet)
    text = fleet.served.run("explain", "a").stdout
    assert f"package base 1.0.0, stage apply: container base-apply fails: {says} (" in text
    assert "kubectl logs -n skyhook" in text
    lines = [line.strip() for line in fleet.served.run("explain", "skyhook", "demo").stdout.splitlines()]
    assert lines[0] == "skyhook demo"
    found_at = lines.index("node a is erroring: base at apply/erroring")
    assert lines[found_at + 1] == f"package base 1.0.0, stage apply: {says}"
    found = json.loads(fleet.served.run("explain", "skyhook", "demo", "-o", "json").stdout)
    assert found["reasons"][0]["because"][0]["because"][0]["code"] == "package-failing"


def test_a_failure_of_several_nodes_is_one_cause_and_nodes_that_wait_are_none(fleet: Fleet) -> None:
    fleet.served.make(node("a"), node("b"), skyhook([broken(failedStep=STEP)]))
    operate(fleet)
    fleet.served.make(node("c"))
    text = fleet.served.run("explain", "skyhook", "demo").stdout
    blocked = text.partition("blocked by:\n")[2].partition("what would help:")[0].splitlines()
    assert "node c is " in text.partition("blocked by:")[0]
    assert [line.partition(", on ")[2] for line in blocked] == ["2 nodes: a, b"]


def test_without_a_message_of_the_agent_the_exit_code_is_named(fleet: Fleet) -> None:
    fleet.served.make(node("a"), skyhook([broken()]))
    operate(fleet)
    assert "container base-apply fails: exit code 3 (" in fleet.served.run("explain", "a").stdout
    assert "stage apply: exit code 3" in fleet.served.run("explain", "skyhook", "demo").stdout


def test_a_complete_skyhook_waits_for_nothing(fleet: Fleet) -> None:
    fleet.served.make(node("a"), skyhook([BASE]))
    fleet.roll("base:1.0.0")
    done = fleet.served.run("explain", "skyhook", "demo")
    assert done.stdout.splitlines()[0] == "skyhook demo"
    assert "Skyhook demo waits for nothing" in done.stdout
    assert "blocked by" not in done.stdout


def test_a_missing_namespace_is_told_once_with_what_to_do(fleet: Fleet) -> None:
    (fleet.served.folder / "haulout.yaml").write_text(
        yaml.safe_dump(
            {
                "surfaces": {"packages": {"namespace": "elsewhere"}},
                "leader": {"elect": False},
                "listen": {"http": "0", "health": "0", "webhooks": "0"},
            }
        )
    )
    fleet.served.make(node("a"), node("b"), skyhook([BASE]))
    running = fleet.served.start("run")
    assert running.stderr is not None
    told: list[Json] = []
    for line in running.stderr:
        told += [json.loads(line)] if '"namespace":"elsewhere"' in line.replace(" ", "") else []
        if told:
            break
    # Made, it is used at once, and nothing more was said of it meanwhile.
    fleet.served.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    fleet.served.until(lambda: bool(fleet.served.call(lambda world: world.server.list(PODS, "elsewhere"))))
    running.send_signal(signal.SIGTERM)
    rest = running.communicate(timeout=PATIENCE)[1]
    assert [(each["level"], each["msg"], each["namespace"], each["act"]) for each in told] == [
        ("warning", "namespace does not exist", "elsewhere", "kubectl create namespace elsewhere")
    ]
    assert [line for line in rest.splitlines() if "not found" in line] == []
