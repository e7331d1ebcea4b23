"""The subresources status, scale and binding, and requests for those that a kind does not have."""

from __future__ import annotations

from typing import Any

from tests.contract.build import deployment, named, node, pdb, pod, ready_pod, replica_set, stateful_set, widget
from tests.contract.registry import case, each
from tests.contract.world import DEPLOYMENTS, PDBS, REPLICASETS, STATEFULSETS, WIDGETS, World

Json = dict[str, Any]


@each(
    {
        "pods": ("pods", pod(), {"spec": {"activeDeadlineSeconds": 5}, "status": {"reason": "x"}}),
        "widgets": (WIDGETS, widget(), {"spec": {"size": 5}, "status": {"phase": "x"}}),
        "pdbs": (PDBS, pdb(minAvailable=5), {"spec": {"minAvailable": 6}, "status": {"expectedPods": 9}}),
    }
)
def status_is_apart(w: World, given: tuple[str, Json, Json]) -> None:
    """A write to the object leaves the status alone, a write to the status leaves the object alone."""
    resource, body, change = given
    change = {**change, "metadata": {"labels": {"b": "1"}}}
    shown = "metadata.generation metadata.labels spec.activeDeadlineSeconds spec.size spec.minAvailable"
    if resource != PDBS:
        shown += " status.reason status.phase"
    w.create(resource, body)
    w.patch(resource, "a", change, show=shown)
    w.patch(
        resource,
        "a",
        {**change, "spec": {"size": 9, "minAvailable": 9, "activeDeadlineSeconds": 3}},
        "status",
        show=shown,
    )
    w.get(resource, "a", show=shown)


@case
def status_of_a_node_is_apart(w: World) -> None:
    w.create("nodes", node(w.ns))
    change = {"spec": {"unschedulable": True}, "status": {"capacity": {"cpu": "1"}}}
    shown = "spec.unschedulable status.capacity"
    w.patch("nodes", w.ns, change, show=shown)
    w.patch(
        "nodes", w.ns, {"spec": {"unschedulable": False}, "status": {"capacity": {"cpu": "2"}}}, "status", show=shown
    )


@case
def status_of_a_node_can_be_read(w: World) -> None:
    w.create("nodes", node(w.ns))
    w.get("nodes", w.ns, "status", show="kind metadata.name")
    w.create("pods", pod())
    w.get("pods", "a", "status", show="kind metadata.name status")


@case
def status_can_change_labels_of_some_kinds(w: World) -> None:
    labels = {"metadata": {"labels": {"x": "1"}, "annotations": {"y": "1"}}}
    shown = "metadata.labels metadata.annotations"
    w.create("nodes", node(w.ns))
    w.patch("nodes", w.ns, labels, "status", show=shown)
    w.create("pods", pod())
    w.patch("pods", "a", labels, "status", show=shown)
    w.create(WIDGETS, widget())
    w.patch(WIDGETS, "a", labels, "status", show=shown)


@case
def status_by_an_update(w: World) -> None:
    made = w.create("pods", pod(node="n"))
    w.replace("pods", {**made.body, **ready_pod()}, "status", show="status.phase status.conditions metadata.generation")
    w.replace("pods", {**made.body, **ready_pod()}, "status")
    custom = w.create(WIDGETS, widget())
    w.replace(WIDGETS, {**custom.body, "status": {"phase": "x", "other": "pruned"}}, "status", show="status")


@case
def status_that_is_invalid(w: World) -> None:
    w.create(WIDGETS, widget())
    w.patch(WIDGETS, "a", {"status": {"replicas": "many"}}, "status")
    w.create("nodes", node(w.ns))
    w.patch("nodes", w.ns, {"status": {"capacity": {"cpu": "many"}}}, "status")
    w.create("pods", pod())
    w.patch("pods", "a", {"status": {"conditions": [{"status": "True"}]}}, "status", show="status.conditions")


@case
def status_of_a_kind_that_has_none(w: World) -> None:
    w.create("configmaps", named("a"))
    w.get("configmaps", "a", "status")
    w.patch("configmaps", "a", {}, "status")
    gadgets = "contract.test/v1/gadgets"
    w.create(
        gadgets,
        {"apiVersion": "contract.test/v1", "kind": "Gadget", "metadata": {"name": "a"}, "status": {"phase": "x"}},
        show="status",
    )
    w.patch(gadgets, "a", {"status": {"phase": "y"}}, show="status metadata.generation")
    w.patch(gadgets, "a", {"status": {"phase": "z"}}, "status")


@case
def status_conditions_of_a_pod_keep_their_times(w: World) -> None:
    w.create("pods", pod(node="n"))
    at = "2001-02-03T04:05:06Z"
    condition = {"type": "Ready", "status": "True", "lastTransitionTime": at, "lastProbeTime": None, "reason": "r"}
    w.patch("pods", "a", {"status": {"conditions": [condition]}}, "status", kind="strategic", show="status.conditions")
    other = {"type": "Ready", "status": "False"}
    w.patch("pods", "a", {"status": {"conditions": [other]}}, "status", kind="strategic", show="status.conditions")


