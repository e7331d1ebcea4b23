"""Deletion: finalizers, grace periods, owners and namespaces."""

from __future__ import annotations

from typing import Any

from tests.contract.build import config_map, deployment, job, named, owner, pod, replica_set, stateful_set, widget
from tests.contract.registry import case, each
from tests.contract.world import DEPLOYMENTS, JOBS, REPLICASETS, STATEFULSETS, WIDGETS, Answer, World

Json = dict[str, Any]
HOLD = ["contract.test/hold"]
GOING = (
    "metadata.deletionTimestamp metadata.deletionGracePeriodSeconds metadata.finalizers metadata.generation"
    " metadata.resourceVersion"
)


def held(body: Json) -> Json:
    return {**body, "metadata": {**body["metadata"], "finalizers": HOLD}}


@each({"configmap": ("configmaps", config_map()), "widget": (WIDGETS, widget()), "pod": ("pods", pod())})
def finalizer_holds_until_it_is_removed(w: World, given: tuple[str, Json]) -> None:
    resource, body = given
    w.create(resource, held(body), show=GOING)
    w.delete(resource, "a", show=f"kind {GOING}")
    w.get(resource, "a", show=GOING)
    w.delete(resource, "a", show=GOING)
    w.create(resource, body)
    w.patch(resource, "a", {"metadata": {"finalizers": None}}, show=GOING)
    w.get(resource, "a")


@case
def finalizer_cannot_be_added_to_what_is_going(w: World) -> None:
    w.create("configmaps", held(config_map()))
    w.delete("configmaps", "a")
    w.patch("configmaps", "a", {"metadata": {"finalizers": [*HOLD, "contract.test/more"]}})
    w.patch("configmaps", "a", {"metadata": {"labels": {"still": "writable"}}}, show="metadata.labels")


@case
def deletion_timestamp_cannot_be_changed(w: World) -> None:
    w.create("configmaps", held(config_map()))
    w.delete("configmaps", "a")
    w.patch("configmaps", "a", {"metadata": {"deletionTimestamp": None}})
    w.patch("configmaps", "a", {"metadata": {"deletionTimestamp": "2001-02-03T04:05:06Z"}})
    w.patch("configmaps", "a", {"metadata": {"deletionGracePeriodSeconds": 9}})
    w.get("configmaps", "a", show=GOING)


@case
def finalizer_removed_by_an_update(w: World) -> None:
    w.create("configmaps", held(config_map()))
    w.delete("configmaps", "a")
    going = w.get("configmaps", "a", show="").body
    going["metadata"].pop("finalizers")
    w.replace("configmaps", going, show=f"kind {GOING}")
    w.get("configmaps", "a")


@case
def held_object_is_modified_then_deleted_in_watches(w: World) -> None:
    w.create("configmaps", held(config_map()))
    stream = w.watch("configmaps")
    w.delete("configmaps", "a")
    w.patch("configmaps", "a", {"metadata": {"finalizers": []}})
    w.create("configmaps", config_map("last"))
    stream.until("last", show=GOING)


@case
def pod_that_is_not_bound_goes_at_once(w: World) -> None:
    w.create("pods", pod())
    w.delete("pods", "a", show=f"kind status.phase {GOING}")
    w.get("pods", "a")


@case
def pod_that_is_bound_waits_for_its_kubelet(w: World) -> None:
    w.create("pods", pod(node="n"), show=GOING)
    w.delete("pods", "a", show=f"kind {GOING}")
    w.get("pods", "a", show=GOING)
    w.delete("pods", "a", {"gracePeriodSeconds": 0}, show=f"kind {GOING}")
    w.get("pods", "a")


@each({"none": None, "five": 5, "hundred": 100, "one": 1})
def grace_that_is_asked_for(w: World, seconds: int | None) -> None:
    w.create("pods", pod(node="n", terminationGracePeriodSeconds=10))
    options = {} if seconds is None else {"gracePeriodSeconds": seconds}
    w.delete("pods", "a", options, show=GOING)


@case
def grace_can_only_be_shortened(w: World) -> None:
    w.create("pods", pod(node="n"))
    w.delete("pods", "a", {"gracePeriodSeconds": 20}, show=GOING)
    w.delete("pods", "a", {"gracePeriodSeconds": 25}, show=GOING)
    w.delete("pods", "a", {"gracePeriodSeconds": 5}, show=GOING)
    w.delete("pods", "a", {}, show=GOING)


