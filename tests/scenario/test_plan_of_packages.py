"""`haulout plan` for Skyhooks: when nodes are cordoned and done, and that it comes true under `haulout run`."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec import structs

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NODES, Json, PodBehaviour, Resource
from haulout.plan.command import plan
from haulout.settings.settings import PlanSettings
from haulout.surfaces.packages.declare import SURFACE as PACKAGES
from haulout.surfaces.packages.planned import pod_runs
from tests.build.served import PATIENCE, QUICK, Served
from tests.build.workloads import deployment, node
from tests.scenario.test_plan_surfaces import PROFILES, budget, maintenance

P, N = "skyhook.nvidia.com/", "nodewright.nvidia.com/"
SKYHOOKS = Resource("skyhook.nvidia.com", "v1alpha1", "skyhooks")
SETTINGS: Json = {
    "surfaces": {"packages": {}, "nodemaintenance": {}},
    "leader": {"elect": False},
    "listen": {"http": "0", "health": "0", "webhooks": "0"},
}
BASE: Json = {"name": "base", "version": "1.0.0", "image": "x/base"}
REBOOTS: Json = {"interrupt": {"type": "reboot"}}


def skyhook(packages: list[Json], **spec: Any) -> Json:
    named = {each["name"]: each for each in packages}
    body = {"nodeSelectors": {"matchLabels": {}}, "packages": named, **spec}
    return {
        "apiVersion": "skyhook.nvidia.com/v1alpha1",
        "kind": "Skyhook",
        "metadata": {"name": "demo"},
        "spec": body,
    }


def policy(**strategy: Any) -> Json:
    spec = {"default": {"budget": {"percent": 100}, "strategy": strategy}}
    return {
        "apiVersion": "skyhook.nvidia.com/v1alpha1",
        "kind": "DeploymentPolicy",
        "metadata": {"name": "waves"},
        "spec": spec,
    }


def noted(name: str, **times: int) -> Json:
    made = node(name)
    made["metadata"]["annotations"] = {f"{P}stageTime_demo": json.dumps({"base": times})}
    return made


Plan = Callable[..., Any]


@pytest.fixture
def planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plan:
    monkeypatch.chdir(tmp_path)

    def run(*objects: Json, output: str = "json", **settings: Any) -> Any:
        Path("haulout.yaml").write_text(yaml.safe_dump({**SETTINGS, **settings}))
        Path("snapshot.yaml").write_text(yaml.safe_dump({"items": list(objects)}))
        given = PlanSettings(
            config="", snapshot="snapshot.yaml", days=0.5, output=output, at="2026-04-01T12:00:00Z", work_for=600.0
        )
        assert plan(given) == 0
        text = capsys.readouterr().out
        return json.loads(text) if output == "json" else text

    return run


def minutes(each: Json, *names: str) -> list[float]:
    return [
        (datetime.fromisoformat(each[name]) - datetime.fromisoformat("2026-04-01T12:00:00Z")).total_seconds() / 60
        for name in names
    ]


class TestPlan:
    def test_nodes_begin_are_cordoned_and_done_in_the_times_that_were_seen(self, planned: Plan) -> None:
        times = {"apply": 120, "config": 60, "interrupt": 600, "post-interrupt": 60}
        one_at_a_time = {"interruptionBudget": {"count": 1}}
        found = planned(noted("a", **times), node("b"), skyhook([{**BASE, **REBOOTS}], **one_at_a_time))
        assert (found["guesses"], [run["seen"] for run in found["runs"]]) == ([], [1, 1, 1, 1])
        assert [run["seconds"] for run in found["runs"]] == [120, 60, 600, 60]
        a, b = found["nodes"]
        assert minutes(a, "beginsAt", "doneAt") == [0, 14]
        assert minutes(b, "beginsAt", "doneAt") == [14, 28]
        assert [minutes(span, "from", "to") for span in (*a["cordoned"], *b["cordoned"])] == [[0, 14], [14, 28]]
        assert (found["mostCordoned"], found["cordonedSeconds"]) == (1, 28 * 60)

    def test_a_package_without_interrupt_cordons_nothing(self, planned: Plan) -> None:
        found = planned(noted("a", apply=60, config=30), skyhook([BASE]))
        (a,) = found["nodes"]
        assert (a["cordoned"], minutes(a, "beginsAt", "doneAt")) == ([], [0, 1.5])
        assert [span["state"] for span in a["states"]] == ["changing", "operational"]

    def test_a_nodewright_is_planned_like_a_skyhook(self, planned: Plan) -> None:
        """It runs in Jobs, with a policy of its own group, which another group's policy of that name does not replace."""
        times = {"apply": 120, "config": 60, "interrupt": 600, "post-interrupt": 60}
        seen = noted("a", **times)
        stage_times = seen["metadata"]["annotations"].pop(f"{P}stageTime_demo")
        seen["metadata"]["annotations"][f"{N}stageTime_demo"] = stage_times
        fixed = {"fixed": {"initialBatch": 1}}
        own = {**policy(**fixed), "apiVersion": "nodewright.nvidia.com/v1alpha1"}
        other = policy(fixed={"initialBatch": 2})
        wright = {**skyhook([{**BASE, **REBOOTS}], deploymentPolicy="waves"), "kind": "NodeWright"}
        found = planned(seen, node("b"), other, own, {**wright, "apiVersion": own["apiVersion"]})
        assert (found["guesses"], [run["seconds"] for run in found["runs"]]) == ([], [120, 60, 600, 60])
        a, b = found["nodes"]
        assert minutes(a, "beginsAt", "doneAt") == [0, 14]
        assert minutes(b, "beginsAt", "doneAt") == [14, 28]

    @pytest.mark.parametrize("more", [{}, {"nodemaintenance": {}}], ids=["alone", "with maintenances"])
    def test_profiles_beside_packages_hide_no_node(self, planned: Plan, more: Json) -> None:
        """Profiles writes on every node that it is operational."""
        Path("maintenance.yaml").write_text(PROFILES)
        surfaces = {"packages": {}, "profiles": {"config": "maintenance.yaml"}, **more}
        cell = skyhook([{**BASE, **REBOOTS}], nodeSelectors={"matchLabels": {"topology.kubernetes.io/zone": "z0"}})
        found = planned(node("a"), node("b"), node("c", zone="z1"), cell, surfaces=surfaces)
        states = {each["name"]: {span["state"] for span in each["states"]} for each in found["nodes"]}
        assert {name for name, seen in states.items() if "in-maintenance" in seen} == {"a", "b"}
        assert all(each["cordoned"] for each in found["nodes"] if each["name"] != "c")

    def test_a_node_waits_for_the_surface_that_wants_it(self, planned: Plan) -> None:
        """The other one, profiles, would begin only when a label is set."""
        Path("maintenance.yaml").write_text(PROFILES)
        paused = skyhook([BASE])
        paused["metadata"]["annotations"] = {f"{P}pause": "true"}
        profiled = node("a")
        profiled["metadata"]["labels"]["cloud.sap/maintenance-profile"] = "image"
        surfaces = {"profiles": {"config": "maintenance.yaml"}, "packages": {}}
        (a,) = planned(profiled, paused, surfaces=surfaces)["nodes"]
        assert a["waitsFor"] == "Skyhook demo is paused"

    def test_what_was_never_seen_is_called_a_guess(self, planned: Plan) -> None:
        text = planned(noted("a", apply=60), skyhook([{**BASE, **REBOOTS}]), output="text")
        lines = text.splitlines()[1:]
        assert lines[0] == "GUESS: no node has recorded yet how long this takes, so it counts as:"
        assert lines[1:4] == [
            "  1 min 0 s: package base, stage config",
            "  5 min 0 s: package base, stage interrupt (a reboot)",
            "  1 min 0 s: package base, stage post-interrupt",
        ]
        assert "a     12:00:00     12:00:00     12:08:00     8 min 0 s     12:08:00" in lines
        assert max(map(len, lines)) < 80

    def test_what_a_skyhook_under_way_leaves_out_is_said_first(self, planned: Plan) -> None:
        under_way = skyhook([{**BASE, "configMap": {"a": "1"}}])
        under_way["status"] = {"status": "in_progress", "nodesInProgress": 1}
        text = "Skyhook demo: a change of its configuration that has not reached all nodes yet is left out"
        found = planned(node("a"), under_way)
        assert [each for each in found["incomplete"] if "Skyhook" in each] == [
            f"{text}, and stages that run now begin anew"
        ]
        assert text in planned(node("a"), under_way, output="text").split("GUESS")[0]

    def test_older_nodes_go_first(self, planned: Plan) -> None:
        nodes = [noted("a", apply=60, config=60), node("b")]
        for each, day in zip(nodes, (2, 1), strict=True):
            each["metadata"]["creationTimestamp"] = f"2026-01-0{day}T00:00:00Z"
        found = planned(*nodes, skyhook([BASE], interruptionBudget={"count": 1}))
        assert {each["name"]: minutes(each, "beginsAt") for each in found["nodes"]} == {"b": [0], "a": [2]}

    def test_waves_grow_as_the_policy_says(self, planned: Plan) -> None:
        fleet = [noted("n0", apply=60, config=60), *(node(f"n{n}") for n in range(1, 7))]
        waves = policy(exponential={"initialBatch": 1, "growthFactor": 2})
        found = planned(*fleet, waves, skyhook([BASE], deploymentPolicy="waves"))
        begun = sorted(minutes(each, "beginsAt")[0] for each in found["nodes"])
        assert begun == [0, 2, 2, 4, 4, 4, 4]

    def test_a_shared_budget_and_the_turns_of_other_surfaces_are_obeyed(self, planned: Plan) -> None:
        fleet = [noted(f"n{n}", apply=60, config=60, interrupt=60, **{"post-interrupt": 60}) for n in range(3)]
        work = skyhook([{**BASE, "interrupt": {"type": "noop"}}], interruptionBudget={"percent": 100})
        found = planned(*fleet, budget(1), maintenance("m", "n2"), work)
        assert found["mostCordoned"] == 1
        assert all(each["doneAt"] for each in found["nodes"])

    def test_a_node_that_is_done_already_stays_out_of_it(self, planned: Plan) -> None:
        done = noted("a", apply=60, config=60)
        state = {"base|1.0.0": {**BASE, "stage": "config", "state": "complete"}}
        done["metadata"]["annotations"] |= {f"{P}nodeState_demo": json.dumps(state), f"{P}status_demo": "complete"}
        found = planned(done, node("b"), skyhook([BASE]))
        assert {each["name"]: each["beginsAt"] is None for each in found["nodes"]} == {"a": True, "b": False}

    def test_a_paused_skyhook_waits_to_the_end_and_says_so(self, planned: Plan) -> None:
        paused = skyhook([BASE])
        paused["metadata"]["annotations"] = {f"{P}pause": "true"}
        (a,) = planned(node("a"), paused)["nodes"]
        assert (a["doneAt"], a["waitsFor"]) == (None, "Skyhook demo is paused")


