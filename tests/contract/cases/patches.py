"""Patches of all types."""

from __future__ import annotations

from typing import Any

from tests.contract.build import config_map, container, deployment, node, pod, widget
from tests.contract.registry import case, each
from tests.contract.world import DEPLOYMENTS, WIDGETS, World

Json = dict[str, Any]


@each(
    {
        "add": [{"op": "add", "path": "/data/b", "value": "2"}],
        "replace": [{"op": "replace", "path": "/data/a", "value": "2"}],
        "remove": [{"op": "remove", "path": "/data/a"}],
        "move": [{"op": "move", "from": "/data/a", "path": "/data/b"}],
        "copy": [{"op": "copy", "from": "/data/a", "path": "/data/b"}],
        "test": [{"op": "test", "path": "/data/a", "value": "1"}, {"op": "remove", "path": "/data/a"}],
        "test-fails": [{"op": "test", "path": "/data/a", "value": "9"}, {"op": "remove", "path": "/data/a"}],
        "test-of-missing": [{"op": "test", "path": "/data/none", "value": None}],
        "test-of-missing-value": [{"op": "test", "path": "/data/none", "value": "x"}],
        "remove-missing": [{"op": "remove", "path": "/data/none"}],
        "replace-missing": [{"op": "replace", "path": "/data/none", "value": "x"}],
        "add-deep": [{"op": "add", "path": "/metadata/labels/a", "value": "x"}],
        "escaped": [
            {"op": "add", "path": "/metadata/annotations", "value": {}},
            {"op": "add", "path": "/metadata/annotations/a.test~1b", "value": "x"},
        ],
        "unknown": [{"op": "turn", "path": "/data/a"}],
        "no-path": [{"op": "remove"}],
        "object": {"op": "remove", "path": "/data/a"},
        "empty": [],
        "list-end": [
            {"op": "add", "path": "/metadata/finalizers", "value": ["a.test/a"]},
            {"op": "add", "path": "/metadata/finalizers/-", "value": "a.test/b"},
        ],
        "list-index": [
            {"op": "add", "path": "/metadata/finalizers", "value": ["a.test/a"]},
            {"op": "add", "path": "/metadata/finalizers/5", "value": "a.test/b"},
        ],
        "replace-in-missing": [{"op": "replace", "path": "/none/a", "value": "x"}],
        "replace-with-null": [{"op": "replace", "path": "/data/a", "value": None}],
        "replace-index": [
            {"op": "add", "path": "/metadata/finalizers", "value": ["a.test/a"]},
            {"op": "replace", "path": "/metadata/finalizers/1", "value": "a.test/b"},
        ],
        "test-in-missing": [{"op": "test", "path": "/none/a", "value": None}],
        "test-without-value": [{"op": "test", "path": "/data/a"}],
        "copy-missing": [{"op": "copy", "from": "/data/none", "path": "/data/b"}],
        "move-missing": [{"op": "move", "from": "/data/none", "path": "/data/b"}],
        "negative-index": [
            {"op": "add", "path": "/metadata/finalizers", "value": ["a.test/a"]},
            {"op": "remove", "path": "/metadata/finalizers/-1"},
        ],
        "no-object": [1],
        "invalid-result": [{"op": "replace", "path": "/data", "value": "text"}],
    }
)
def json_patch(w: World, operations: Any) -> None:
    w.create("configmaps", config_map(a="1"))
    w.patch(
        "configmaps", "a", operations, kind="json", show="data metadata.labels metadata.annotations metadata.finalizers"
    )


@case
def json_patch_of_a_widget(w: World) -> None:
    w.create(WIDGETS, widget())
    w.patch(
        WIDGETS,
        "a",
        [{"op": "test", "path": "/spec/size", "value": 3}, {"op": "replace", "path": "/spec/size", "value": 4}],
        kind="json",
        show="spec",
    )
    w.patch(WIDGETS, "a", [{"op": "test", "path": "/spec/size", "value": 3}], kind="json")
    w.patch(WIDGETS, "a", [{"op": "replace", "path": "/spec/size", "value": 44}], kind="json")