@case
def grace_of_a_pod_whose_own_is_zero(w: World) -> None:
    w.create("pods", pod(node="n", terminationGracePeriodSeconds=0), show="spec.terminationGracePeriodSeconds")
    w.delete("pods", "a", show=GOING)
    w.get("pods", "a", show=GOING)


@each({"succeeded": "Succeeded", "failed": "Failed", "pending": "Pending"})
def pod_that_has_ended_goes_at_once(w: World, phase: str) -> None:
    w.create("pods", pod(node="n"))
    w.patch("pods", "a", {"status": {"phase": phase}}, "status")
    w.delete("pods", "a", show=GOING)
    w.get("pods", "a", show=GOING)


@case
def pod_that_is_held_and_bound(w: World) -> None:
    w.create("pods", held(pod(node="n")))
    w.delete("pods", "a", {"gracePeriodSeconds": 0}, show=GOING)
    w.get("pods", "a", show=GOING)
    w.patch("pods", "a", {"metadata": {"finalizers": None}}, show=GOING)
    w.get("pods", "a")


@case
def pod_that_is_held_and_has_grace(w: World) -> None:
    w.create("pods", held(pod(node="n")))
    w.delete("pods", "a", show=GOING)
    w.patch("pods", "a", {"metadata": {"finalizers": None}}, show=GOING)
    w.get("pods", "a", show=GOING)


@case
def pod_deletion_in_a_watch(w: World) -> None:
    w.create("pods", pod(node="n"))
    stream = w.watch("pods")
    w.delete("pods", "a", {"gracePeriodSeconds": 30})
    w.delete("pods", "a", {"gracePeriodSeconds": 0})
    w.create("pods", pod("last"))
    stream.until("last", show=GOING)


def child(w: World, parent: Answer, name: str = "child", **flags: Any) -> Answer:
    """Create a ConfigMap that another ConfigMap owns."""
    reference = owner("ConfigMap", "v1", parent.body["metadata"]["name"], parent.uid, **flags)
    return w.create("configmaps", {"metadata": {"name": name, "ownerReferences": [reference]}})


def collector_has_seen(w: World, resource: str) -> None:
    """Wait until the garbage collector has seen all objects of a kind so far: it has collected one that was created later."""
    reference = owner("ConfigMap", "v1", "never", "00000000-0000-0000-0000-000000000000")
    meta = {"name": "canary", "ownerReferences": [reference]}
    w.create(resource, {**(pod() if resource == "pods" else {}), "metadata": meta})
    w.wait_gone(resource, "canary")


def names_of(w: World, resource: str) -> set[str]:
    return {found["metadata"]["name"] for found in w.peek(resource)["items"]}


@case
def background_deletion_takes_dependents_after(w: World) -> None:
    child(w, w.create("configmaps", config_map("parent")))
    w.delete("configmaps", "parent", {"propagationPolicy": "Background"}, show="*")
    w.get("configmaps", "parent")
    w.wait_gone("configmaps", "child")


@case
def deletion_without_a_policy_takes_dependents(w: World) -> None:
    child(w, w.create("configmaps", config_map("parent")))
    w.delete("configmaps", "parent")
    w.wait_gone("configmaps", "child")


@case
def foreground_deletion_takes_dependents_before(w: World) -> None:
    parent = w.create("configmaps", config_map("parent"))
    w.create(
        "configmaps",
        held(
            {
                "metadata": {
                    "name": "child",
                    "ownerReferences": [owner("ConfigMap", "v1", "parent", parent.uid, blockOwnerDeletion=True)],
                }
            }
        ),
    )
    collector_has_seen(w, "configmaps")
    w.delete("configmaps", "parent", {"propagationPolicy": "Foreground"}, show=f"kind {GOING}")
    w.wait_for("configmaps", "child", lambda found: found["metadata"]["deletionTimestamp"], "going")
    w.get("configmaps", "parent", show=GOING)
    w.patch("configmaps", "child", {"metadata": {"finalizers": None}})
    w.wait_gone("configmaps", "parent")
    w.get("configmaps", "child")


