"""Custom kinds: what their schemas keep, fill in and refuse; their versions, subresources, columns and end."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, Json, Resource
from haulout.embedded.rules import schemas
from haulout.kube.errors import Invalid, NotFound
from tests.build.apiserver import World, events

WIDGETS = Resource("ex.io", "v1", "widgets")
PATH = "/apis/ex.io/v1/namespaces/default/widgets"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"

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


def test_a_definition_is_established_at_once(world: World) -> None:
    found = world.server.get(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.ex.io")
    assert found is not None
    assert [(each["type"], each["status"]) for each in found["status"]["conditions"]] == [
        ("NamesAccepted", "True"),
        ("Established", "True"),
    ]
    assert found["status"]["acceptedNames"] == {
        "plural": "widgets",
        "singular": "widget",
        "kind": "Widget",
        "listKind": "WidgetList",
        "shortNames": ["wd"],
    }
    assert found["status"]["storedVersions"] == ["v1"]
    resources = world.ask("GET", "/apis/ex.io/v1").body["resources"]
    assert [each["name"] for each in resources] == ["widgets", "widgets/status", "widgets/scale"]


def test_prune_and_fill(world: World) -> None:
    sent = widget(size=5, foo=1, free={"a": {"b": 1}}, name=None, maybe=None) | {"bar": 1, "status": {"phase": "X"}}
    said = world.ask("POST", PATH, sent)
    assert said.code == 201
    assert said.warnings == ['299 - "unknown field \\"bar\\""', '299 - "unknown field \\"spec.foo\\""']
    assert said.body["spec"] == {"size": 5, "free": {"a": {"b": 1}}, "maybe": None, "color": "red", "nested": {"a": 3}}
    assert said.body.keys() == {"apiVersion", "kind", "metadata", "spec"}
    strict = world.ask("POST", f"{PATH}?fieldValidation=Strict", sent)
    assert (
        strict.message
        == 'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "bar", unknown field "spec.foo"'
    )


@pytest.mark.parametrize(
    "spec, problem",
    [
        pytest.param({}, "spec.size: Required value", id="required"),
        pytest.param({"size": 0}, "spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1", id="minimum"),
        pytest.param({"size": 77}, "spec.size: Invalid value: 77: spec.size in body should be less than or equal to 10", id="maximum"),
        pytest.param({"size": "5"}, 'spec.size: Invalid value: "string": spec.size in body must be of type integer: "string"', id="type"),
        pytest.param({"size": True}, 'spec.size: Invalid value: "boolean": spec.size in body must be of type integer: "boolean"', id="true is no number"),
        pytest.param({"color": "green"}, 'spec.color: Unsupported value: "green": supported values: "red", "blue"', id="enum"),
        pytest.param({"name": "A"}, 'spec.name: Invalid value: "A": spec.name in body should be at least 2 chars long', id="short"),
        pytest.param({"name": "abcdef"}, "spec.name: Too long: may not be more than 5 bytes", id="long"),
        pytest.param({"name": "A1"}, "spec.name: Invalid value: \"A1\": spec.name in body should match '^[a-z]+$'", id="pattern"),
        pytest.param({"port": True}, 'spec.port: Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"', id="int or string"),
        pytest.param({"map": {"x": "y"}}, 'spec.map.x: Invalid value: "string": spec.map.x in body must be of type integer: "string"', id="additional properties"),
        pytest.param({"items": []}, "spec.items: Invalid value: 0: spec.items in body should have at least 1 items", id="few items"),
        pytest.param({"items": [{"k": str(i)} for i in range(4)]}, "spec.items: Too many: 4: must have at most 3 items", id="many items"),
        pytest.param({"items": [{}]}, "spec.items[0].k: Required value", id="required in a list"),
        pytest.param({"items": [{"k": "a"}, {"k": "a"}]}, 'spec.items[1]: Duplicate value: {"k":"a"}', id="map keys"),
        pytest.param({"set": ["a", "a"]}, 'spec.set[1]: Duplicate value: "a"', id="set"),
        pytest.param({"when": "now"}, 'spec.when: Invalid value: "now": spec.when in body must be of type date-time: "now"', id="format"),
        pytest.param({"one": {"x": "1", "y": "2"}}, '<nil>: Invalid value: "": "spec.one" must validate one and only one schema (oneOf). Found 2 valid alternatives', id="one of"),
    ],
)  # fmt: skip
def test_what_a_schema_refuses(world: World, spec: Json, problem: str) -> None:
    with pytest.raises(Invalid) as refusal:
        world.server.create(WIDGETS, widget(**{"size": 5, **spec} if spec else {}))
    assert str(refusal.value) == f'Widget.ex.io "w" is invalid: {problem}'


@pytest.mark.parametrize(
    "sent, code, message",
    [
        ({"metadata": {"name": "a"}}, 400, "the object provided is unrecognized (must be of type Widget): Object 'Kind' is missing in"),
        ({"apiVersion": "ex.io/v1", "kind": "Gadget", "metadata": {"name": "a"}}, 422, 'Gadget.ex.io "a" is invalid: kind: Invalid value: "Gadget": must be Widget'),
        ({"apiVersion": "ex.io/v2", "kind": "Widget", "metadata": {"name": "a"}}, 400, "the API version in the data (ex.io/v2) does not match the expected API version (ex.io/v1)"),
    ],
    ids=["no kind", "other kind", "other version"],
)  # fmt: skip
def test_the_kind_must_be_right(world: World, sent: Json, code: int, message: str) -> None:
    said = world.ask("POST", PATH, sent)
    assert said.code == code
    assert said.message.startswith(message)


def test_generations_status_and_metadata(world: World) -> None:
    made = world.server.create(WIDGETS, widget(size=5))
    assert made["metadata"]["generation"] == 1
    changed = world.server.patch(WIDGETS, "default", "w", {"spec": {"size": 6}, "status": {"phase": "X"}})
    assert (changed["metadata"]["generation"], "status" in changed) == (2, False)
    change = {"spec": {"size": 2}, "metadata": {"labels": {"a": "b"}}, "status": {"phase": "Y", "foo": 1}}
    said = world.ask("PATCH", f"{PATH}/w/status", change, patch="merge")
    assert said.warnings == ['299 - "unknown field \\"status.foo\\""']
    assert (said.body["spec"]["size"], said.body["status"], "labels" in said.body["metadata"]) == (
        6,
        {"phase": "Y"},
        False,
    )
    assert said.body["metadata"]["generation"] == 2
    refused = world.ask("PATCH", f"{PATH}/w/status", {"status": {"phase": 1}}, patch="merge")
    assert (
        refused.message
        == 'Widget.ex.io "w" is invalid: status.phase: Invalid value: "integer": phase in body must be of type string: "integer"'
    )


def test_updates_need_a_version_and_patches_a_type(world: World) -> None:
    world.server.create(WIDGETS, widget(size=5))
    assert (
        world.ask("PUT", f"{PATH}/w", widget(size=6)).message
        == 'widgets.ex.io "w" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update'
    )
    said = world.ask("PATCH", f"{PATH}/w", {"spec": {"size": 7}}, patch="strategic")
    assert (said.code, "merge-patch+json" in said.message) == (415, True)
    said = world.ask("PATCH", f"{PATH}/w", {"metadata": {"finalizers": ["bad"]}}, patch="merge")
    assert "prefer a domain-qualified finalizer name" in said.warnings[0]


def test_versions_without_conversion(world: World) -> None:
    world.server.create(WIDGETS, widget(size=5))
    other = world.ask("GET", "/apis/ex.io/v1alpha1/namespaces/default/widgets/w").body
    assert (other["apiVersion"], other["spec"]["size"]) == ("ex.io/v1alpha1", 5)
    made = world.ask(
        "POST",
        "/apis/ex.io/v1alpha1/namespaces/default/widgets",
        {"apiVersion": "ex.io/v1alpha1", "kind": "Widget", "metadata": {"name": "x"}, "anything": 1},
    )
    assert (made.code, made.body["anything"]) == (201, 1)
    assert world.ask("GET", f"{PATH}/x").body["apiVersion"] == "ex.io/v1"


def test_scale(world: World) -> None:
    world.server.create(WIDGETS, widget(size=5))
    assert (
        world.ask("GET", f"{PATH}/w/scale").message
        == 'Internal error occurred: the spec replicas field ".spec.replicas" does not exist'
    )
    assert world.ask("PATCH", f"{PATH}/w/scale", {"spec": {"replicas": 4}}, patch="merge").body["spec"] == {
        "replicas": 4
    }
    found = world.server.get(WIDGETS, "default", "w")
    assert found is not None
    assert found["spec"]["replicas"] == 4


def test_lists_tables_and_watches(world: World) -> None:
    world.server.create(WIDGETS, widget(size=5))
    found = world.ask("GET", PATH).body
    assert (found["kind"], found["items"][0]["kind"]) == ("WidgetList", "Widget")
    rows = world.ask("GET", PATH, accept=TABLE).body
    assert [column["name"] for column in rows["columnDefinitions"]] == ["Name", "Size", "Age"]
    assert rows["rows"][0]["cells"] == ["w", 5, "0s"]
    assert [kind for kind, _ in events(world.watch(f"{PATH}?watch=1"))] == ["ADDED"]
    assert world.ask("GET", f"{PATH}?fieldSelector=spec.size=7").message == "field label not supported: spec.size"


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


@pytest.mark.parametrize(
    "change, problem",
    [
        pytest.param({"metadata": {"name": "x"}}, 'metadata.name: Invalid value: "x": must be spec.names.plural+"."+spec.group', id="name"),
        pytest.param({"spec": {**definition()["spec"], "scope": "Foo"}}, 'spec.scope: Unsupported value: "Foo": supported values: "Cluster", "Namespaced"', id="scope"),
        pytest.param({"spec": {**definition()["spec"], "versions": [{"name": "v1", "served": True, "storage": True}]}}, "spec.versions[0].schema.openAPIV3Schema: Required value", id="no schema"),
        pytest.param({"spec": {**definition()["spec"], "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"properties": {"a": {"type": "foo"}}}}}}}]}}, '[spec.validation.openAPIV3Schema.properties[spec].type: Required value: must not be empty for specified object fields, spec.validation.openAPIV3Schema.properties[spec].properties[a].type: Unsupported value: "foo": supported values: "array", "boolean", "integer", "number", "object", "string"]', id="not structural"),
    ],
)  # fmt: skip
def test_definitions_that_are_refused(change: Json, problem: str) -> None:
    with pytest.raises(Invalid) as refusal:
        World().server.create(CUSTOM_RESOURCE_DEFINITIONS, definition() | change)
    assert str(refusal.value).partition("is invalid: ")[2] == problem


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