RUN = timedelta(seconds=0.2)


def _host(pod: Json, behaviour: PodBehaviour) -> PodBehaviour:
    """Return how the hosts of the test behave: every stage takes a moment, and so does a reboot."""
    run = pod_runs([])(pod)
    return behaviour.of_work(pod, RUN, reboots=run.reboots) if run is not None else behaviour


class Fleet:
    """A served cluster with a Skyhook, and `haulout run` on it."""

    def __init__(self, served: Served) -> None:
        self.served = served
        names = ((surface, name) for surface in (SHARED, PACKAGES) for name in surface.crds)
        definitions = [strict_yaml.load(surface.definition(name)) for surface, name in names]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        served.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "skyhook"}})
        self.configure(packages={})
        self.cordons: list[tuple[str, bool]] = []
        self.boots: dict[str, set[str]] = {}
        served.call(lambda world: world.server.subscribe(NODES, self._seen))

    def configure(self, **surfaces: Json) -> None:
        (self.served.folder / "haulout.yaml").write_text(yaml.safe_dump({**SETTINGS, "surfaces": surfaces}))

    def _seen(self, change: Any) -> None:
        name = change.object["metadata"]["name"]
        before, now = (bool((each or {}).get("spec", {}).get("unschedulable")) for each in (change.old, change.object))
        if before != now:
            self.cordons.append((name, now))
        boot = ((change.object.get("status") or {}).get("nodeInfo") or {}).get("bootID")
        self.boots.setdefault(name, set()).update([boot] if boot else [])

    def plan(self) -> Json:
        done = self.served.run("plan", "--config", "haulout.yaml", "--days", "0.1", "-o", "json")
        assert (done.returncode, done.stderr) == (0, "")
        found: Json = json.loads(done.stdout)
        return found

    def roll(self, versions: str) -> None:
        """Run the operator until every node has these versions."""
        running = self.served.start("run")
        try:
            self.served.until(lambda: self._status() == ("complete", versions))
        finally:
            running.send_signal(signal.SIGTERM)
            running.communicate(timeout=PATIENCE)

    def _status(self) -> tuple[str, str]:
        found = self.served.call(lambda world: world.server.get(SKYHOOKS, "", "demo")) or {}
        status = found.get("status") or {}
        return status.get("status", ""), status.get("packageList", "")