@case
def foreground_deletion_waits_only_for_those_that_block(w: World) -> None:
    parent = w.create("configmaps", config_map("parent"))
    reference = owner("ConfigMap", "v1", "parent", parent.uid)
    w.create("configmaps", held({"metadata": {"name": "child", "ownerReferences": [reference]}}))
    collector_has_seen(w, "configmaps")
    w.delete("configmaps", "parent", {"propagationPolicy": "Foreground"})
    w.wait_gone("configmaps", "parent")
    w.get("configmaps", "child", show="metadata.finalizers")


@case
def orphaning_deletion_leaves_dependents(w: World) -> None:
    child(w, w.create("configmaps", config_map("parent")))
    collector_has_seen(w, "configmaps")
    w.delete("configmaps", "parent", {"propagationPolicy": "Orphan"}, show=f"kind {GOING}")
    w.wait_gone("configmaps", "parent")
    w.get("configmaps", "child", show="metadata.ownerReferences")


@case
def two_owners_and_one_goes(w: World) -> None:
    one, two = (w.create("configmaps", config_map(name)) for name in ("one", "two"))
    owners = [owner("ConfigMap", "v1", name, answer.uid) for name, answer in (("one", one), ("two", two))]
    w.create("configmaps", {"metadata": {"name": "child", "ownerReferences": owners}})
    w.delete("configmaps", "one")
    w.wait_for("configmaps", "child", lambda found: len(found["metadata"]["ownerReferences"]) == 1, "has one owner")
    w.get("configmaps", "child", show="metadata.ownerReferences")
    w.delete("configmaps", "two")
    w.wait_gone("configmaps", "child")


@case
def owner_that_never_was(w: World) -> None:
    reference = owner("ConfigMap", "v1", "never", "00000000-0000-0000-0000-000000000000")
    w.create("configmaps", {"metadata": {"name": "child", "ownerReferences": [reference]}})
    w.wait_gone("configmaps", "child")


@case
def owner_with_another_uid(w: World) -> None:
    w.create("configmaps", config_map("parent"))
    reference = owner("ConfigMap", "v1", "parent", "00000000-0000-0000-0000-000000000000")
    w.create("configmaps", {"metadata": {"name": "child", "ownerReferences": [reference]}})
    w.wait_gone("configmaps", "child")


@case
def pods_of_a_deployment_go_with_it(w: World) -> None:
    w.create(DEPLOYMENTS, deployment(replicas=2))
    w.wait("two pods", lambda: len(w.peek("pods")["items"]) == 2)
    w.delete(DEPLOYMENTS, "a", {"propagationPolicy": "Background"})
    w.wait("no pods", lambda: not w.peek("pods")["items"])
    # A controller that learns late of the deletion makes another one, which goes as well.
    w.wait("no replica sets", lambda: not w.peek(REPLICASETS)["items"])


@case
def pods_of_a_replica_set_in_the_foreground(w: World) -> None:
    w.create(REPLICASETS, replica_set(replicas=2))
    w.wait("two pods", lambda: len(w.peek("pods")["items"]) == 2)
    collector_has_seen(w, "pods")
    owned = names_of(w, "pods")
    w.delete(REPLICASETS, "a", {"propagationPolicy": "Foreground"}, show="metadata.finalizers")
    w.wait_gone(REPLICASETS, "a")
    # Not of those that a controller makes which learns late of the deletion.
    w.note("pods of it that are left", len(owned & names_of(w, "pods")))


@case
def pods_of_a_replica_set_that_is_orphaned(w: World) -> None:
    w.create(REPLICASETS, replica_set(replicas=1))
    w.wait("a pod", lambda: len(w.peek("pods")["items"]) == 1)
    collector_has_seen(w, "pods")
    w.delete(REPLICASETS, "a", {"propagationPolicy": "Orphan"})
    w.wait_gone(REPLICASETS, "a")
    w.list("pods", show="items[].metadata.ownerReferences items[].metadata.deletionTimestamp")


@case
def widget_owns_a_config_map(w: World) -> None:
    parent = w.create(WIDGETS, widget())
    reference = owner("Widget", "contract.test/v1", "a", parent.uid)
    w.create("configmaps", {"metadata": {"name": "child", "ownerReferences": [reference]}})
    collector_has_seen(w, "configmaps")
    w.delete(WIDGETS, "a", {"propagationPolicy": "Foreground"})
    w.wait_gone("configmaps", "child")
    w.wait_gone(WIDGETS, "a")


