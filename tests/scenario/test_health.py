"""Other tools understand how far objects are: by the conditions of kstatus, and by the health checks for Argo CD."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from lupa.lua51 import LuaRuntime

import haulout
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Json, Resource
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.options import Options as PackageOptions
from haulout.surfaces.registry import all_declarations, definition_of
from tests.build.all_surfaces import DEMO, NODE_BUDGETS, AllSurfaces
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES, Notices, options
from tests.build.skyhooks import SKYHOOKS, pkg
from tests.build.units import Units

CHECKS: dict[str, str] = yaml.safe_load(
    (Path(haulout.__file__).parents[2] / "deploy" / "argocd" / "health.yaml").read_text()
)["data"]
SETS = Resource("haulout.dev", "v1alpha1", "nodemaintenancesets")
# Argo CD opens these alone for a health check.
LIBRARIES = frozenset({"package", "table", "_G"})
FUNCTIONS = frozenset(
    [
        "assert",
        "error",
        "getmetatable",
        "ipairs",
        "next",
        "pairs",
        "pcall",
        "rawequal",
        "rawget",
        "rawset",
        "require",
        "select",
        "setmetatable",
        "tonumber",
        "tostring",
        "type",
        "unpack",
        "xpcall",
        "_VERSION",
        "collectgarbage",
        "module",
    ]
)


def health(obj: Json) -> tuple[str, str]:
    """Return status and message of an object by the check of its kind, as Argo CD runs it."""
    group = obj["apiVersion"].partition("/")[0]
    lua = LuaRuntime(unpack_returned_tuples=True, register_eval=False)
    names = lua.globals()
    for name in [name for name in names if name not in LIBRARIES | FUNCTIONS]:
        names[name] = None
    names["obj"] = lua.table_from(_plain(obj), recursive=True)
    found = lua.execute(CHECKS[f"resource.customizations.health.{group}_{obj['kind']}"])
    assert found["status"] in ("Healthy", "Progressing", "Degraded", "Suspended")
    return found["status"], found["message"]


def _plain(value: Any) -> Any:
    return {key: _plain(each) for key, each in value.items()} if isinstance(value, Mapping) else value


def kstatus(obj: Json) -> str:
    """Return the status of an object by the rules of kstatus, which Flux and kpt follow."""
    status = obj.get("status", {})
    conditions = {each["type"]: each["status"] for each in status.get("conditions", ())}
    if "deletionTimestamp" in obj["metadata"]:
        return "Terminating"
    if status.get("observedGeneration", obj["metadata"]["generation"]) != obj["metadata"]["generation"]:
        return "InProgress"
    if conditions.get("Reconciling") == "True":
        return "InProgress"
    if conditions.get("Stalled") == "True":
        return "Failed"
    return "Current" if conditions.get("Ready", "True") == "True" else "InProgress"


def shows(obj: Json) -> tuple[str, str]:
    return kstatus(obj), health(obj)[0]


def test_every_kind_with_a_status_has_a_check() -> None:
    with_status = set()
    for surface in all_declarations():
        for name in surface.crds:
            spec = yaml.safe_load(definition_of(surface, name))["spec"]
            if any("status" in each.get("subresources", {}) for each in spec["versions"]):
                with_status.add(f"resource.customizations.health.{spec['group']}_{spec['names']['kind']}")
    # PlatformInfos are written by other programs, and the DeploymentPolicies of Skyhooks have no status of ours.
    assert {each for each in with_status if not each.endswith(("_PlatformInfo", "_DeploymentPolicy"))} == set(CHECKS)


def test_a_node_maintenance_from_beginning_to_end() -> None:
    all_ = AllSurfaces(2)
    all_.maintain("n0")
    maintenance = all_.world.get(MAINTENANCES, "n0", "")
    assert health(maintenance) == ("Progressing", "waiting for the operator")
    seen: list[tuple[str, str]] = []
    for _ in range(100):
        all_.driver.run(all_.world.time.now() + timedelta(seconds=1))
        found = all_.world.get(MAINTENANCES, "n0", "")
        seen += [shows(found)] if not seen or seen[-1] != shows(found) else []
        if seen[-1] == ("Current", "Healthy"):
            break
    assert set(seen[:-1]) <= {("Current", "Progressing"), ("InProgress", "Progressing")}
    assert seen[-1] == ("Current", "Healthy")
    assert found["status"]["observedGeneration"] == 1
    ready = next(each for each in found["status"]["conditions"] if each["type"] == "Ready")
    assert (ready["reason"], ready["observedGeneration"]) == ("Succeeded", 1)
    all_.world.change(MAINTENANCES, "n0", {"spec": {"reason": "longer"}}, "")
    all_.driver.run(all_.world.time.now() + timedelta(seconds=5))
    assert all_.world.get(MAINTENANCES, "n0", "")["status"]["observedGeneration"] == 2


def test_a_refused_node_maintenance_is_degraded() -> None:
    all_ = AllSurfaces(2)
    all_.maintain("n0")
    all_._create(MAINTENANCES, "NodeMaintenance", {"name": "second"}, {"nodeName": "n0"})
    all_.driver.run(all_.world.time.now() + timedelta(seconds=5))
    refused = all_.world.get(MAINTENANCES, "second", "")
    assert shows(refused) == ("Failed", "Degraded")
    assert health(refused)[1] == "invalid nodeName, a NodeMaintenance for node n0 already exists"


def test_a_notify_maintenance_a_skyhook_and_a_budget() -> None:
    all_ = AllSurfaces(4)
    all_.run(5)
    assert shows(all_.world.get(NODE_BUDGETS, "two", "")) == ("Current", "Healthy")
    all_.notice("n0")
    all_.roll()
    all_.run(10)
    assert shows(all_.world.get(NOTICES, "n0", HOME)) == ("InProgress", "Progressing")
    skyhook = all_.world.get(SKYHOOKS, DEMO, "")
    assert shows(skyhook) == ("InProgress", "Progressing")
    all_.run(240)
    assert shows(all_.world.get(SKYHOOKS, DEMO, "")) == ("Current", "Healthy")
    all_._create(
        NODE_BUDGETS,
        "NodeDisruptionBudget",
        {"name": "bad"},
        {"selector": {}, "windows": [{"type": "Allow", "schedule": "x", "duration": "1h"}]},
    )
    all_.run(10)
    assert shows(all_.world.get(NODE_BUDGETS, "bad", "")) == ("Failed", "Degraded")


def courses(all_: AllSurfaces, resource: Resource, name: str, seconds: int) -> list[tuple[str, str]]:
    """Return what an object shows one after the other, while virtual time passes."""
    seen = []
    for _ in range(seconds):
        all_.run(1)
        seen.append(shows(all_.world.get(resource, name, "")))
    return list(dict.fromkeys(seen))


def test_a_set_of_node_maintenances_from_beginning_to_end() -> None:
    all_ = AllSurfaces(3)
    all_._create(SETS, "NodeMaintenanceSet", {"name": "both"}, {"nodes": ["n0", "n1"], "maxConcurrent": 1})
    assert courses(all_, SETS, "both", 60) == [("InProgress", "Progressing"), ("Current", "Healthy")]
    all_._create(SETS, "NodeMaintenanceSet", {"name": "bad"}, {"nodes": ["n0"], "ttl": "never"})
    assert courses(all_, SETS, "bad", 5)[-1] == ("Failed", "Degraded")


def test_a_paused_set_is_suspended() -> None:
    all_ = AllSurfaces(3)
    metadata = {"name": "both", "annotations": {"haulout.dev/paused": "until tomorrow"}}
    all_._create(SETS, "NodeMaintenanceSet", metadata, {"nodes": ["n0", "n1"]})
    assert courses(all_, SETS, "both", 10)[-1] == ("InProgress", "Suspended")


def test_a_notify_maintenance_that_is_validated() -> None:
    ops = Notices(options(alone=False))
    ops.drained("a")
    assert shows(ops.get("a")) == ("InProgress", "Progressing")
    ops.annotate("a", client="complete").run(5)
    assert shows(ops.get("a")) == ("InProgress", "Progressing")
    ops.annotate("a", validation="complete").run(5)
    assert shows(ops.get("a")) == ("Current", "Healthy")


def test_a_notify_maintenance_that_is_incomplete() -> None:
    ops = Notices(options(alone=False))
    ops.drained("a")
    ops.annotate("a", client="incomplete").run(5)
    assert shows(ops.get("a")) == ("Failed", "Degraded")


GOOD = {"base": pkg()}


def live(group: Group, packages: Json, **more: Any) -> Units:
    return Units(PackageOptions(alone=False)).create(group, packages, **more)


def shown(ops: Units, group: Group) -> tuple[str, str]:
    found = ops.object(group)
    assert found is not None
    return shows(found)


@pytest.mark.parametrize("group", [SKYHOOK, NODEWRIGHT], ids=lambda group: str(group.kind))
class TestPackages:
    """Objects of both groups with the statuses that the operator writes."""

    def test_one_that_succeeds(self, group: Group) -> None:
        ops = live(group, GOOD).run(0.5)
        assert shown(ops, group) == ("InProgress", "Progressing")
        assert shown(ops.run(60), group) == ("Current", "Healthy")

    def test_one_that_is_paused(self, group: Group) -> None:
        ops = live(group, GOOD, annotations={f"{group.prefix}pause": "true"}).run(30)
        assert shown(ops, group) == ("InProgress", "Suspended")

    def test_one_whose_spec_is_invalid(self, group: Group) -> None:
        ops = live(group, {"base": pkg("not-a-version")}).run(30)
        assert shown(ops, group) == ("Failed", "Degraded")


def test_a_skyhook_whose_package_fails() -> None:
    ops = live(SKYHOOK, GOOD)
    ops.fate = lambda about: "fail"
    assert shown(ops.run(60), SKYHOOK) == ("Failed", "Degraded")


def test_a_skyhook_that_fails_after_an_edit_is_degraded_though_kstatus_waits_for_its_generation() -> None:
    """Its observedGeneration is the original's: the generation that was complete last. docs/health.md says so."""
    ops = live(SKYHOOK, GOOD).run(60)
    ops.fate = lambda about: "fail"
    ops.change(SKYHOOK, {"spec": {"packages": {"base": pkg("2.0.0")}}}).run(60)
    assert shown(ops, SKYHOOK) == ("InProgress", "Degraded")


