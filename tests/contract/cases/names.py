"""The rules for names, labels, annotations and owners, and the causes in refusals."""

from __future__ import annotations

from typing import Any

from tests.contract.build import config_map, named, node, owner, pdb, pod, widget
from tests.contract.registry import case, each
from tests.contract.world import CRDS, DEPLOYMENTS, PDBS, WIDGETS, World

Json = dict[str, Any]


@each(
    {
        "upper-case": "Upper",
        "empty": "",
        "under-score": "a_b",
        "dot-first": ".a",
        "slash": "a/b",
        "longest": "a" * 253,
        "too-long": "a" * 254,
        "dots": "a.b",
    }
)
def config_map_name(w: World, name: str) -> None:
    w.create("configmaps", config_map(name), show="metadata.name")


@each({"dots": "a.b", "too-long": "a" * 64, "digit": "1a", "upper": "A"})
def namespace_name(w: World, name: str) -> None:
    w.create("namespaces", named(name), dryRun="All", show="metadata.name metadata.labels")


@each({"upper": (PDBS, pdb("A", minAvailable=1)), "widget": (WIDGETS, widget("A_b")), "pod": ("pods", pod("a_b"))})
def name_of_other_kind(w: World, given: tuple[str, Json]) -> None:
    w.create(*given)


@each(
    {
        "key": {"not valid": "x"},
        "key-prefix": {"UPPER/x": "x"},
        "two-slashes": {"a/b/c": "x"},
        "value": {"k": "not valid"},
        "value-too-long": {"k": "a" * 64},
        "key-too-long": {"a" * 64: "x"},
        "two-wrong": {"a b": "x y"},
        "empty-value": {"k": ""},
    }
)
def label(w: World, labels: Json) -> None:
    w.create("configmaps", config_map(labels=labels), show="metadata.labels")


@each({"key": {"not valid": "x"}, "value": {"k": "anything goes, ä"}, "upper": {"UPPER/x": "x"}})
def annotation(w: World, annotations: Json) -> None:
    body = {"metadata": {"name": "a", "annotations": annotations}}
    w.create("configmaps", body, show="metadata.annotations")


@case
def annotations_too_large(w: World) -> None:
    w.create("configmaps", {"metadata": {"name": "a", "annotations": {"k": "a" * 262144}}})


@case
def label_of_wrong_type(w: World) -> None:
    w.create("configmaps", {"metadata": {"name": "a", "labels": {"k": 1}}})
    w.create("configmaps", {"metadata": {"name": "a", "labels": ["k"]}})


@case
def widget_label_of_wrong_type(w: World) -> None:
    body = widget()
    body["metadata"]["labels"] = {"k": 1}
    w.create(WIDGETS, body)


@case
def generate_name(w: World) -> None:
    for _ in range(2):
        w.create("configmaps", {"metadata": {"generateName": "made-"}}, show="*")
    w.create("configmaps", {"metadata": {"generateName": "made-", "name": "given"}}, show="metadata")


@case
def generate_name_too_long(w: World) -> None:
    name = w.create("configmaps", {"metadata": {"generateName": "a" * 240}}).body["metadata"]["name"]
    w.note("length", len(name))
    w.create("configmaps", {"metadata": {"generateName": "Upper-"}})


@case
def neither_name_nor_generate_name(w: World) -> None:
    w.create("configmaps", {"metadata": {}})
    w.create("configmaps", {})


@case
def name_in_the_path_and_in_the_body(w: World) -> None:
    w.create("configmaps", config_map("a"))
    body = {"metadata": {"name": "b"}}
    w.ask("PUT", w.path("configmaps", "a"), body)
    w.ask("PUT", w.path("configmaps", "a"), {"metadata": {}}, show="metadata.name")


@case
def namespace_in_the_path_and_in_the_body(w: World) -> None:
    w.create("configmaps", {"metadata": {"name": "a", "namespace": "default"}})
    w.create("configmaps", {"metadata": {"name": "a", "namespace": w.ns}}, show="metadata.namespace")