@case
def widget_is_owned_by_a_config_map(w: World) -> None:
    parent = w.create("configmaps", config_map("parent"))
    body = widget()
    body["metadata"]["ownerReferences"] = [owner("ConfigMap", "v1", "parent", parent.uid)]
    w.create(WIDGETS, body)
    w.delete("configmaps", "parent", {"propagationPolicy": "Background"})
    w.wait_gone(WIDGETS, "a")


@case
def widget_that_was_orphaned_stays(w: World) -> None:
    parent = w.create(WIDGETS, widget("parent"))
    body = widget("child")
    body["metadata"]["ownerReferences"] = [owner("Widget", "contract.test/v1", "parent", parent.uid)]
    w.create(WIDGETS, body)
    collector_has_seen(w, "configmaps")
    w.delete(WIDGETS, "parent", {"propagationPolicy": "Orphan"})
    w.wait_gone(WIDGETS, "parent")
    w.get(WIDGETS, "child", show="metadata.ownerReferences")


def own_namespace(w: World) -> str:
    name = f"{w.ns}-own"
    w.create("namespaces", named(name), show="spec status")
    return name


@case
def namespace_goes_with_all_that_is_in_it(w: World) -> None:
    name = own_namespace(w)
    w.create("configmaps", config_map(), ns=name)
    w.create("pods", pod(), ns=name)
    w.create(WIDGETS, widget(), ns=name)
    w.delete("namespaces", name, show="kind status.phase metadata.deletionTimestamp spec")
    w.wait_gone("namespaces", name)
    w.ask("GET", w.path("configmaps", ns=name), show="items")
    w.ask("GET", w.path(WIDGETS, ns=name), show="items")


def says_why(found: Json) -> bool:
    """All that the controller tells, and that it could look everywhere: other cases take away whole kinds meanwhile."""
    told = {one["type"]: one["status"] for one in found["status"]["conditions"]}
    return len(told) >= 5 and "True" not in {told[kind] for kind in told if kind.endswith("Failure")}


@case
def namespace_waits_for_what_is_held(w: World) -> None:
    name = own_namespace(w)
    w.create("configmaps", held(config_map()), ns=name)
    w.delete("namespaces", name)
    w.wait_for("namespaces", name, says_why, "says why")
    w.get("namespaces", name, show="status.phase spec.finalizers status.conditions")
    w.create("configmaps", config_map("late"), ns=name)
    w.delete("namespaces", name)
    w.ask(
        "PATCH",
        w.path("configmaps", "a", ns=name),
        {"metadata": {"finalizers": None}},
        content_type="application/merge-patch+json",
    )
    w.wait_gone("namespaces", name)


@case
def namespace_cannot_be_created_while_it_goes(w: World) -> None:
    name = own_namespace(w)
    w.create("configmaps", held(config_map()), ns=name)
    w.delete("namespaces", name)
    w.create("namespaces", named(name))


@case
def jobs_are_deleted_with_a_warning(w: World) -> None:
    for name in "ab":
        w.create(JOBS, job(name))
    w.delete(JOBS, "a", show="metadata.finalizers")
    w.delete(JOBS, "b", {"propagationPolicy": "Orphan"})
    w.ask("DELETE", w.path(JOBS))


@case
def namespace_that_is_the_system_s(w: World) -> None:
    w.ask("DELETE", "/api/v1/namespaces/default", dryRun="All")
    w.ask("DELETE", "/api/v1/namespaces/kube-system", dryRun="All")
    w.ask("DELETE", "/api/v1/namespaces/kube-public", dryRun="All")


@case
def namespace_finalize(w: World) -> None:
    name = own_namespace(w)
    w.create("configmaps", held(config_map()), ns=name)
    body = w.get("namespaces", name, show="spec.finalizers").body
    w.ask(
        "PUT",
        w.path("namespaces", name, "finalize"),
        {**body, "spec": {"finalizers": ["contract.test/hold"]}},
        show="spec",
    )
    w.patch("namespaces", name, {"spec": {"finalizers": []}}, show="spec")


@case
def stateful_set_pods_have_no_owner_left(w: World) -> None:
    w.create(STATEFULSETS, stateful_set(replicas=1))
    w.wait("a pod", lambda: len(w.peek("pods")["items"]) == 1)
    collector_has_seen(w, "pods")
    w.delete(STATEFULSETS, "a", {"propagationPolicy": "Orphan"})
    w.wait_gone(STATEFULSETS, "a")
    w.list("pods", show="items[].metadata.name items[].metadata.ownerReferences")