@case
def json_patch_with_a_version_test(w: World) -> None:
    made = w.create("nodes", node(w.ns))
    test = {"op": "test", "path": "/metadata/resourceVersion", "value": made.version}
    w.patch(
        "nodes",
        w.ns,
        [test, {"op": "add", "path": "/spec/unschedulable", "value": True}],
        kind="json",
        show="spec.unschedulable",
    )
    w.patch("nodes", w.ns, [test, {"op": "remove", "path": "/spec/unschedulable"}], kind="json")


@each(
    {
        "set": {"data": {"b": "2"}},
        "null": {"data": {"a": None}},
        "null-missing": {"data": {"none": None}},
        "null-map": {"data": None},
        "empty": {},
        "list": [],
        "text": "text",
        "wrong-type": {"data": {"a": 1}},
        "unknown": {"nonsense": 1},
        "nested-null": {"metadata": {"labels": {"x": None, "y": "1"}}},
    }
)
def merge_patch(w: World, body: Any) -> None:
    w.create("configmaps", config_map(a="1"))
    w.patch("configmaps", "a", body, show="data metadata.labels")


@case
def merge_patch_replaces_lists(w: World) -> None:
    w.create("nodes", node(w.ns, taints=[{"key": "a", "effect": "NoSchedule"}]))
    w.patch("nodes", w.ns, {"spec": {"taints": [{"key": "b", "effect": "NoExecute"}]}}, show="spec.taints")
    w.patch("nodes", w.ns, {"spec": {"taints": []}}, show="spec")
    w.patch("nodes", w.ns, {"spec": None}, show="spec")


TAINTS = [
    {"key": "a", "value": "1", "effect": "NoSchedule"},
    {"key": "a", "effect": "NoExecute"},
    {"key": "b", "effect": "NoSchedule"},
]


@each(
    {
        "merge": {"taints": [{"key": "c", "effect": "NoSchedule"}]},
        "same-key": {"taints": [{"key": "a", "value": "2", "effect": "NoExecute"}]},
        "delete": {"taints": [{"$patch": "delete", "key": "a"}]},
        "replace": {"taints": [{"$patch": "replace"}, {"key": "z", "effect": "NoSchedule"}]},
        "null": {"taints": None},
        "no-key": {"taints": [{"effect": "NoSchedule"}]},
    }
)
def strategic_patch_of_taints(w: World, spec: Json) -> None:
    w.create("nodes", node(w.ns, taints=TAINTS))
    w.patch("nodes", w.ns, {"spec": spec}, kind="strategic", show="spec.taints")


@each(
    {
        "merge": {"conditions": [{"type": "Ready", "status": "False"}]},
        "add": {"conditions": [{"type": "Full", "status": "True"}]},
        "delete": {"conditions": [{"$patch": "delete", "type": "Ready"}]},
        "order": {
            "conditions": [{"type": "Full", "status": "True"}],
            "$setElementOrder/conditions": [{"type": "Full"}, {"type": "Ready"}, {"type": "Disk"}],
        },
        "another-order": {
            "conditions": [{"type": "Ready", "status": "False"}, {"type": "Full", "status": "True"}],
            "$setElementOrder/conditions": [{"type": "Full"}, {"type": "Ready"}, {"type": "Disk"}],
        },
        "out-of-order": {
            "conditions": [{"type": "Full", "status": "True"}],
            "$setElementOrder/conditions": [{"type": "Ready"}, {"type": "Disk"}],
        },
        "order-of-what-is-left": {
            "conditions": [{"type": "Full", "status": "True"}, {"$patch": "delete", "type": "Ready"}],
            "$setElementOrder/conditions": [{"type": "Full"}, {"type": "Disk"}],
        },
        "addresses": {"addresses": [{"type": "InternalIP", "address": "10.0.0.2"}]},
        "capacity": {"capacity": {"cpu": "8", "memory": None}},
        "no-key": {"conditions": [{"status": "True"}]},
    }
)
def strategic_patch_of_node_status(w: World, status: Json) -> None:
    w.create("nodes", node(w.ns))
    first = {
        "conditions": [{"type": "Ready", "status": "True", "reason": "Fine"}, {"type": "Disk", "status": "False"}],
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
        "capacity": {"cpu": "4", "memory": "1Gi"},
    }
    w.patch("nodes", w.ns, {"status": first}, "status")
    w.patch(
        "nodes",
        w.ns,
        {"status": status},
        "status",
        kind="strategic",
        show="status.conditions status.addresses status.capacity",
    )


