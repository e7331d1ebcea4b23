"""Versions, preconditions, generations and dry runs of writes."""

from __future__ import annotations

from tests.contract.build import config_map, deployment, lease, node, pdb, pod, widget
from tests.contract.registry import case
from tests.contract.world import DEPLOYMENTS, LEASES, PDBS, WIDGETS, World

STALE = "metadata.resourceVersion metadata.labels data"


@case
def update_with_the_current_version(w: World) -> None:
    made = w.create("configmaps", config_map(a="1"), show=STALE)
    w.replace("configmaps", {**made.body, "data": {"a": "2"}}, show="*")


@case
def update_with_a_stale_version(w: World) -> None:
    made = w.create("configmaps", config_map(a="1"))
    w.replace("configmaps", {**made.body, "data": {"a": "2"}})
    w.replace("configmaps", {**made.body, "data": {"a": "3"}})
    w.get("configmaps", "a", show="data")


@case
def update_without_a_version(w: World) -> None:
    w.create("configmaps", config_map(a="1"))
    w.replace("configmaps", config_map(a="2"), show="data")
    w.replace("configmaps", {**config_map(a="2"), "metadata": {"name": "a", "resourceVersion": "0"}})
    w.create(LEASES, lease())
    w.replace(LEASES, lease(holderIdentity="you"), show="spec")
    w.create(WIDGETS, widget())
    w.replace(WIDGETS, widget(size=4))
    w.create(PDBS, pdb(minAvailable=1))
    w.replace(PDBS, pdb(minAvailable=2))
    w.create("nodes", node(w.ns))
    w.replace("nodes", node(w.ns, unschedulable=True), show="spec.unschedulable")


@case
def update_with_a_version_that_is_no_number(w: World) -> None:
    w.create("configmaps", config_map())
    w.replace("configmaps", {**config_map(), "metadata": {"name": "a", "resourceVersion": "x"}})
    w.create(WIDGETS, widget())
    w.replace(WIDGETS, {**widget(), "metadata": {"name": "a", "resourceVersion": "x"}})


