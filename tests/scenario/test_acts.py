"""The commands of acts as a person runs them, against the embedded cluster over HTTPS."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from haulout.base import yaml
from haulout.core.pause import AUTHOR_ANNOTATION
from haulout.core.steering import BUDGETS
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Json, World
from haulout.model.meta import COMMAND_MANAGER
from haulout.surfaces.registry import all_declarations, definition
from tests.build.served import Served
from tests.build.workloads import node


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("served")) as made:
        made.call(define_all)
        yield made


def define_all(world: World) -> None:
    for surface in all_declarations():
        for crd in surface.crds:
            world.server.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.load(definition(crd)))


def test_a_maintenance_is_started_and_cancelled_by_its_undo(served: Served) -> None:
    served.make(node("a1"))
    done = served.run("start", "node/a1", "--reason", "new firmware")
    assert (done.returncode, done.stderr) == (0, "")
    created, undo = done.stdout.splitlines()
    assert created == "nodemaintenances/a1 created"
    command = undo.removeprefix("undo: ")
    undone = served.run(*shlex.split(command)[1:], "-o", "json")
    assert json.loads(undone.stdout) == {
        "writes": [{"verb": "delete", "resource": "nodemaintenances", "namespace": "", "name": "a1"}],
        "warnings": [],
        "undo": "haulout start node/a1 --with nodemaintenance --reason 'new firmware'",
    }


def test_a_refusal_is_a_document_too(served: Served) -> None:
    done = served.run("start", "node/a2", "-o", "json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == {"code": "not-found", "detail": "there is no Node named a2"}
    assert done.stderr == "Error: start node/a2: there is no Node named a2\n"


def test_the_acts_of_a_node(served: Served) -> None:
    served.make(node("a3"))
    before = served.node("a3")
    listed = json.loads(served.run("act", "node/a3", "-o", "json").stdout)["acts"]
    start = next(each for each in listed if (each["act"], each["with"]) == ("start", "nodemaintenance"))
    assert (start["allowed"], start["missing"], start["why"]) == (True, None, "")
    assert "start --with nodemaintenance: " in served.run("act", "node/a3").stdout
    assert "start " in served.run("act").stdout
    assert served.node("a3") == before


@pytest.mark.parametrize(
    "words", [("start",), ("start", "pod/a"), ("cancel", "nothing/a"), ("cancel", "node"), ("act", "node/")]
)
def test_a_wrong_command_line(served: Served, words: tuple[str, ...]) -> None:
    assert served.run(*words).returncode == 2


def test_several_nodes_are_started_as_a_set(served: Served) -> None:
    served.make(node("b1", pool="roll"), node("b2", pool="roll"), node("b3"))
    done = served.run("start", "--selector", "pool=roll", "--max", "3", "--name", "r", "--set-aside-after", "2h")
    assert (done.returncode, done.stdout) == (
        0,
        "nodemaintenancesets/r created\nundo: haulout cancel nodemaintenanceset/r\n",
    )
    shown = json.loads(served.run("act", "nodemaintenanceset/r", "-o", "json").stdout)["acts"]
    assert [each["act"] for each in shown if not each["why"]] == ["pause", "cancel"]
    assert served.run("cancel", "nms/r").stdout == "nodemaintenancesets/r deleted\n"


@pytest.mark.parametrize(
    "words",
    [
        ("node/a", "-l", "a=b"),
        ("pod/a", "node/b"),
        ("-l", "((("),
    ],
)
def test_a_wrong_command_line_for_several_nodes(served: Served, words: tuple[str, ...]) -> None:
    assert served.run("start", *words).returncode == 2


@pytest.mark.parametrize(
    "words",
    [
        ("--with", "notify"),
        ("--max", "0"),
        ("--max", "x"),
        ("--start-at", "tomorrow"),
        ("--ttl", "long"),
        ("--set-aside-after", "-1h"),
    ],
)
def test_a_roll_with_a_wrong_argument(served: Served, words: tuple[str, ...]) -> None:
    # The nodes need not exist: the operator says so.
    done = served.run("start", "c1", "c2", *words)
    assert (done.returncode, done.stdout) == (2, "")


def test_an_override_is_offered_with_a_budget_that_exists(served: Served) -> None:
    served.make(node("e2"), BUDGETS.manifest("haulout-paused-x", {"selector": {}, "paused": {"reason": "storm"}}))
    assert "\n  override: there is no NodeDisruptionBudget that limits anything" in served.run("act", "node/e2").stdout
    served.make(BUDGETS.manifest("dawn", {"maxUnavailable": 0}))
    (offer,) = (
        each
        for each in json.loads(served.run("act", "node/e2", "-o", "json").stdout)["acts"]
        if each["act"] == "override"
    )
    assert (offer["allowed"], offer["why"]) == (True, "")


@pytest.mark.parametrize(("span", "code"), [("abc", 2), ("-1h", 2), ("25h", 1)])
def test_an_override_for_a_wrong_time(served: Served, span: str, code: int) -> None:
    name = f"e{span.strip('-')}"
    served.make(node(name), BUDGETS.manifest(name, {"maxUnavailable": 0}))
    done = served.run("override", f"node/{name}", "--limit", name, "--for", span, "--reason", "outage")
    assert (done.returncode, done.stdout) == (code, "")


def test_a_roll_is_explained_and_shown_among_the_rollouts(served: Served) -> None:
    served.make(node("d1"))
    assert served.run("start", "d1", "d2", "--name", "s").returncode == 0
    (served.folder / "haulout.yaml").write_text("surfaces: {nodemaintenance: {}}\n")
    explained = served.run("explain", "nms", "s", "--config", "haulout.yaml")
    assert "1 of its nodes are in maintenance at once; 1 wait" in explained.stdout, explained
    shown = json.loads(served.run("status", "--config", "haulout.yaml", "-o", "json").stdout)
    (roll,) = shown["fleet"]["rollouts"]
    assert (roll["object"], roll["total"], roll["state"]) == ("nodemaintenanceset/s", 2, "new")


def test_the_history_of_a_roll_shows_the_records_of_its_nodes(served: Served) -> None:
    served.make(node("h1"))
    assert served.run("start", "h1", "h2", "--name", "rolled").returncode == 0
    before = served.run("history", "nms/rolled")
    assert "no record or event about NodeMaintenanceSet/rolled is kept" in before.stdout, before
    served.make(record("h1", "NodeMaintenance/h1"), record("h2", "Skyhook/base"), record("h3", "NodeMaintenance/h3"))
    found = json.loads(served.run("history", "nms/rolled", "-o", "json").stdout)
    assert [each["spec"]["node"]["name"] for each in found["records"]] == ["h1"]
    assert "there is no NodeMaintenanceSet/never" in served.run("history", "nms/never").stderr


def record(name: str, owner: str) -> Json:
    kind, _, of = owner.partition("/")
    spec = {
        "node": {"name": name},
        "surface": "tests",
        "owner": {"kind": kind, "name": of},
        "begunAt": "2999-01-01T00:00:00Z",
    }
    return {"apiVersion": "haulout.dev/v1alpha1", "kind": "MaintenanceRecord", "metadata": {"name": name}, "spec": spec}


def test_a_cordon_without_a_reason_is_shown_as_one_by_hand(served: Served) -> None:
    served.make(node("k1"), node("k2"))
    assert served.run("cordon", "k1").returncode == 0
    (served.folder / "haulout.yaml").write_text("surfaces: {nodemaintenance: {}}\n")
    shown = json.loads(served.run("status", "--config", "haulout.yaml", "-o", "json").stdout)["fleet"]["cordons"]
    assert [(each["node"], each["reason"], each["by"]) for each in shown] == [("k1", "", COMMAND_MANAGER)]


@pytest.mark.parametrize("command", ["pause", "override"])
def test_the_help_says_that_a_reason_is_required(served: Served, command: str) -> None:
    assert "(required)" in " ".join(served.run(command, "--help").stdout.partition("--reason")[2].split())


def test_the_author_of_a_pause_is_recorded_in_the_embedded_cluster(served: Served) -> None:
    served.make(node("m2"))
    assert served.run("pause", "node/m2", "--reason", "disk").returncode == 0
    assert json.loads(served.node("m2")["metadata"]["annotations"][AUTHOR_ANNOTATION])["by"] == "kubernetes-admin"
