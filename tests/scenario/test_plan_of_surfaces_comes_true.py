"""`haulout run` does what `haulout plan` has forecast for all surfaces together, on the same embedded cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NODES, PODS, Change, Json, Resource, World
from haulout.surfaces.nodemaintenance.declare import SURFACE as NODEMAINTENANCE
from haulout.surfaces.notify.declare import SURFACE as NOTIFY
from haulout.surfaces.notify.wire import OBJECTS_DRAINED, STARTED
from tests.build.served import Served
from tests.build.workloads import deployment, job, node, pod
from tests.scenario.test_plan_of_notify import notice, run
from tests.scenario.test_plan_surfaces import PROFILES, budget, maintenance

MAINTENANCES = Resource("nodemaintenance.medik8s.io", "v1beta1", "nodemaintenances")
# So long every maintenance is worked on, in the plan and by the person that the test stands for.
WORK_FOR = 0.5
SETTINGS: Json = {"leader": {"elect": False}, "listen": {"http": "0", "health": "0", "webhooks": "0"}}


class Cluster:
    """A served cluster whose NodeMaintenances are deleted some time after they have succeeded."""

    def __init__(self, served: Served) -> None:
        self.served = served
        self.succeeded: list[str] = []
        definitions = [
            strict_yaml.load(surface.definition(name))
            for surface in (SHARED, NODEMAINTENANCE, NOTIFY)
            for name in surface.crds
        ]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])

    def configured(self, **settings: Any) -> Cluster:
        whole = {"surfaces": {"nodemaintenance": {}}, **SETTINGS, **settings}
        (self.served.folder / "haulout.yaml").write_text(yaml.safe_dump(whole))
        (self.served.folder / "maintenance.yaml").write_text(PROFILES)
        return self

    def plan(self, *words: str) -> dict[str, Any]:
        """Return the plan, node by node: when it is out of service, and what it waits for."""
        given = ("--config", "haulout.yaml", "--work-for", f"{WORK_FOR}s", "--days", "0.1", "-o", "json")
        done = self.served.run("plan", *given, *words)
        assert (done.returncode, done.stderr) == (0, "")
        return {each["name"]: each for each in json.loads(done.stdout)["nodes"]}

    def follow(self, on_success: Callable[[], None] = lambda: None) -> None:
        self._on_success = on_success
        self.served.call(lambda world: world.server.subscribe(MAINTENANCES, lambda change: self._seen(world, change)))

    def _seen(self, world: World, change: Change) -> None:
        phase = (change.object.get("status") or {}).get("phase")
        name = change.object["metadata"]["name"]
        if phase == "Succeeded" and name not in self.succeeded:
            self.succeeded.append(name)
            self._on_success()
            _later(world, WORK_FOR, lambda: world.server.delete(MAINTENANCES, "", name))


def _later(world: World, seconds: float, act: Callable[[], object]) -> None:
    def carried_out() -> None:
        act()

    world.timers.at(world.timers.now() + timedelta(seconds=seconds), carried_out)


def begins(planned: dict[str, Any]) -> list[str]:
    """Return the nodes that are taken out of service, in the order of the plan."""
    found = [
        (span["from"], name)
        for name, each in planned.items()
        for span in each["states"]
        if span["state"] == "in-maintenance"
    ]
    return [name for _, name in sorted(found)]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Served(tmp_path) as served:
        yield Cluster(served)


def test_maintenances_follow_each_other_under_a_budget(cluster: Cluster) -> None:
    cluster.configured()
    cluster.served.make(node("a"), node("b"), node("c"), budget(1))
    # In the order in which they were made, which is not that of their nodes' names.
    cluster.served.make(maintenance("one", "c"), maintenance("two", "a"), maintenance("x", "b"))
    order = begins(cluster.plan())
    assert sorted(order) == ["a", "b", "c"]
    cluster.follow()
    with cluster.served.running("run"):
        cluster.served.until(lambda: len(cluster.succeeded) == 3)
    of = {"one": "c", "two": "a", "x": "b"}
    assert [of[name] for name in cluster.succeeded] == order


def test_maintenances_that_are_made_up_go_as_those_that_are_made_then(cluster: Cluster) -> None:
    cluster.configured()
    cluster.served.make(node("a"), node("b"), budget(1))
    order = begins(cluster.plan("--maintain", "a,b"))
    assert order == ["a", "b"]
    cluster.served.make(maintenance("a", "a"), maintenance("b", "b"))
    cluster.follow()
    with cluster.served.running("run"):
        cluster.served.until(lambda: len(cluster.succeeded) == 2)
    assert cluster.succeeded == order


def _cordoned(name: str) -> Json:
    made = node(name)
    made["spec"] = {**made.get("spec", {}), "unschedulable": True}
    return made


def _annotated() -> Json:
    web = deployment("web", 1)
    web["spec"]["template"]["metadata"]["annotations"] = {"haulout.dev/drain": "block"}
    return web


BLOCK = {"rules": [{"namespaces": ["default"], "action": "block"}]}


@pytest.mark.parametrize(
    "objects, settings, code",
    [
        ((_cordoned("z"), budget(1)), {}, "a is waiting: z is cordoned"),
        ((deployment("web", 1),), {"drain": BLOCK}, "a rule keeps it on its node"),
        ((_annotated(),), {}, "keeps it on its node"),
        ((budget(0),), {}, "budget few: at most 0 nodes may be out at a time"),
    ],
    ids=["a cordon that stands", "a drain rule", "an annotation", "a budget that allows none"],
)
def test_what_the_plan_says_cannot_go_does_not(
    cluster: Cluster, objects: tuple[Json, ...], settings: dict[str, Any], code: str
) -> None:
    cluster.configured(**settings)
    cluster.served.make(node("a"), *objects)
    if any(each["kind"] == "Deployment" for each in objects):
        cluster.served.until(lambda: len(cluster.served.pods_on("a")) == 1)
    cluster.served.make(maintenance("m", "a"))
    planned = cluster.plan()
    assert begins(planned) == []
    said = planned["a"]["waitsFor"]
    assert code.rpartition(": ")[2] in said
    cluster.follow()
    with cluster.served.running("run"):
        place = cluster.served
        place.until(lambda: _status(place).get("phase") == "Running")
        # The operator says why, in the words of the plan.
        explained = place.run("explain", "nm", "m")
        place.until(lambda: code.rpartition(": ")[2] in place.run("explain", "nm", "m").stdout)
    assert explained.returncode == 0
    assert cluster.succeeded == []


def test_the_nodes_of_a_selector_go_and_no_others(cluster: Cluster) -> None:
    cluster.configured()
    cluster.served.make(
        *(node(name, pool=pool) for name, pool in (("a", "blue"), ("b", "red"), ("c", "blue"))), budget(1)
    )
    order = begins(cluster.plan("--maintain", "pool=blue"))
    assert order == ["a", "c"]
    cluster.served.make(maintenance("a", "a"), maintenance("c", "c"))
    cluster.follow()
    with cluster.served.running("run"):
        cluster.served.until(lambda: len(cluster.succeeded) == 2)
    assert cluster.succeeded == order


HOLDS = {"haulout.dev/drain": "block"}


def _pinned(made: Json, where: str, notes: Json) -> Json:
    """Return a workload whose pods are on one node, with these annotations on their template."""
    template = made["spec"].get("template", made)
    template["spec"]["nodeSelector"] = {"kubernetes.io/hostname": where}
    template["metadata"]["annotations"] = notes
    return made


def test_pods_that_the_plan_cannot_make_keep_the_nodes_that_it_names(cluster: Cluster) -> None:
    """A bare pod, a Job's pod, and one pod of a Deployment that a person has annotated."""
    cluster.configured()
    served = cluster.served
    served.make(*(node(name) for name in "abcd"))
    served.make(
        _pinned(pod("bare"), "a", HOLDS), _pinned(job("train"), "b", HOLDS), _pinned(deployment("web", 2), "c", {})
    )
    served.until(lambda: [len(served.pods_on(name)) for name in "abc"] == [1, 1, 2])
    chosen = served.pods_on("c")[0]["metadata"]["name"]
    served.change(PODS, chosen, {"metadata": {"annotations": HOLDS}})
    planned = cluster.plan("--maintain", "a,b,c,d")
    assert begins(planned) == ["d"]
    assert [name for name in "abc" if "keeps it on its node" in planned[name]["waitsFor"]] == ["a", "b", "c"]
    assert chosen in planned["c"]["waitsFor"]
    served.make(*(maintenance(name, name) for name in "abcd"))
    cluster.follow()
    with served.running("run"):
        served.until(lambda: cluster.succeeded == ["d"])
        for name in "abc":
            said = planned[name]["waitsFor"]
            served.until(lambda name=name, said=said: said in served.run("explain", "nm", name).stdout)  # type: ignore[misc]
    assert cluster.succeeded == ["d"]


