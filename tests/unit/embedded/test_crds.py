"""Custom kinds: their definitions and schemas, beyond what contract cases show."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Json, Resource
from haulout.embedded.rules import schemas
from haulout.kube.errors import NotFound
from tests.build.apiserver import World

WIDGETS = Resource("ex.io", "v1", "widgets")

SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "name": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 5},
        "port": {"x-kubernetes-int-or-string": True},
        "maybe": {"type": "string", "nullable": True},
        "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "nested": {"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 3}}},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}}},
        },
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "when": {"type": "string", "format": "date-time"},
        "flag": {"type": "boolean"},
        "one": {"type": "object", "properties": {"x": {"type": "string"}, "y": {"type": "string"}}, "oneOf": [{"required": ["x"]}, {"required": ["y"]}]},
        "replicas": {"type": "integer"},
    },
}  # fmt: skip
SCHEMA: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": SPEC,
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "replicas": {"type": "integer"}}},
    },
}


def definition(**version: Any) -> Json:
    return {
        "metadata": {"name": "widgets.ex.io"},
        "spec": {
            "group": "ex.io",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": SCHEMA},
                    "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
                    "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}, {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}],
                    **version,
                },
                {"name": "v1alpha1", "served": True, "storage": False, "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}},
            ],
        },
    }  # fmt: skip


def widget(name: str = "w", /, **spec: Any) -> Json:
    return {
        "apiVersion": "ex.io/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


@pytest.fixture
def world() -> World:
    world = World()
    world.server.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    return world


def test_a_definition_takes_its_objects_with_it(world: World) -> None:
    world.server.create(
        WIDGETS, {**widget(size=5), "metadata": {"name": "w", "namespace": "default", "finalizers": ["x.io/f"]}}
    )
    said = world.ask("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.ex.io")
    assert said.body["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    assert world.server.get(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.ex.io") is not None
    world.server.patch(WIDGETS, "default", "w", {"metadata": {"finalizers": None}})
    assert world.server.get(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.ex.io") is None
    with pytest.raises(NotFound):
        world.server.list(WIDGETS)
    world.server.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    assert world.server.list(WIDGETS) == []


def test_a_definition_that_changes_changes_its_kind(world: World) -> None:
    loose = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    changed = definition(schema={"openAPIV3Schema": loose}, subresources={})
    world.server.patch(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.ex.io", {"spec": changed["spec"]})
    made = world.server.create(WIDGETS, widget(anything="goes") | {"status": {"phase": "X"}})
    assert (made["spec"], made["status"]) == ({"anything": "goes"}, {"phase": "X"})


def test_rules_are_not_evaluated_and_that_is_said() -> None:
    ruled = {**SCHEMA, "x-kubernetes-validations": [{"rule": "false"}]}
    said = World().ask(
        "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition(schema={"openAPIV3Schema": ruled})
    )
    assert "x-kubernetes-validations are not evaluated by the embedded cluster" in said.warnings[0]


def test_filling_shares_what_it_does_not_change() -> None:
    value = {"spec": {"size": 1, "color": "red", "nested": {"a": 1}}}
    assert schemas.fill(SCHEMA, value) is value
    filled = schemas.fill(SCHEMA, {"spec": {"size": 1, "color": "red", "nested": value["spec"]["nested"]}})
    assert filled["spec"]["nested"] is value["spec"]["nested"]


@pytest.mark.parametrize(
    "value, accepted",
    [
        pytest.param({"phase": "X", "replicas": 2}, True, id="as the schema says"),
        pytest.param({}, True, id="nothing required"),
        pytest.param({"phase": 1}, False, id="another type"),
        pytest.param({"phase": None}, False, id="null"),
        pytest.param({"other": 1}, False, id="an unknown field"),
        pytest.param(None, False, id="nothing at all"),
    ],
)
def test_the_quick_test_of_a_status(value: Any, accepted: bool) -> None:
    assert schemas.acceptor(SCHEMA["properties"]["status"])(value) is accepted


@pytest.mark.parametrize(
    "sent, wanted",
    [
        pytest.param({"status": None}, {"spec", "status"}, id="null in place of the status"),
        pytest.param({"spec": {"size": 2, "other": 1}}, {"spec", "status"}, id="an unknown field"),
        pytest.param({"other": {"a": 1}}, {"spec", "status"}, id="an unknown part"),
        pytest.param({"other": None}, {"spec", "status"}, id="null in place of an unknown part"),
    ],
)
def test_an_update_keeps_the_parts_of_the_schema_and_no_others(world: World, sent: Json, wanted: set[str]) -> None:
    made = world.server.create(WIDGETS, widget(size=1))
    made = world.server.patch(WIDGETS, "default", "w", {"status": {"phase": "X"}}, subresource="status")
    changed = world.server.update(WIDGETS, {**made, **sent})
    assert changed.keys() - {"apiVersion", "kind", "metadata"} == wanted
    assert (changed["status"], changed["spec"].keys()) == ({"phase": "X"}, {"size", "color", "nested"})


def test_a_removed_property_is_pruned_with_the_next_update(world: World) -> None:
    world.server.create(WIDGETS, widget(size=1))
    world.server.patch(WIDGETS, "default", "w", {"status": {"phase": "X"}}, subresource="status")
    without = {"openAPIV3Schema": {**SCHEMA, "properties": {"spec": SPEC}}}
    versions = definition(schema=without, subresources={})["spec"]["versions"]
    world.server.patch(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.ex.io", {"spec": {"versions": versions}})
    changed = world.server.patch(WIDGETS, "default", "w", {"spec": {"size": 2}})
    assert "status" not in changed


def test_a_definition_with_another_s_names_waits_for_them() -> None:
    world = World()
    world.server.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    names = definition()["spec"]["names"]
    rival = definition() | {"metadata": {"name": f"rivals.{definition()['spec']['group']}"}}
    rival["spec"] = {**rival["spec"], "names": {**names, "plural": "rivals", "singular": "rival", "shortNames": []}}
    world.server.create(CUSTOM_RESOURCE_DEFINITIONS, rival)

    def established() -> str:
        found = world.server.get(CUSTOM_RESOURCE_DEFINITIONS, "", rival["metadata"]["name"])
        assert found is not None
        return str(found["status"]["conditions"][-1]["status"])

    assert established() == "False"
    world.server.delete(CUSTOM_RESOURCE_DEFINITIONS, "", definition()["metadata"]["name"])
    assert established() == "True"
