"""Definitions of custom resources, and what their schemas do to objects."""

from __future__ import annotations

from typing import Any

from tests.contract.build import crd, widget
from tests.contract.registry import case, each
from tests.contract.world import CRDS, WIDGETS, World

Json = dict[str, Any]
ROWS = "application/json;as=Table;g=meta.k8s.io;v=v1"
GADGETS = "contract.test/v1/gadgets"
OLD_GADGETS = "contract.test/v1alpha1/gadgets"


@each(
    {
        "wrong-type": {"size": "three"},
        "boolean-for-integer": {"size": True},
        "float-for-integer": {"size": 2.5},
        "whole-float": {"size": 3.0},
        "too-small": {"size": 0},
        "too-large": {"size": 11},
        "enum": {"size": 1, "colour": "blue"},
        "pattern": {"size": 1, "code": "ABC"},
        "too-short": {"size": 1, "code": "a"},
        "too-long": {"size": 1, "code": "abcdef"},
        "missing": {},
        "null-required": {"size": None},
        "int-or-string-int": {"size": 1, "amount": 5},
        "int-or-string-text": {"size": 1, "amount": "50%"},
        "int-or-string-else": {"size": 1, "amount": [1]},
        "nullable": {"size": 1, "maybe": None},
        "not-nullable": {"size": 1, "never": None},
        "null-with-default": {"size": 1, "colour": None},
        "number": {"size": 1, "ratio": 0.5},
        "number-int": {"size": 1, "ratio": 2},
        "boolean": {"size": 1, "on": "yes"},
        "date": {"size": 1, "at": "tomorrow"},
        "too-many": {"size": 1, "tags": ["a", "b", "c", "d"]},
        "wrong-items": {"size": 1, "tags": ["a", 1]},
        "too-few": {"size": 1, "some": []},
        "twin-keys": {"size": 1, "keyed": [{"k": "a"}, {"k": "a"}]},
        "twin-values": {"size": 1, "unique": ["a", "a"]},
        "one-of": {"size": 1, "either": {"x": "1"}},
        "both-of-one": {"size": 1, "either": {"x": "1", "y": "2"}},
        "list-for-object": {"size": 1, "nested": []},
        "nested-required": {"size": 1, "steps": [{"name": "x"}, {"times": 2}]},
        "nested-default": {"size": 1, "steps": [{"name": "x"}]},
        "object-default": {"size": 1, "nested": {"label": "x"}},
        "unknown": {"size": 1, "unknown": {"x": 1}},
        "nested-unknown": {"size": 1, "nested": {"unknown": 1}},
        "preserved": {"size": 1, "free": {"any": [1, {"thing": None}]}},
        "additional": {"size": 1, "extra": {"a": "b"}},
        "additional-wrong": {"size": 1, "extra": {"a": 1}},
    }
)
def schema(w: World, spec: Json) -> None:
    body = {**widget(), "spec": spec}
    w.create(WIDGETS, body, show="spec")


@case
def schema_with_several_faults(w: World) -> None:
    """Try a schema with several faults, which the real server names in no particular order."""
    body = {**widget(), "spec": {"size": 1, "colour": "blue", "code": "A", "on": "yes"}}
    answer = w.quiet("POST", w.path(WIDGETS), body)
    w.note("causes", sorted((cause["field"], cause["reason"]) for cause in answer.body["details"]["causes"]))


@case
def schema_of_a_spec_that_is_no_object(w: World) -> None:
    w.create(WIDGETS, {**widget(), "spec": "text"})
    w.create(WIDGETS, {**widget(), "spec": None}, show="spec")
    body = widget()
    del body["spec"]
    w.create(WIDGETS, body, show="spec")


@case
def schema_prunes_with_a_warning_on_request(w: World) -> None:
    body = widget(unknown=1)
    body["nonsense"] = True
    w.create(WIDGETS, body, fieldValidation="Warn", dryRun="All", show="spec nonsense")
    w.create(WIDGETS, body, fieldValidation="Strict", dryRun="All")
    w.create(WIDGETS, body, dryRun="All", show="spec nonsense")