@each(
    {
        "deployments": (DEPLOYMENTS, deployment()),
        "replicasets": (REPLICASETS, replica_set()),
        "statefulsets": (STATEFULSETS, stateful_set()),
    }
)
def scale(w: World, given: tuple[str, Json]) -> None:
    resource, body = given
    body["spec"]["template"]["spec"]["nodeSelector"] = {"no": "node"}
    w.create(resource, body)
    w.get(resource, "a", "scale", show="kind apiVersion metadata.name metadata.namespace metadata.uid spec status")
    w.patch(resource, "a", {"spec": {"replicas": 1}}, "scale", show="kind spec")
    w.get(resource, "a", show="spec.replicas metadata.generation")
    w.patch(resource, "a", {"spec": {"replicas": -1}}, "scale")
    w.replace(
        resource,
        {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 0}},
        "scale",
        show="spec",
    )
    w.get(resource, "a", show="spec.replicas")


@case
def scale_of_a_widget(w: World) -> None:
    w.create(WIDGETS, widget())
    w.patch(WIDGETS, "a", {"status": {"replicas": 2, "selector": "app=a"}}, "status")
    w.get(WIDGETS, "a", "scale")
    w.patch(WIDGETS, "a", {"spec": {"replicas": 5}}, "scale", show="spec status")
    w.get(WIDGETS, "a", show="spec.size")
    w.patch(WIDGETS, "a", {"spec": {"replicas": 50}}, "scale")


@case
def scale_of_what_is_missing(w: World) -> None:
    w.get(DEPLOYMENTS, "none", "scale")
    w.patch(DEPLOYMENTS, "none", {"spec": {"replicas": 5}}, "scale")
    w.get(WIDGETS, "none", "scale")
    w.get("configmaps", "none", "scale")
    w.ask("DELETE", w.path(DEPLOYMENTS, "none", "scale"))


@case
def scale_with_a_stale_version(w: World) -> None:
    made = w.create(DEPLOYMENTS, deployment())
    w.patch(DEPLOYMENTS, "a", {"metadata": {"labels": {"b": "1"}}})
    body = {"metadata": {"name": "a", "namespace": w.ns, "resourceVersion": made.version}, "spec": {"replicas": 0}}
    w.replace(DEPLOYMENTS, body, "scale")


def binding(w: World, name: str, target: Json) -> Json:
    return {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}


@case
def binding_puts_a_pod_on_a_node(w: World) -> None:
    w.create("pods", pod())
    path = w.path("pods", "a", "binding")
    w.ask("POST", path, binding(w, "a", {"apiVersion": "v1", "kind": "Node", "name": "n"}), show="*")
    w.get("pods", "a", show="spec.nodeName status.conditions[].type status.conditions[].status metadata.generation")
    w.ask("POST", path, binding(w, "a", {"apiVersion": "v1", "kind": "Node", "name": "n"}))


@case
def binding_of_what_is_missing(w: World) -> None:
    path = w.path("pods", "none", "binding")
    w.ask("POST", path, binding(w, "none", {"kind": "Node", "name": "n"}))


@case
def binding_that_is_invalid(w: World) -> None:
    w.create("pods", pod())
    path = w.path("pods", "a", "binding")
    w.ask("POST", path, binding(w, "a", {"kind": "Node"}))
    w.ask("POST", path, binding(w, "a", {"kind": "Pod", "name": "n"}))
    w.ask("POST", path, binding(w, "b", {"kind": "Node", "name": "n"}))
    w.ask("POST", path, binding(w, "a", {"kind": "Pod"}))


@case
def binding_of_a_pod_that_is_going(w: World) -> None:
    body = pod()
    body["metadata"]["finalizers"] = ["contract.test/hold"]
    w.create("pods", body)
    w.delete("pods", "a")
    w.ask("POST", w.path("pods", "a", "binding"), binding(w, "a", {"kind": "Node", "name": "n"}))


@case
def binding_as_a_dry_run(w: World) -> None:
    w.create("pods", pod())
    w.ask(
        "POST", w.path("pods", "a", "binding"), binding(w, "a", {"kind": "Node", "name": "n"}), dryRun="All", show="*"
    )
    w.get("pods", "a", show="spec.nodeName")


@case
def binding_by_the_old_path(w: World) -> None:
    w.create("pods", pod())
    w.create("bindings", binding(w, "a", {"kind": "Node", "name": "n"}), show="*")
    w.get("pods", "a", show="spec.nodeName")


@case
def unknown_subresource(w: World) -> None:
    w.create("pods", pod())
    w.get("pods", "a", "none")
    w.ask("POST", w.path("pods", "a", "none"), {})
    w.get(WIDGETS, "a", "none")


@case
def methods_that_a_subresource_does_not_have(w: World) -> None:
    w.create("pods", pod())
    w.get("pods", "a", "eviction")
    w.get("pods", "a", "binding")
    w.ask("DELETE", w.path("pods", "a", "status"))
    w.ask("POST", w.path("pods", "a", "status"), {})


@case
def ephemeral_containers(w: World) -> None:
    w.create("pods", pod(node="n"))
    more = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.test/debug:1"}]}}
    w.patch("pods", "a", more, "ephemeralcontainers", kind="strategic", show="spec.ephemeralContainers[].name")
    w.patch("pods", "a", more, kind="strategic", show="spec.ephemeralContainers[].name")
