"""The commands of acts as a person runs them, against the embedded cluster over HTTPS."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

import pytest

from haulout.base import yaml
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, World
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
def test_a_roll_that_cannot_be_made(served: Served, words: tuple[str, ...]) -> None:
    # The nodes need not exist: the operator says so.
    done = served.run("start", "c1", "c2", *words)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_roll_is_explained_and_shown_among_the_rollouts(served: Served) -> None:
    served.make(node("d1"))
    assert served.run("start", "d1", "d2", "--name", "s").returncode == 0
    (served.folder / "haulout.yaml").write_text("surfaces: {nodemaintenance: {}}\n")
    explained = served.run("explain", "nms", "s", "--config", "haulout.yaml")
    assert "1 of its nodes are in maintenance at once; 1 wait" in explained.stdout, explained
    shown = json.loads(served.run("status", "--config", "haulout.yaml", "-o", "json").stdout)
    (roll,) = shown["fleet"]["rollouts"]
    assert (roll["object"], roll["total"], roll["state"]) == ("nodemaintenanceset/s", 2, "new")