@case
def update_with_another_uid(w: World) -> None:
    made = w.create("configmaps", config_map())
    meta = {**made.body["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}
    w.replace("configmaps", {**made.body, "metadata": meta})


@case
def update_that_changes_nothing_keeps_the_version(w: World) -> None:
    made = w.create("configmaps", config_map(a="1"), show=STALE)
    w.replace("configmaps", made.body, show=STALE)
    w.patch("configmaps", "a", {"data": {"a": "1"}}, show=STALE)


@case
def update_of_a_lease_creates_none(w: World) -> None:
    w.replace(LEASES, lease("none"))
    w.replace("configmaps", config_map("none"))
    w.replace("pods", pod("none"))


@case
def patch_with_a_stale_version(w: World) -> None:
    made = w.create("configmaps", config_map(a="1"))
    w.patch("configmaps", "a", {"data": {"a": "2"}, "metadata": {"resourceVersion": made.version}}, show="data")
    w.patch("configmaps", "a", {"data": {"a": "3"}, "metadata": {"resourceVersion": made.version}})
    w.patch("configmaps", "a", {"metadata": {"resourceVersion": "x"}})


@case
def patch_with_a_stale_version_of_a_widget(w: World) -> None:
    made = w.create(WIDGETS, widget())
    w.patch(WIDGETS, "a", {"spec": {"size": 4}, "metadata": {"resourceVersion": made.version}}, show="spec.size")
    w.patch(WIDGETS, "a", {"spec": {"size": 5}, "metadata": {"resourceVersion": made.version}})


@case
def patch_with_another_uid(w: World) -> None:
    w.create("configmaps", config_map())
    w.patch("configmaps", "a", {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}, "data": {"a": "1"}})
    w.create("nodes", node(w.ns))
    w.patch("nodes", w.ns, {"metadata": {"uid": "00000000-0000-0000-0000-000000000000"}})


@case
def delete_with_preconditions(w: World) -> None:
    made = w.create("configmaps", config_map())
    none = "00000000-0000-0000-0000-000000000000"
    w.delete("configmaps", "a", {"preconditions": {"uid": none}})
    w.delete("configmaps", "a", {"preconditions": {"resourceVersion": "1"}})
    w.delete("configmaps", "a", {"preconditions": {"uid": made.uid, "resourceVersion": made.version}}, show="*")


@case
def delete_pod_with_preconditions(w: World) -> None:
    made = w.create("pods", pod(node="n"))
    w.delete("pods", "a", {"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}})
    w.patch("pods", "a", {"metadata": {"labels": {"b": "1"}}})
    w.delete("pods", "a", {"preconditions": {"resourceVersion": made.version}})
    w.delete("pods", "a", {"preconditions": {"uid": made.uid}, "gracePeriodSeconds": 0}, show="kind metadata.uid")


@case
def delete_with_options_that_make_no_sense(w: World) -> None:
    w.create("configmaps", config_map())
    w.delete("configmaps", "a", {"propagationPolicy": "Sideways"})
    w.delete("configmaps", "a", {"orphanDependents": True, "propagationPolicy": "Orphan"})
    w.delete("configmaps", "a", {"dryRun": ["Some"]})
    w.delete("configmaps", "a", {"gracePeriodSeconds": -5})


@case
def delete_options_in_the_query(w: World) -> None:
    w.create("pods", pod(node="n"))
    w.delete("pods", "a", gracePeriodSeconds="7", show="metadata.deletionGracePeriodSeconds")
    w.delete("pods", "a", propagationPolicy="Sideways")


@case
def delete_options_of_an_unknown_kind(w: World) -> None:
    w.create("configmaps", config_map())
    w.delete("configmaps", "a", {"apiVersion": "v1", "kind": "Pod"})
    w.delete("configmaps", "a", {"apiVersion": "v1", "kind": "DeleteOptions"}, show="*")


@case
def generation_counts_changes_of_the_spec(w: World) -> None:
    show = "metadata.generation"
    w.create(DEPLOYMENTS, deployment(), show=show)
    w.patch(DEPLOYMENTS, "a", {"metadata": {"labels": {"b": "1"}}}, show=show)
    w.patch(DEPLOYMENTS, "a", {"spec": {"minReadySeconds": 1}}, show=show)
    w.patch(DEPLOYMENTS, "a", {"spec": {"minReadySeconds": 1}}, show=show)


@case
def generation_of_a_widget(w: World) -> None:
    show = "metadata.generation"
    w.create(WIDGETS, widget(), show=show)
    w.patch(WIDGETS, "a", {"metadata": {"labels": {"b": "1"}}}, show=show)
    w.patch(WIDGETS, "a", {"spec": {"size": 4}}, show=show)
    w.patch(WIDGETS, "a", {"status": {"phase": "x"}}, "status", show=show)
    w.patch(WIDGETS, "a", {"metadata": {"generation": 90}}, show=show)


@case
def generation_of_a_pod_and_a_node(w: World) -> None:
    show = "metadata.generation"
    w.create("pods", pod(), show=show)
    w.patch("pods", "a", {"spec": {"activeDeadlineSeconds": 5}}, show=show)
    w.create("nodes", node(w.ns), show=show)
    w.patch("nodes", w.ns, {"spec": {"unschedulable": True}}, show=show)


@case
def generation_grows_on_deletion(w: World) -> None:
    body = widget()
    body["metadata"]["finalizers"] = ["contract.test/hold"]
    w.create(WIDGETS, body, show="metadata.generation")
    w.delete(WIDGETS, "a", show="metadata.generation metadata.deletionGracePeriodSeconds")


@case
def dry_run_of_an_update(w: World) -> None:
    made = w.create("configmaps", config_map(a="1"), show=STALE)
    w.replace("configmaps", {**made.body, "data": {"a": "2"}}, dryRun="All", show=STALE)
    w.get("configmaps", "a", show=STALE)
    w.replace("configmaps", {**made.body, "data": {"b/b": "2"}}, dryRun="All")


@case
def dry_run_of_a_patch(w: World) -> None:
    w.create("nodes", node(w.ns))
    w.patch("nodes", w.ns, {"spec": {"unschedulable": True}}, dryRun="All", show="spec.unschedulable")
    w.get("nodes", w.ns, show="spec.unschedulable")


@case
def dry_run_of_a_creation(w: World) -> None:
    w.create("configmaps", {"metadata": {"generateName": "a-"}}, dryRun="All", show="metadata")
    w.create("configmaps", config_map(), dryRun="All")
    w.get("configmaps", "a")
    w.create("configmaps", config_map())
    w.create("configmaps", config_map(), dryRun="All")


@case
def dry_run_of_a_deletion(w: World) -> None:
    w.create("pods", pod(node="n"))
    w.delete("pods", "a", {"dryRun": ["All"]}, show="metadata.deletionGracePeriodSeconds metadata.deletionTimestamp")
    w.get("pods", "a", show="metadata.deletionTimestamp")
    w.ask("DELETE", w.path("pods"), dryRun="All", show="kind items[].metadata.name")
    w.list("pods")


@case
def dry_run_of_an_unknown_kind(w: World) -> None:
    w.create("configmaps", config_map(), dryRun="Some")


@case
def delete_collection(w: World) -> None:
    for name in ("a", "b", "c"):
        w.create("configmaps", config_map(name, labels={"of": name if name == "c" else "ab"}))
    w.ask("DELETE", w.path("configmaps"), labelSelector="of=ab", show="kind items[].metadata.name")
    w.list("configmaps")
    w.ask("DELETE", w.path("configmaps"), fieldSelector="metadata.name=c", show="kind items[].metadata.name")
    w.list("configmaps")


@case
def create_after_delete_is_another_object(w: World) -> None:
    w.create("configmaps", config_map(), show="metadata.uid metadata.resourceVersion")
    w.delete("configmaps", "a")
    w.create("configmaps", config_map(), show="metadata.uid metadata.resourceVersion")
