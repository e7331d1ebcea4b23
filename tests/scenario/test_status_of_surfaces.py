"""`haulout status` while packages works on a node that a NotifyMaintenance waits for."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, PODS, Json, Resource
from haulout.surfaces.nodemaintenance.declare import SURFACE as NODEMAINTENANCE
from haulout.surfaces.notify.declare import SURFACE as NOTIFY
from tests.build.served import PATIENCE, Served
from tests.build.workloads import node
from tests.scenario.test_explain_notify import NOTICES
from tests.scenario.test_plan_of_notify import notice
from tests.scenario.test_plan_of_packages import BASE, SETTINGS, SKYHOOKS, Fleet, skyhook
from tests.scenario.test_plan_surfaces import budget, maintenance

TURN = "another surface has the turn on its node (packages is working on the node)"
LONG: Json = {**BASE, "interrupt": {"type": "reboot"}, "env": [{"name": "SIMULATE_RUNS_FOR", "value": "1h"}]}


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Served]:
    """A Skyhook at work on one of two nodes, and a maintenance that the scheduler would start on the same node."""
    with Served(tmp_path) as served:
        Fleet(served)
        surfaces = {"packages": {}, "notify": {"config": "notify.yaml"}}
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump({**SETTINGS, "surfaces": surfaces}))
        scheduler = {"scheduler": {"enabled": True}}
        (tmp_path / "notify.yaml").write_text(yaml.safe_dump({"slaPeriod": "1h", "operators": scheduler}))
        definitions = [strict_yaml.load(NOTIFY.definition(name)) for name in NOTIFY.crds]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        served.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}, node("a"), node("b"))
        served.make(skyhook([LONG], interruptionBudget={"count": 1}))
        process = served.start("run")
        try:
            served.until(lambda: bool(served.call(lambda world: world.server.list(PODS, "skyhook"))))
            served.until(lambda: _status(served, "nodesInProgress") == 1)
            served.make(notice("one", "a"))
            served.until(lambda: _condition(served) == "ForeignMaintenance")
            yield served
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)


def _status(served: Served, field: str) -> object:
    found = served.call(lambda world: world.server.get(SKYHOOKS, "", "demo")) or {}
    return (found.get("status") or {}).get(field)


def _condition(served: Served) -> str:
    found = served.call(lambda world: world.server.get(NOTICES, "fleet", "one")) or {}
    conditions = (found.get("status") or {}).get("conditions") or []
    return next((each["reason"] for each in conditions if each["type"] == "schedulerDecision"), "")


def test_what_goes_on_by_itself_is_no_cause_and_what_waits_is_named(running: Served) -> None:
    fleet = json.loads(running.run("status", "-o", "json").stdout)["fleet"]
    assert fleet["rollouts"] == [
        {"surface": "packages", "object": "skyhook/demo", "state": "in_progress", "total": 2, "done": 0, "atWork": 1}
    ]
    assert [(each["object"], each["node"], each["state"], each["waitsFor"]) for each in fleet["works"]] == [
        ("skyhook/demo", "a", "in maintenance", []),
        ("notifymaintenance/fleet/one", "a", "waiting", [TURN]),
    ]
    assert [(each["text"], each["nodes"]) for each in fleet["causes"]] == [(TURN, ["a"])]
    text = running.run("status").stdout
    assert "rollouts:\nskyhook/demo: in_progress, 0 of 2 nodes done, 1 at work\n" in text
    assert "surfaces: notify, packages\n" in text


def test_a_cordon_of_another_surface_is_not_taken_for_that_of_a_person(running: Served) -> None:
    found = json.loads(running.run("explain", "notifymaintenance", "fleet/one", "-o", "json").stdout)
    assert (found["reason"], found["actor"]) == ("ForeignMaintenance", "the scheduler of Haulout")


def test_a_budget_that_keeps_a_package_waiting_is_named_with_what_takes_its_place(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        Fleet(served)
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        definitions = [strict_yaml.load(NODEMAINTENANCE.definition(name)) for name in NODEMAINTENANCE.crds]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        served.make(node("a"), node("b"), budget(1), maintenance("fix", "b"))
        process = served.start("run")
        try:
            assert served.run("wait", "b", "--for", "maintained").returncode == 0
            served.make(skyhook([LONG]))
            served.until(lambda: _status(served, "status") == "blocked")
            lines = served.run("explain", "a").stdout.splitlines()
            assert "  packages waits for its turn on it" in lines
            assert any(line.startswith("  budget few: b is cordoned; there: NodeMaintenance fix is ") for line in lines)
            rollout = served.run("explain", "skyhook", "demo").stdout
            assert "  node a is blocked; there: budget few: b is cordoned\n" in rollout
            causes = json.loads(served.run("status", "-o", "json").stdout)["fleet"]["causes"]
            act = "end nodemaintenance/fix when the work on b is done"
            assert [(each["text"], each["nodes"], each["act"]) for each in causes] == [
                ("nodemaintenance is working on the node for nodemaintenance/fix", ["b"], act),
                ("budget few: b is cordoned for nodemaintenance/fix", ["a"], act),
            ]
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)


def test_a_maintenance_that_waits_for_a_person_is_listed(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        surfaces = {"notify": {"config": "notify.yaml"}}
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump({"surfaces": surfaces}))
        (tmp_path / "notify.yaml").write_text("slaPeriod: 1h\n")
        served.has_leader()
        definitions = [strict_yaml.load(NOTIFY.definition(name)) for name in NOTIFY.crds]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        served.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}, node("a"))
        served.make(notice("one", "a"))
        done = served.run("status", "--exit-code")
        assert "a: waiting for notify notifymaintenance/fleet/one\n" in done.stdout
        assert done.returncode == 0, "nothing blocks it"
        assert served.run("wait", "a", "--for", "returned", "--timeout", "1s").returncode == 4


NODEWRIGHTS = Resource("nodewright.nvidia.com", "v1alpha1", "nodewrights")


def test_a_unit_is_listed_once_under_the_kind_that_leads(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        Fleet(served)
        served.make(node("a"))
        pair = skyhook([LONG]), {**skyhook([LONG]), "apiVersion": "nodewright.nvidia.com/v1alpha1"}
        served.make(pair[0], {**pair[1], "kind": "NodeWright"})
        mark = {"metadata": {"annotations": {"nodewright.nvidia.com/pause": "true"}}}
        served.call(lambda world: world.server.patch(NODEWRIGHTS, "", "demo", mark))
        process = served.start("run")
        try:
            served.until(lambda: _status(served, "status") == "paused")
            fleet = json.loads(served.run("status", "-o", "json").stdout)["fleet"]
            assert [each["object"] for each in fleet["rollouts"]] == ["nodewright/demo"]
            found = json.loads(served.run("explain", "a", "-o", "json").stdout)
            assert "NodeWright demo is paused" in json.dumps(found)
            assert found["act"] == "nodewright resume demo"
            follower = served.run("explain", "skyhook", "demo").stdout
            assert "NodeWright demo leads: its spec is in force, and this object shows its status" in follower
            assert "haulout explain nodewright demo" in follower
            assert "blocked by" not in follower
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)