def test_a_definition_that_prunes_the_conditions_causes_no_further_write() -> None:
    all_ = AllSurfaces(2)
    _prune(all_, MAINTENANCES, "nodemaintenances.nodemaintenance.medik8s.io")
    all_.maintain("n0")
    all_.driver.run(all_.world.time.now() + timedelta(seconds=60))
    before = all_.world.get(MAINTENANCES, "n0", "")
    assert before["status"]["phase"] == "Succeeded"
    assert "observedGeneration" not in before["status"]
    writes: list[Any] = []
    all_.on_write = writes.append
    all_.world.change(MAINTENANCES, "n0", {"spec": {"reason": "longer"}}, "")
    all_.driver.run(all_.world.time.now() + timedelta(seconds=60))
    # An edit begins another pass of the drain, with a status at its beginning and its end.
    assert len([each for each in writes if is_status(each)]) <= 2
    writes.clear()
    all_.driver.run(all_.world.time.now() + timedelta(minutes=5))
    assert [each for each in writes if is_status(each)] == []
    assert health(all_.world.get(MAINTENANCES, "n0", "")) == ("Healthy", "Succeeded")


def is_status(write: Any) -> bool:
    return bool(getattr(write, "subresource", "") == "status" and write.target.kind == "NodeMaintenance")


