"""`haulout status` and `haulout wait` against an embedded cluster with a running operator."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import msgspec
import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.core.budgets.wire import NODE_BUDGETS
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NODES, Json
from haulout.explain.documents import BudgetExplanation, ExplanationDocument, StatusDocument, as_json
from haulout.plan.forecast import planned_resource
from haulout.surfaces.nodemaintenance.declare import SURFACE as NODEMAINTENANCE
from tests.build.maintenances import MAINTENANCES
from tests.build.served import PATIENCE, Served
from tests.build.workloads import node
from tests.scenario.test_plan_surfaces import budget, maintenance

BUDGETS = planned_resource(NODE_BUDGETS)
SETTINGS = {
    "surfaces": {"nodemaintenance": {}},
    "leader": {"elect": False},
    "listen": {"http": "0", "health": "0", "webhooks": "0"},
}


def zoned(name: str) -> Json:
    made = node(name)
    made["metadata"].setdefault("labels", {})["topology.kubernetes.io/zone"] = "z"
    return made


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as made:
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        definitions = [
            strict_yaml.load(surface.definition(name)) for surface in (SHARED, NODEMAINTENANCE) for name in surface.crds
        ]
        made.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        made.make(*map(zoned, ("a", "b", "c")), budget(1))
        yield made


@pytest.fixture
def running(served: Served) -> Iterator[Served]:
    served.make(maintenance("one", "a"))
    process = served.start("run")
    try:
        assert served.run("wait", "node/a", "--for", "maintained").returncode == 0
        served.make(maintenance("two", "b"))
        yield served
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)


def test_a_fleet_with_one_node_out_and_one_that_waits_for_it(running: Served) -> None:
    done = running.run("status")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("3 nodes: 1 in service (.), 1 waiting (w), 1 in maintenance (M)\n")
    assert "z  1/3 out  Mw." in done.stdout
    assert "few: 1 of 1 out, 0 left" in done.stdout
    assert "1 x budget few: a is cordoned for nodemaintenance/one: b" in done.stdout
    assert "what would help: end nodemaintenance/one when the work on a is done" in done.stdout


def test_the_document_says_the_same_and_scripts_get_a_code(running: Served) -> None:
    done = running.run("status", "-o", "json", "--exit-code")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert json.loads(as_json(msgspec.json.decode(done.stdout, type=StatusDocument))) == found
    assert {each["name"]: each["state"] for each in found["fleet"]["nodes"]} == {
        "a": "in maintenance",
        "b": "waiting",
        "c": "in service",
    }
    assert [(each["node"], each["state"]) for each in found["fleet"]["works"]] == [
        ("a", "in maintenance"),
        ("b", "waiting"),
    ]
    assert found["fleet"]["causes"][0]["nodes"] == ["b"]
    assert yaml.safe_load(running.run("status", "-o", "yaml").stdout).keys() == found.keys()


def test_a_node_that_was_uncordoned_in_the_middle_still_takes_its_place(served: Served) -> None:
    served.make(maintenance("one", "a"))
    process = served.start("run")
    try:
        assert served.run("wait", "node/a", "--for", "maintained").returncode == 0
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
    served.change(NODES, "a", {"spec": {"unschedulable": None}})
    assert "few: 1 of 1 out, 0 left" in served.run("status").stdout
    assert "budget few: 1 of 1 nodes are out of service" in served.run("explain", "ndb", "few").stdout


def test_waiting_for_states(running: Served) -> None:
    blocked = running.run("wait", "node/b", "--for", "blocked")
    assert (blocked.returncode, blocked.stdout) == (0, "node b is blocked: budget few: a is cordoned\n")
    late = running.run("wait", "b", "--for", "maintained", "--timeout", "1s")
    assert late.returncode == 4
    assert "node b is waiting after 1 s, not maintained" in late.stderr
    assert running.run("wait", "node/c", "--for", "returned").returncode == 0


def test_a_node_is_not_maintained_before_the_operator_has_begun(served: Served) -> None:
    served.make(maintenance("one", "a"))
    late = served.run("wait", "a", "--for", "maintained", "--timeout", "1s")
    assert (late.returncode, late.stderr) == (4, "node a is waiting after 1 s, not maintained\n")
    found = json.loads(served.run("status", "-o", "json").stdout)["fleet"]
    assert [each["state"] for each in found["nodes"]] == ["waiting", "in service", "in service"]
    assert [(each["used"], each["left"]) for each in found["budgets"]] == [(0, 1)]


def test_where_nothing_waits(served: Served) -> None:
    done = served.run("status", "--exit-code")
    assert done.returncode == 0
    assert done.stdout.startswith("3 nodes: 3 in service (.)\n")


def test_a_definition_that_is_not_installed_is_named(served: Served) -> None:
    name = "nodemaintenances.nodemaintenance.medik8s.io"
    served.call(lambda world: world.server.delete(CUSTOM_RESOURCE_DEFINITIONS, "", name))
    text = "NodeMaintenances are not installed (`haulout crds nodemaintenance | kubectl apply -f -`)"
    assert text in served.run("status").stdout


def test_a_cordon_by_hand_is_a_state_of_its_own(served: Served) -> None:
    served.change(NODES, "c", {"spec": {"unschedulable": True}})
    assert "1 cordoned (c)" in served.run("status").stdout


@pytest.mark.parametrize(
    "words, text",
    [
        (("wait", "pod/a", "--for", "returned"), "'pod/a' is not the name of a node"),
        (("wait", "node/", "--for", "returned"), "the name of a node is empty"),
        (("wait", "a", "--for", "returned", "--timeout", "soon"), "soon"),
        (("status", "-w", "-o", "json"), "--watch draws a picture"),
    ],
)
def test_wrong_words(served: Served, words: tuple[str, ...], text: str) -> None:
    done = served.run(*words)
    assert done.returncode == 2
    assert text in done.stderr


def test_a_node_that_is_not_there(served: Served) -> None:
    done = served.run("wait", "node/ghost", "--for", "returned")
    assert done.returncode == 1
    assert "there is no node named ghost" in done.stderr


@pytest.mark.parametrize("words", [("status",), ("wait", "a", "--for", "returned")])
def test_a_server_that_does_not_answer(served: Served, words: tuple[str, ...]) -> None:
    config = (served.folder / "kubeconfig").read_text()
    (served.folder / "elsewhere").write_text(re.sub(r"server: \S+", "server: https://127.0.0.1:1", config))
    done = served.run(*words, "--kubeconfig", str(served.folder / "elsewhere"))
    assert done.returncode == 1
    assert done.stderr.startswith("Error: https://127.0.0.1:1 cannot be read: ")


def test_the_history_of_a_node_tells_who_did_what(running: Served) -> None:
    running.until(lambda: "NodeMaintenance one: " in running.run("history", "node/a").stdout)
    done = running.run("history", "node/a")
    assert (done.returncode, done.stderr) == (0, "")
    entries = json.loads(running.run("history", "a", "-o", "json").stdout)["events"]
    assert entries == sorted(entries, key=lambda entry: entry["at"])
    assert {entry["object"] for entry in entries} <= {"Node a", "NodeMaintenance one"}
    assert {(entry["by"], entry["surface"]) for entry in entries} == {("NodeMaintenance", "nodemaintenance")}
    assert " nodemaintenance: NodeMaintenance one: BeginMaintenance: " in done.stdout


def test_a_node_that_never_was_has_no_history(running: Served) -> None:
    done = running.run("history", "ghost")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "Error: there is no node named ghost, and no record or event about one is kept\n"


def test_a_budget_names_who_uses_it_and_who_waits_for_it(running: Served) -> None:
    running.until(lambda: "1 node waits for it" in running.run("explain", "ndb", "few").stdout)
    lines = running.run("explain", "ndb/few").stdout.splitlines()
    assert lines[0] == "budget few: 1 of 1 nodes are out of service"
    assert "  a: nodemaintenance" in lines
    assert lines[-2:] == ["1 node waits for it, first:", "  b for nodemaintenance (budget-full)"]
    printed = running.run("explain", "ndb", "few", "-o", "json").stdout
    found = json.loads(printed)
    assert json.loads(as_json(msgspec.json.decode(printed, type=BudgetExplanation))) == found
    assert [each["node"] for each in found["status"]["holders"]] == ["a"]
    missing = running.run("explain", "ndb", "none")
    assert (missing.returncode, missing.stderr) == (
        1,
        "Error: there is no NodeDisruptionBudget named none\n",
    )


def test_explain_names_the_budget_and_follows_the_queue(running: Served) -> None:
    wanted = "  budget few: a is cordoned; there: NodeMaintenance one is Succeeded"
    running.until(lambda: wanted in running.run("explain", "b").stdout.splitlines())
    printed = running.run("explain", "b", "-o", "json").stdout
    found = json.loads(printed)
    assert json.loads(as_json(msgspec.json.decode(printed, type=ExplanationDocument))) == found
    assert found["queue"].keys() == {"a"}


def test_explain_follows_a_node(running: Served) -> None:
    watching = running.start("explain", "b", "--watch")
    assert watching.stdout is not None
    try:
        before = _until(watching.stdout, "few: ")
        assert "node b\n" in before
        assert "  settings: haulout.yaml\n" in before
        running.call(lambda world: world.server.delete(MAINTENANCES, "", "one"))
        assert "node b (cordoned)\n" in _until(watching.stdout, "node b (cordoned)")
    finally:
        watching.send_signal(signal.SIGINT)
        watching.communicate(timeout=PATIENCE)


def _until(lines: IO[str], wanted: str) -> list[str]:
    """Read lines until one contains the words."""
    found = []
    for line in lines:
        found.append(line)
        if wanted in line:
            return found
    raise AssertionError(f"{wanted!r} was never printed: {found}")


def test_what_cannot_be_followed_is_refused(running: Served) -> None:
    done = running.run("explain", "machine", "ns/m", "--watch")
    assert done.returncode == 2
    assert "--watch follows nodes, budgets and objects of one cluster, not a machine" in done.stderr


def test_a_budget_of_none_names_the_one_act_that_helps(served: Served) -> None:
    served.make(maintenance("one", "a"))
    served.change(BUDGETS, "few", {"spec": {"maxUnavailable": 0}}, namespace="")
    process = served.start("run")
    try:
        done = served.run("wait", "node/a", "--for", "blocked")
        assert done.stdout == "node a is blocked: budget few: at most 0 nodes may be out at a time\n"
        said = served.run("status").stdout
        assert "what would help: raise maxUnavailable of NodeDisruptionBudget few (now 0)" in said
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=PATIENCE)