@case
def namespace_that_does_not_exist(w: World) -> None:
    w.create("configmaps", config_map(), ns="no-such-namespace")
    w.create(WIDGETS, widget(), ns="no-such-namespace")
    w.ask("GET", w.path("configmaps", ns="no-such-namespace"), show="items")
    w.ask("GET", w.path("configmaps", "a", ns="no-such-namespace"))


@case
def kind_of_another_resource(w: World) -> None:
    w.create("configmaps", {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})
    w.create("configmaps", {"apiVersion": "v2", "kind": "ConfigMap", "metadata": {"name": "a"}})
    w.create(DEPLOYMENTS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    w.create(
        WIDGETS, {"apiVersion": "contract.test/v1", "kind": "Rack", "metadata": {"name": "a"}, "spec": {"size": 1}}
    )
    w.create(WIDGETS, {"metadata": {"name": "a"}, "spec": {"size": 1}})


@each(
    {
        "no-uid": owner("ConfigMap", "v1", "o", ""),
        "no-name": owner("ConfigMap", "v1", "", "00000000-0000-0000-0000-000000000000"),
        "no-version": owner("ConfigMap", "", "o", "00000000-0000-0000-0000-000000000000"),
        "event": owner("Event", "v1", "o", "00000000-0000-0000-0000-000000000000"),
        "new-event": owner("Event", "events.k8s.io/v1", "o", "00000000-0000-0000-0000-000000000000"),
        "nothing": {},
    }
)
def owner_reference(w: World, reference: Json) -> None:
    w.create("configmaps", {"metadata": {"name": "a", "ownerReferences": [reference]}})


@case
def two_controllers(w: World) -> None:
    owners = [
        owner("ConfigMap", "v1", name, f"00000000-0000-0000-0000-00000000000{name}", controller=True) for name in "12"
    ]
    w.create("configmaps", {"metadata": {"name": "a", "ownerReferences": owners}})


@case
def unknown_fields_are_dropped_with_a_warning_on_request(w: World) -> None:
    body = {**config_map(), "nonsense": 1, "metadata": {"name": "a", "also": "nonsense"}}
    w.create("configmaps", body, show="*", dryRun="All")
    w.create("configmaps", body, fieldValidation="Warn", dryRun="All")
    w.create("configmaps", body, fieldValidation="Strict")
    w.create("configmaps", body, fieldValidation="Ignore", dryRun="All")
    w.create("configmaps", body, fieldValidation="Sometimes")


@case
def system_fields_of_a_creation_are_ignored(w: World) -> None:
    meta = {
        "name": "a",
        "uid": "00000000-0000-0000-0000-000000000000",
        "creationTimestamp": "2001-02-03T04:05:06Z",
        "generation": 7,
        "deletionTimestamp": "2001-02-03T04:05:06Z",
        "selfLink": "/x",
    }
    w.create("configmaps", {"metadata": meta}, show="*")
    w.create("configmaps", {"metadata": {"name": "b", "resourceVersion": "1"}})


@case
def status_of_a_creation(w: World) -> None:
    w.create("pods", {**pod(), "status": {"phase": "Running", "podIP": "10.0.0.1"}}, show="status")
    w.create(WIDGETS, {**widget(), "status": {"phase": "Done"}}, show="status")
    w.create("nodes", {**node(w.ns), "status": {"phase": "Running", "capacity": {"cpu": "4"}}}, show="status")


@case
def several_things_wrong(w: World) -> None:
    w.create(
        "pods",
        {
            "metadata": {"name": "A", "labels": {"k": "a b"}},
            "spec": {"containers": [{"name": "x"}], "restartPolicy": "x", "nodeName": "N N"},
        },
    )


@case
def definition_of_nothing(w: World) -> None:
    w.create(CRDS, {"metadata": {"name": "x"}, "spec": {}})