def test_what_the_plan_says_comes_true_and_the_next_one_knows_the_times(tmp_path: Path) -> None:
    with Served(tmp_path, structs.replace(QUICK, behave=_host)) as served:
        fleet = Fleet(served)
        served.make(node("a"), node("b"), deployment("web", 2))
        served.make(skyhook([{**BASE, **REBOOTS}], interruptionBudget={"count": 1}))
        foretold = fleet.plan()
        assert len(foretold["guesses"]) == 4
        order = [name for _, name in sorted((each["cordoned"][0]["from"], each["name"]) for each in foretold["nodes"])]
        fleet.roll("base:1.0.0")
        # One after another, in the order of the plan, and each is cordoned as often as the plan says.
        assert fleet.cordons == [(name, is_cordoned) for name in order for is_cordoned in (True, False)]
        assert [len(fleet.boots[name]) for name in order] == [2, 2]
        # What the nodes have noted is what the next plan goes by; only an upgrade was never seen.
        served.change(SKYHOOKS, "demo", {"spec": {"packages": {"base": {"version": "1.1.0"}}}}, namespace="")
        again = fleet.plan()
        assert again["guesses"] == ["package base, stage upgrade"]
        assert {run["seen"] for run in again["runs"] if run["what"] != "package base, stage upgrade"} == {2}
        assert again["mostCordoned"] == 1
        fleet.cordons.clear()
        fleet.roll("base:1.1.0")
        order = [name for _, name in sorted((each["cordoned"][0]["from"], each["name"]) for each in again["nodes"])]
        assert fleet.cordons == [(name, is_cordoned) for name in order for is_cordoned in (True, False)]