def _status(served: Served) -> Json:
    found = served.call(lambda world: world.server.get(MAINTENANCES, "", "m"))
    return (found or {}).get("status") or {}


def test_a_profile_and_a_maintenance_take_turns_in_the_order_of_the_plan(cluster: Cluster) -> None:
    cluster.configured(surfaces={"nodemaintenance": {}, "profiles": {"config": "maintenance.yaml"}})
    both = node("a", wanted="v2")
    both["metadata"]["labels"]["cloud.sap/maintenance-profile"] = "image"
    cluster.served.make(both, maintenance("m", "a"))
    planned = cluster.plan("--after", f"in-maintenance={2 * WORK_FOR}s:booted=v2")
    assert planned["a"]["waitsFor"] == ""
    # The two works differ in how long they last; the plan tells the node's state, whichever surface brings it about.
    foretold = [round(_lasts(span), 1) for span in planned["a"]["states"] if span["state"] == "in-maintenance"]
    works: list[float] = []
    cluster.follow(lambda: works.append(WORK_FOR))
    cluster.served.call(lambda world: world.server.subscribe(NODES, lambda change: _work(world, change, works)))
    with cluster.served.running("run"):
        cluster.served.until(lambda: len(works) == 2)
    assert works == foretold


def _lasts(span: Json) -> float:
    return (datetime.fromisoformat(span["to"]) - datetime.fromisoformat(span["from"])).total_seconds()


