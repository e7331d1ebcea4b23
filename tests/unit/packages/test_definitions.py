"""The definitions of Skyhook and DeploymentPolicy: what they fill in, what they refuse, and what `kubectl get` shows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Json
from haulout.surfaces.packages.specs.skyhook_problems import spec_problem
from haulout.surfaces.packages.wire import Spec
from haulout.surfaces.registry import definition
from tests.build.apiserver import World

BASE = "/apis/skyhook.nvidia.com/v1alpha1"


@pytest.fixture
def world() -> World:
    world = World()
    for name in ("skyhooks", "deploymentpolicies"):
        world.server.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.safe_load(definition(name)))
    return world


def skyhook(**spec: Any) -> Json:
    return {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "metadata": {"name": "s"}, "spec": spec}


def policy(**spec: Any) -> Json:
    return {**skyhook(**spec), "kind": "DeploymentPolicy"}


def test_what_a_skyhook_leaves_out_is_filled_in(world: World) -> None:
    said = world.ask("POST", f"{BASE}/skyhooks", skyhook(deploymentPolicyOptions={}, drainConfig={}))
    assert said.code == 201
    assert said.body["spec"] == {
        "serial": False,
        "pause": False,
        "runtimeRequired": False,
        "autoTaintNewNodes": False,
        "priority": 200,
        "sequencing": "node",
        "deploymentPolicyOptions": {"resetBatchStateOnCompletion": True},
        "drainConfig": {
            "deleteEmptyDirData": True,
            "force": True,
            "ignoreDaemonSets": True,
            "disableEviction": False,
        },
    }
    status = world.ask("PATCH", f"{BASE}/skyhooks/s/status", {"status": {"status": "unknown"}}, patch="merge").body
    assert status["status"] == {
        "status": "unknown",
        "nodesInProgress": 0,
        "completeNodes": "0/0",
        "packageList": "",
    }


def test_what_a_policy_leaves_out_is_filled_in(world: World) -> None:
    said = world.ask("POST", f"{BASE}/deploymentpolicies", policy(default={"strategy": {"fixed": {}}}, gate={}))
    assert said.body["spec"] == {
        "default": {"strategy": {"fixed": {}}},
        "resetBatchStateOnCompletion": True,
        "gate": {"rollback": False},
    }


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param({"priority": 0}, "spec.priority: Invalid value: 0", id="priority"),
        pytest.param({"interruptionBudget": {"percent": 101}}, "spec.interruptionBudget.percent: Invalid", id="budget"),
        pytest.param({"packages": {"aa": {"version": "1"}}}, "spec.packages.aa.image: Required", id="image"),
        pytest.param({"packages": {"aa": {"image": "x"}}}, "spec.packages.aa.version: Required", id="version"),
        pytest.param(
            {"packages": {"aa": {"image": "x", "version": "1", "name": "a1"}}},
            "should match '^[a-z][-a-z0-9]{0,41}[a-z]$'",
            id="name",
        ),
        pytest.param(
            {"packages": {"aa": {"image": "x", "version": "1", "interrupt": {"type": "foo"}}}},
            'supported values: "service", "reboot", "noop", "restartAllServices"',
            id="interrupt",
        ),
        pytest.param({"sequencing": "fleet"}, 'supported values: "node", "all"', id="sequencing"),
    ],
)
def test_what_a_skyhook_must_not_say(world: World, spec: Json, problem: str) -> None:
    said = world.ask("POST", f"{BASE}/skyhooks", skyhook(**spec))
    assert said.code == 422
    assert problem in said.message


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        pytest.param({}, "spec.default: Required", id="default"),
        pytest.param({"default": {}}, "spec.default.strategy: Required", id="strategy"),
        pytest.param({"default": {"strategy": {}, "budget": {"count": 0}}}, "spec.default.budget.count", id="count"),
        pytest.param({"default": {"strategy": {"exponential": {"growthFactor": 1}}}}, "growthFactor", id="factor"),
        pytest.param(
            {"default": {"strategy": {}}, "compartments": [{"name": "", "selector": {}, "budget": {}}]},
            "spec.compartments[0].name",
            id="name",
        ),
    ],
)
def test_what_a_policy_must_not_say(world: World, spec: Json, problem: str) -> None:
    said = world.ask("POST", f"{BASE}/deploymentpolicies", policy(**spec))
    assert said.code == 422
    assert problem in said.message


def test_columns(world: World) -> None:
    world.ask("POST", f"{BASE}/skyhooks", skyhook(deploymentPolicy="careful"))
    status = {"status": "complete", "completeNodes": "1/1", "packageList": "aa:1.0.0", "nodesInProgress": 2}
    world.ask("PATCH", f"{BASE}/skyhooks/s/status", {"status": status}, patch="merge")
    table = world.ask("GET", f"{BASE}/skyhooks", accept="application/json;as=Table;v=v1;g=meta.k8s.io").body
    shown = {
        column["name"]: cell for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)
    }
    assert shown.pop("Age")
    assert list(shown.items()) == [
        ("Name", "s"),
        ("Status", "complete"),
        ("Priority", 200),
        ("Nodes In-Progress", 2),
        ("Complete Nodes", "1/1"),
        ("Packages", "aa:1.0.0"),
        ("Policy", "careful"),
    ]


EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "skyhooks").iterdir())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_are_accepted_as_they_are(world: World, path: Path) -> None:
    plurals = {"Skyhook": "skyhooks", "DeploymentPolicy": "deploymentpolicies"}
    for document in yaml.safe_load_all(path.read_text()):
        said = world.ask("POST", f"{BASE}/{plurals[document['kind']]}?fieldValidation=Strict", document)
        assert said.code == 201, said.message
    objects = [document["spec"] for document in yaml.safe_load_all(path.read_text()) if document["kind"] == "Skyhook"]
    assert [spec_problem(msgspec.convert(spec, Spec)) for spec in objects] == [""] * len(objects)


@pytest.mark.parametrize(
    ("field", "value", "is_allowed"),
    [
        ("image", "reg.test:5000/a/b", True),
        ("image", "reg.test/a b", False),
        ("containerSHA", f"sha256:{'0' * 64}", True),
        ("containerSHA", "", True),
        ("containerSHA", "sha256:0", False),
    ],
)
def test_images_of_nodewrights_have_the_original_patterns(field: str, value: str, is_allowed: bool) -> None:
    found = yaml.safe_load(definition("nodewrights"))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    package = found["properties"]["spec"]["properties"]["packages"]["additionalProperties"]["properties"]
    assert bool(re.search(package[field]["pattern"], value)) is is_allowed