def test_beside_profiles_the_nodes_of_a_skyhook_go_as_the_plan_says(tmp_path: Path) -> None:
    with Served(tmp_path, structs.replace(QUICK, behave=_host)) as served:
        fleet = Fleet(served)
        (tmp_path / "maintenance.yaml").write_text(PROFILES)
        fleet.configure(packages={}, profiles={"config": "maintenance.yaml"})
        served.make(node("a", pool="x"), node("b", pool="x"), node("c"))
        of_pool = {"nodeSelectors": {"matchLabels": {"pool": "x"}}}
        served.make(skyhook([{**BASE, **REBOOTS}], interruptionBudget={"count": 1}, **of_pool))
        began = {each["name"]: each["beginsAt"] for each in fleet.plan()["nodes"] if each["beginsAt"]}
        order = sorted(began, key=lambda name: began[name])
        assert sorted(order) == ["a", "b"]
        fleet.roll("base:1.0.0")
        assert fleet.cordons == [(name, is_cordoned) for name in order for is_cordoned in (True, False)]


def test_kinds_that_are_not_served_stand_in_the_first_line(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.make(node("a"))
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump({**SETTINGS, "surfaces": {"packages": {}}}))
        names = [
            "deploymentpolicies.nodewright.nvidia.com",
            "deploymentpolicies.skyhook.nvidia.com",
            "nodedisruptionbudgets.haulout.dev",
            "nodewrights.nodewright.nvidia.com",
            "skyhooks.skyhook.nvidia.com",
        ]
        planned = json.loads(served.run("plan", "-o", "json").stdout)
        assert (sorted(planned["notServed"]), planned["incomplete"]) == (names, [])
        assert served.run("plan").stdout.startswith("Skyhooks")
        seen = json.loads(served.run("status", "-o", "json").stdout)["fleet"]
        assert (sorted(seen["notServed"]), seen["incomplete"]) == (names, [])
        assert served.run("status").stdout.startswith("Skyhooks")
        # It is no fault: the exit code for scripts stays that of a fleet in which nothing waits.
        assert served.run("status", "--exit-code").returncode == 0


def test_kinds_that_a_snapshot_lacks_are_named(planned: Plan) -> None:
    found = planned(node("a"), skyhook([BASE]))
    assert "nodedisruptionbudgets.haulout.dev" in found["notInSnapshot"]
    assert "skyhooks.skyhook.nvidia.com" not in found["notInSnapshot"]
    first = planned(node("a"), skyhook([BASE]), output="text").splitlines()[0]
    assert first.startswith("Not in the snapshot, and not counted: ")
