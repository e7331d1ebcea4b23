"""Maintenances that are being deleted: `status`, `explain` and `wait` say so, what holds them, and what to do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from haulout.base import yaml as strict_yaml
from haulout.core.budgets.declare import SURFACE as SHARED
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Json, Resource
from haulout.surfaces.nodemaintenance.declare import SURFACE as NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.wire import FINALIZER
from tests.build.all_surfaces import DEMO, AllSurfaces
from tests.build.maintenances import DRAIN, LEASES, MAINTENANCES
from tests.build.notices import HOME, NOTICES
from tests.build.served import Served
from tests.build.skyhooks import SKYHOOKS
from tests.build.workloads import budget, node, pod
from tests.scenario.test_nobody_leads import FIRST, HOUR, SETTINGS, lease
from tests.scenario.test_plan_surfaces import maintenance
from tests.scenario.test_vanished_objects import status, until_cordoned

HELD = "example.com/hold"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with Served(tmp_path) as made:
        (tmp_path / "haulout.yaml").write_text(yaml.safe_dump(SETTINGS))
        definitions = [
            strict_yaml.load(surface.definition(name)) for surface in (SHARED, NODEMAINTENANCE) for name in surface.crds
        ]
        made.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        yield made


def make(
    served: Served, name: str, of: str, status: Json, *finalizers: str, is_deleted: bool = False, deadline: int = 0
) -> None:
    """Create a NodeMaintenance in a state that an operator has left. `deadline`: of its drain, in seconds."""
    made = maintenance(name, of)
    made["metadata"]["finalizers"] = list(finalizers)
    owner = {"apiVersion": "v1", "kind": "Node", "name": of, "uid": served.node(of)["metadata"]["uid"]}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": False, "blockOwnerDeletion": False}]
    made["spec"]["drain"] = {"deadlineSeconds": deadline, "deadlineAction": "Fail"} if deadline else {}

    def write(world: Any) -> None:
        world.server.create(MAINTENANCES, made)
        world.server.patch(MAINTENANCES, "", name, {"status": status}, subresource="status")
        if is_deleted:
            world.server.delete(MAINTENANCES, "", name)

    served.call(write)


def out_of_service(name: str) -> Json:
    made = node(name)
    made["spec"] = {"unschedulable": True, "taints": [DRAIN]}
    return made


def lead(served: Served, ago: timedelta) -> None:
    served.call(lambda world: world.server.create(LEASES, lease(ago)))


def test_nobody_leads_with_one_failed_and_one_hanging_in_deletion(served: Served) -> None:
    lead(served, HOUR)
    served.make(out_of_service("a"), out_of_service("b"), node("c"), pod("db-0", nodeName="b"))
    make(served, "one", "a", {"phase": "Failed", "lastError": "it broke"}, FINALIZER)
    make(served, "two", "b", {"phase": "Running"}, FINALIZER, is_deleted=True)
    done = served.run("status", "--exit-code")
    assert done.returncode == 1
    assert done.stdout.startswith(FIRST)
    assert "1 returning (r)" in done.stdout
    assert "a: NodeMaintenance one has failed: it broke" in done.stdout
    assert "b: returning for nodemaintenance nodemaintenance/two, standing still since" in done.stdout
    explained = served.run("explain", "nm", "two").stdout
    assert "NodeMaintenance two is being deleted since 20" in explained
    assert "the operator ends its work first (standing still since" in explained
    assert "it broke" in served.run("explain", "nm", "one").stdout
    waited = served.run("wait", "b", "--for", "maintained", "--timeout", "1s")
    assert (waited.returncode, waited.stdout) == (1, "")
    assert waited.stderr.startswith(FIRST)


def test_nothing_is_maintained_where_nobody_leads(served: Served) -> None:
    lead(served, HOUR)
    served.make(out_of_service("a"))
    make(served, "one", "a", {"phase": "Succeeded"}, FINALIZER)
    waited = served.run("wait", "a", "--for", "maintained", "--timeout", "1s")
    assert (waited.returncode, waited.stdout) == (1, "")


def test_a_finalizer_of_another_program(served: Served) -> None:
    lead(served, timedelta())
    served.make(node("a"))
    make(served, "one", "a", {"phase": "Succeeded"}, HELD, is_deleted=True)
    make(served, "two", "a", {"phase": "Failed", "lastError": TAKEN}, FINALIZER)
    explained = served.run("explain", "nm", "one").stdout
    assert "NodeMaintenance one is being deleted since 20" in explained
    assert f"finalizer {HELD} holds it" in explained
    assert f"repair the program that removes finalizer {HELD}; if it is gone: kubectl patch nodemaintenance one" in (
        " ".join(explained.split())
    )
    assert "Succeeded" not in explained
    shown = served.run("status", "--exit-code")
    assert shown.returncode == 1
    words = " ".join(shown.stdout.split())
    assert "1 x NodeMaintenance one is being deleted since 20" in words
    assert f"finalizer {HELD} holds it: a what would help: repair" in words
    assert "waiting for nodemaintenance nodemaintenance/one" not in shown.stdout
    assert "two starts once NodeMaintenance one is deleted: haulout explain nm one" in words
    assert "two starts once NodeMaintenance one is deleted" in served.run("explain", "nm", "two").stdout


TAKEN = "invalid nodeName, a NodeMaintenance for node a already exists"


def test_a_maintenance_past_its_deadline_names_the_budget_that_blocks_its_drain(served: Served) -> None:
    lead(served, timedelta())
    closed = budget("db", minAvailable=1)
    closed["status"] = {
        "observedGeneration": 1,
        "disruptionsAllowed": 0,
        "currentHealthy": 1,
        "desiredHealthy": 1,
        "expectedPods": 1,
    }
    served.make(out_of_service("a"), pod("db-0", app="db", nodeName="a"), closed)
    error = 'error when evicting pods/"db-0" -n "default": global timeout reached: 30s'
    cordoned = {"type": "Cordoned", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    make(served, "one", "a", {"phase": "Failed", "lastError": error, "conditions": [cordoned]}, FINALIZER, deadline=3)
    explained = " ".join(served.run("explain", "nm", "one").stdout.split())
    assert f"NodeMaintenance one has failed: {error}" in explained
    assert "PodDisruptionBudget default/db: " in explained
    assert "what would help: " in explained
    assert "kubectl scale" in explained.partition("what would help")[2] or "default/db" in explained
    shown = " ".join(served.run("status").stdout.split())
    assert f"a: NodeMaintenance one has failed: {error}; PodDisruptionBudget default/db: " in shown
    assert "remove the cause" not in shown
    assert "then give the node back: kubectl delete nm one" in shown


def test_the_printed_command_tests_for_the_finalizer_that_it_removes(served: Served) -> None:
    lead(served, timedelta())
    served.make(node("a"))
    make(served, "one", "a", {}, "example.com/first", HELD, is_deleted=True)
    act = json.loads(served.run("explain", "nm", "one", "-o", "json").stdout)["act"]
    assert json.loads(act.partition("'")[2].removesuffix("'")) == [
        {"op": "test", "path": "/metadata/finalizers/0", "value": "example.com/first"},
        {"op": "remove", "path": "/metadata/finalizers/0"},
    ]


@pytest.mark.parametrize(
    ("resource", "namespace", "name", "kind"),
    [(SKYHOOKS, "", DEMO, "Skyhook"), (NOTICES, HOME, "n0", "NotifyMaintenance")],
)
def test_every_surface_says_what_holds_its_object(resource: Resource, namespace: str, name: str, kind: str) -> None:
    everything = AllSurfaces(count=1)
    everything.roll()
    everything.notice("n0")
    until_cordoned(everything)
    found = everything.world.objects.get(resource, namespace, name)
    assert found is not None
    both = [HELD, *found["metadata"]["finalizers"]]
    everything.world.objects.patch(resource, namespace, name, {"metadata": {"finalizers": both}})
    everything.world.objects.delete(resource, namespace, name)
    everything.world.objects.patch(resource, namespace, name, {"metadata": {"finalizers": [HELD]}})
    everything.run(100)
    (cause,) = [each for each in status(everything).causes if each.code == "deletion-held"]
    assert cause.text.startswith(f"{kind} {f'{namespace}/' if namespace else ''}{name} is being deleted since 20")
    assert HELD in cause.act