def _work(world: World, change: Change, works: list[float]) -> None:
    state = "cloud.sap/maintenance-state"
    before, now = (
        (each or {}).get("metadata", {}).get("labels", {}).get(state) for each in (change.old, change.object)
    )
    if before != now == "in-maintenance":
        works.append(2 * WORK_FOR)
        _later(
            world, 2 * WORK_FOR, lambda: world.server.patch(NODES, "", "a", {"metadata": {"labels": {"booted": "v2"}}})
        )


NOTICES = Resource("ngn2.nvidia.com", "v1alpha1", "notifymaintenances")
NOTIFY_FILE = {
    "slaPeriod": "3s",
    "operators": {
        "scheduler": {"enabled": True, "budgets": [{"name": "all", "maxUnavailable": 1}]},
        "drainer": {"enabled": True, "settle": "100ms"},
        "returner": {"enabled": True},
    },
}


class Notices:
    """A served cluster whose NotifyMaintenances are deleted some time after their nodes are drained."""

    def __init__(self, cluster: Cluster) -> None:
        self.started: list[str] = []
        self.drained: list[str] = []
        cluster.served.call(lambda world: world.server.subscribe(NOTICES, lambda change: self._seen(world, change)))

    def _seen(self, world: World, change: Change) -> None:
        state = (change.object.get("status") or {}).get("maintenanceStatus")
        name, of = change.object["metadata"]["name"], change.object["spec"]["nodeObject"]
        if state == STARTED and of not in self.started:
            self.started.append(of)
        if state == OBJECTS_DRAINED and of not in self.drained:
            self.drained.append(of)
            _later(world, WORK_FOR, lambda: world.server.delete(NOTICES, "fleet", name))


def test_the_scheduler_of_notify_chooses_the_nodes_that_the_plan_names(cluster: Cluster) -> None:
    cluster.configured(surfaces={"notify": {"config": "notify.yaml"}})
    (cluster.served.folder / "notify.yaml").write_text(yaml.safe_dump(NOTIFY_FILE))
    fleet = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}
    runs = [run("long", "a", "3h"), run("short", "b", "5m")]
    for each in runs:
        # What ends by itself ends when it was announced to: not while the test runs.
        each["metadata"] = {name: each["metadata"][name] for name in ("name", "namespace", "annotations")}
        each["metadata"]["annotations"]["haulout.dev/drain"] = "wait"
    cluster.served.make(fleet, node("a"), node("b"), node("c"), *runs)
    cluster.served.until(lambda: len(cluster.served.pods_on("a")) == len(cluster.served.pods_on("b")) == 1)
    cluster.served.make(*(notice(f"m{name}", name) for name in "abc"))
    done = cluster.served.run("plan", "--work-for", f"{WORK_FOR}s", "--days", "0.1", "-o", "json")
    assert (done.returncode, done.stderr) == (0, "")
    choices = json.loads(done.stdout)["choices"]
    foretold = [choice["node"] for choice in choices]
    assert foretold == ["c", "b", "a"]
    notices = Notices(cluster)
    with cluster.served.running("run"):
        cluster.served.until(lambda: len(notices.drained) == 3)
    assert (notices.started, notices.drained) == (foretold, foretold)
    assert choices[0]["why"] == "Selected: score=1.000 likelihood=1.000 drain=0s"