@case
def schema_of_an_update(w: World) -> None:
    w.create(WIDGETS, widget())
    w.patch(WIDGETS, "a", {"spec": {"colour": "blue"}})
    w.patch(WIDGETS, "a", {"spec": {"colour": None, "unknown": 1}}, show="spec")
    w.patch(WIDGETS, "a", {"spec": {"size": None}})


@case
def metadata_of_a_widget(w: World) -> None:
    body = widget()
    body["metadata"] = {
        "name": "a",
        "labels": {"k": "v"},
        "annotations": {"k": "v"},
        "unknown": "x",
        "finalizers": ["a.test/b"],
    }
    w.create(WIDGETS, body, show="metadata")


@case
def versions_of_a_gadget(w: World) -> None:
    body = {"apiVersion": "contract.test/v1alpha1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"x": 1}}
    w.create(OLD_GADGETS, body, show="apiVersion spec")
    w.get(GADGETS, "a", show="apiVersion spec metadata.generation")
    w.get(OLD_GADGETS, "a", show="apiVersion spec")
    w.list(OLD_GADGETS, show="apiVersion kind items[].apiVersion")
    stream = w.watch(OLD_GADGETS)
    stream.take(1, show="apiVersion kind")
    w.ask("GET", w.path("contract.test/v2/gadgets"))


@case
def table_of_widgets(w: World) -> None:
    w.create(WIDGETS, widget(code="abc"))
    w.patch(WIDGETS, "a", {"status": {"phase": "Done"}}, "status")
    w.list(
        WIDGETS, accept=ROWS, show="kind apiVersion columnDefinitions rows[].object.kind rows[].object.metadata.name"
    )
    cells = w.quiet("GET", w.path(WIDGETS), None).body["items"]
    w.note("rows", len(cells))


@case
def table_cells_of_widgets(w: World) -> None:
    w.create(WIDGETS, widget(code="abc", tags=["x", 'y"']))
    w.create(WIDGETS, widget("b", on=True))
    w.patch(WIDGETS, "a", {"status": {"phase": "Done"}}, "status")
    answer = w.list(WIDGETS, accept=ROWS, show="kind")
    # The last one is the age, which runs.
    w.note("cells", [row["cells"][:-1] for row in answer.body["rows"]])


def own(w: World, **given: Any) -> Json:
    """Return a definition with a name of this case."""
    return crd(
        f"{w.ns}.test",
        "things",
        "Thing",
        {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
        **given,
    )


def served(w: World, group: str, version: str = "v1") -> None:
    path = f"/apis/{group}/{version}/namespaces/{w.ns}/things"
    w.wait("served", lambda: w.quiet("GET", path, None).code == 200)


def is_established(found: Json) -> bool:
    return any((one["type"], one["status"]) == ("Established", "True") for one in found["status"]["conditions"])


@case
def definition_is_accepted_and_served(w: World) -> None:
    body = own(w)
    name = body["metadata"]["name"]
    w.create(CRDS, body, show="spec metadata.generation")
    w.wait_for(CRDS, name, lambda found: len(found["status"]["conditions"]) >= 2, "has conditions")
    w.get(CRDS, name, show="status.acceptedNames status.storedVersions")
    served(w, f"{w.ns}.test")
    # It may be served a moment before it says so.
    w.wait_for(CRDS, name, is_established, "is established")
    conditions = w.peek(CRDS, name)["status"]["conditions"]
    w.note("conditions", {one["type"]: [one["status"], one["reason"], one["message"]] for one in conditions})
    thing = {"apiVersion": f"{w.ns}.test/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1}}
    w.create(f"{w.ns}.test/v1/things", thing, show="*")
    # Served is not yet discovered: another controller of the real server writes those documents, the group's first.
    w.wait("discovered", lambda: w.quiet("GET", f"/apis/{w.ns}.test/v1", None).code == 200)
    w.ask("GET", f"/apis/{w.ns}.test", show="*")
    w.ask(
        "GET",
        f"/apis/{w.ns}.test/v1",
        show="groupVersion resources[].name resources[].kind resources[].namespaced resources[].singularName",
    )


@case
def definition_goes_with_its_objects(w: World) -> None:
    body = own(w)
    name, group = body["metadata"]["name"], f"{w.ns}.test"
    w.create(CRDS, body)
    served(w, group)
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1}}
    w.create(f"{group}/v1/things", thing)
    w.delete(CRDS, name)
    w.wait_gone(CRDS, name)
    path = w.path(f"{group}/v1/things")
    w.wait("not served", lambda: w.quiet("GET", path, None).code == 404)
    w.ask("GET", path)


@case
def definition_is_changed(w: World) -> None:
    body = own(w)
    name, group = body["metadata"]["name"], f"{w.ns}.test"
    w.create(CRDS, body)
    served(w, group)
    more = {
        "type": "object",
        "properties": {"size": {"type": "integer"}, "shape": {"type": "string", "default": "round"}},
    }
    change = [{"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec", "value": more}]
    w.patch(CRDS, name, change, kind="json", show="metadata.generation")
    thing = {"apiVersion": f"{group}/v1", "kind": "Thing", "metadata": {"generateName": "a-"}, "spec": {"size": 1}}

    def defaulted() -> bool:
        made = w.quiet("POST", w.path(f"{group}/v1/things"), thing).body
        return bool(made.get("spec", {}).get("shape") == "round")

    w.wait("default is there", defaulted)
    w.patch(CRDS, name, {"spec": {"scope": "Cluster"}})
    w.patch(CRDS, name, {"spec": {"names": {"plural": "others"}}})


@case
def definition_with_another_s_names(w: World) -> None:
    body = crd("contract.test", "others", "Widget", {})
    w.create(CRDS, body)
    name = body["metadata"]["name"]
    w.wait_for(CRDS, name, lambda found: found["status"]["conditions"], "has conditions")
    conditions = w.peek(CRDS, name)["status"]["conditions"]
    w.note("conditions", {one["type"]: [one["status"], one["reason"], one["message"]] for one in conditions})
    w.delete(CRDS, name)


@case
def definition_with_another_s_short_names(w: World) -> None:
    body = crd("contract.test", "woods", "Wood", {})
    body["spec"]["names"]["shortNames"] = ["wd", "widgets", "wo"]
    w.create(CRDS, body)
    name = body["metadata"]["name"]
    w.wait_for(CRDS, name, lambda found: found["status"]["conditions"], "has conditions")
    found = w.peek(CRDS, name)["status"]
    w.note("conditions", {one["type"]: [one["status"], one["reason"], one["message"]] for one in found["conditions"]})
    w.note("accepted", found["acceptedNames"])
    w.delete(CRDS, name)


@case
def definition_says_what_is_better(w: World) -> None:
    body = own(w)
    body["spec"]["versions"][0] |= {"deprecated": True, "deprecationWarning": "use spoons"}
    w.create(CRDS, body)
    served(w, f"{w.ns}.test")
    w.list(f"{w.ns}.test/v1/things", show="kind")


@case
def definition_status_is_the_server_s(w: World) -> None:
    w.ask(
        "GET",
        w.path(CRDS, "widgets.contract.test"),
        show="status.acceptedNames status.storedVersions spec.conversion spec.names",
    )


@case
def definition_with_bad_schemas(w: World) -> None:
    for schema_of in (
        {"type": "thing"},
        {"type": "object", "properties": {"a": {}}},
        {"type": "array"},
        {"type": "object", "properties": {"a": {"type": "string", "default": 1}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        {"type": "object", "properties": {"a": {"properties": {"b": {"type": "thing"}}}}},
    ):
        body = own(w)
        body["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema_of
        w.create(CRDS, body, dryRun="All")