@case
def strategic_patch_of_containers(w: World) -> None:
    body = deployment()
    body["spec"]["template"]["spec"]["containers"] = [
        container("one", env=[{"name": "A", "value": "1"}]),
        container("two"),
    ]
    w.create(DEPLOYMENTS, body)
    shown = (
        "spec.template.spec.containers[].name spec.template.spec.containers[].image spec.template.spec.containers[].env"
    )
    for spec in (
        {"containers": [{"name": "two", "image": "example.test/app:2"}]},
        {"containers": [{"name": "one", "env": [{"name": "B", "value": "2"}, {"name": "A", "$patch": "delete"}]}]},
        {"containers": [{"name": "three", "image": "example.test/app:3"}]},
        {"$setElementOrder/containers": [{"name": "three"}, {"name": "two"}, {"name": "one"}]},
        {"containers": [{"name": "two", "$patch": "delete"}]},
    ):
        w.patch(DEPLOYMENTS, "a", {"spec": {"template": {"spec": spec}}}, kind="strategic", show=shown)


@case
def strategic_patch_of_finalizers(w: World) -> None:
    w.create("configmaps", {"metadata": {"name": "a", "finalizers": ["a.test/a", "a.test/b"]}})
    w.patch("configmaps", "a", {"metadata": {"finalizers": ["a.test/c"]}}, kind="strategic", show="metadata.finalizers")
    drop = {"$deleteFromPrimitiveList/finalizers": ["a.test/a"]}
    w.patch("configmaps", "a", {"metadata": drop}, kind="strategic", show="metadata.finalizers")
    w.patch("configmaps", "a", {"metadata": {"finalizers": None}}, kind="strategic", show="metadata.finalizers")


@case
def strategic_patch_directives_for_maps(w: World) -> None:
    w.create("configmaps", config_map(a="1", b="2"))
    w.patch("configmaps", "a", {"data": {"$patch": "replace", "c": "3"}}, kind="strategic", show="data")
    w.patch("configmaps", "a", {"data": {"$patch": "delete"}}, kind="strategic", show="data")
    w.patch("configmaps", "a", {"data": {"$patch": "sideways"}}, kind="strategic")


@case
def strategic_patch_directives_where_nothing_is(w: World) -> None:
    w.create("configmaps", config_map())
    w.patch("configmaps", "a", {"data": {"$patch": "delete"}}, kind="strategic", show="data")
    w.patch("configmaps", "a", {"data": {"$patch": "replace", "b": "2"}}, kind="strategic", show="data")
    w.patch("configmaps", "a", {"data": {"a": "1", "b": None}}, kind="strategic", show="data")
    w.patch("configmaps", "a", {"data": {"$patch": "sideways"}}, kind="strategic")


@case
def strategic_patch_order(w: World) -> None:
    body = config_map()
    body["metadata"]["finalizers"] = ["a.test/a", "a.test/b", "a.test/c"]
    w.create("configmaps", body)
    show = "metadata.finalizers"
    more = ["a.test/x", "a.test/b", "a.test/y"]
    w.patch("configmaps", "a", {"metadata": {"finalizers": more}}, kind="strategic", show=show)
    order = {"$setElementOrder/finalizers": ["a.test/c", "a.test/z"], "finalizers": ["a.test/z"]}
    w.patch("configmaps", "a", {"metadata": order}, kind="strategic", show=show)


@case
def strategic_patch_retains_keys(w: World) -> None:
    w.create(DEPLOYMENTS, deployment())
    strategy = {"$retainKeys": ["type"], "type": "Recreate"}
    w.patch(DEPLOYMENTS, "a", {"spec": {"strategy": strategy}}, kind="strategic", show="spec.strategy")