def _prune(all_: AllSurfaces, resource: Resource, name: str) -> None:
    found = all_.world.objects.get(CUSTOM_RESOURCE_DEFINITIONS, "", name)
    assert found is not None
    versions = found["spec"]["versions"]
    for each in versions:
        if each["name"] == resource.version:
            fields = each["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]
            del fields["observedGeneration"], fields["conditions"]
    all_.world.objects.patch(CUSTOM_RESOURCE_DEFINITIONS, "", name, {"spec": {"versions": versions}})


@pytest.mark.parametrize(
    ("kind", "status", "expected"),
    [
        ("Skyhook", {"status": "erroring"}, ("Degraded", "erroring")),
        ("Skyhook", {"status": "paused"}, ("Suspended", "paused")),
        ("Skyhook", {"status": "complete"}, ("Healthy", "complete")),
        ("Skyhook", {"status": "in_progress"}, ("Progressing", "in_progress")),
        (
            "NodeWright",
            {"conditions": [{"type": "Ready", "status": "False", "reason": "Paused"}]},
            ("Suspended", "Paused"),
        ),
        (
            "NodeWright",
            {"observedGeneration": 1, "conditions": [{"type": "Ready", "status": "True", "reason": "NodesConverged"}]},
            ("Progressing", "the operator has not seen the last change"),
        ),
    ],
)
def test_statuses_of_originals(kind: str, status: Json, expected: tuple[str, str]) -> None:
    group = f"{kind.lower()}.nvidia.com"
    body = {
        "apiVersion": f"{group}/v1alpha1",
        "kind": kind,
        "metadata": {"name": "x", "generation": 2},
        "status": status,
    }
    assert health(body) == expected