@case
def strategic_patch_of_tolerations_replaces_them(w: World) -> None:
    w.create("pods", pod(tolerations=[{"key": "a", "operator": "Exists"}]))
    more = [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "Exists"}]
    w.patch("pods", "a", {"spec": {"tolerations": more}}, kind="strategic", show="spec.tolerations")


@case
def strategic_patch_of_owner_references(w: World) -> None:
    held = {"name": "a", "finalizers": ["a.test/a"]}
    one, two = ({"apiVersion": "v1", "kind": "Node", "name": name, "uid": name} for name in ("one", "two"))
    w.create("configmaps", {"metadata": {**held, "ownerReferences": [one]}})
    w.patch(
        "configmaps", "a", {"metadata": {"ownerReferences": [two]}}, kind="strategic", show="metadata.ownerReferences"
    )
    gone = {"ownerReferences": [{"$patch": "delete", "uid": "one"}]}
    w.patch("configmaps", "a", {"metadata": gone}, kind="strategic", show="metadata.ownerReferences")


@case
def strategic_patch_of_a_widget(w: World) -> None:
    w.create(WIDGETS, widget())
    w.patch(WIDGETS, "a", {"spec": {"size": 4}}, kind="strategic")


@case
def patch_of_an_unknown_type(w: World) -> None:
    w.create("configmaps", config_map())
    w.ask("PATCH", w.path("configmaps", "a"), {"data": {}}, content_type="application/json")
    w.ask("PATCH", w.path("configmaps", "a"), {"data": {}}, content_type="text/plain")
    w.create(WIDGETS, widget())
    w.ask("PATCH", w.path(WIDGETS, "a"), {}, content_type="application/json")


@case
def patch_that_is_no_json(w: World) -> None:
    w.create("configmaps", config_map())
    for kind in ("merge", "json", "strategic"):
        w.patch("configmaps", "a", b"{not json", kind=kind)
    w.create(WIDGETS, widget())
    w.patch(WIDGETS, "a", b"{not json")


@case
def server_side_apply(w: World) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    w.patch("configmaps", "a", body, kind="apply", fieldManager="me", show="data")


@case
def patch_options(w: World) -> None:
    w.create("configmaps", config_map())
    w.patch("configmaps", "a", {"data": {"a": "1"}}, force="true")
    w.patch("configmaps", "a", {"data": {"a": "1"}}, fieldManager="me", show="data")
    w.patch("configmaps", "a", {"data": {"a": "1"}}, fieldManager="x" * 129)
    w.patch("configmaps", "a", {"data": {"a": "1"}}, fieldManager="a\tb")
    w.patch("configmaps", "a", {"data": {"a": "1"}}, force="true", dryRun="Some", fieldValidation="Lax")
    w.create("configmaps", config_map("b"), fieldManager="x" * 129)
    w.create("configmaps", config_map("b"), force="true")


@case
def cordons_note_their_client(w: World) -> None:
    # The real server notes nothing about an object that was created with nothing but a name.
    body = node(w.ns)
    w.create("nodes", {**body, "metadata": {**body["metadata"], "labels": {"zone": "a"}}}, show="metadata")
    cordon: Json = {"spec": {"unschedulable": True}}
    uncordon: Json = {"spec": {"unschedulable": None}}
    w.patch("nodes", w.ns, cordon, show="metadata", fieldManager="one")
    w.patch("nodes", w.ns, cordon, show="metadata", fieldManager="two")
    w.patch("nodes", w.ns, {"metadata": {"labels": {"a": "b"}}}, show="metadata", fieldManager="two")
    w.patch("nodes", w.ns, uncordon, show="metadata", fieldManager="two")
    w.patch("nodes", w.ns, cordon, show="metadata", fieldManager="two")
    w.patch("nodes", w.ns, {"spec": {"unschedulable": False}}, show="metadata", fieldManager="three")
    w.patch("nodes", w.ns, cordon, show="metadata")
