"""What the controllers make of workloads, as far as pods are named, owned and counted."""

from __future__ import annotations

from typing import Any

from tests.contract.build import daemon_set, deployment, job, node, ready_pod, replica_set, stateful_set, template
from tests.contract.registry import case
from tests.contract.world import DAEMONSETS, DEPLOYMENTS, JOBS, REPLICASETS, STATEFULSETS, World

Json = dict[str, Any]
MADE = "items[].metadata.generateName items[].metadata.labels items[].metadata.ownerReferences items[].metadata.name"


def pods(w: World) -> list[Json]:
    found: list[Json] = w.peek("pods")["items"]
    return found


def make_ready(w: World) -> None:
    for found in pods(w):
        path = f"{w.path('pods', found['metadata']['name'])}/status"
        w.quiet("PATCH", path, ready_pod(), "application/merge-patch+json")


@case
def replica_set_makes_pods(w: World) -> None:
    w.create(REPLICASETS, replica_set(replicas=1))
    w.wait("a pod", lambda: len(pods(w)) == 1)
    w.list("pods", show=f"{MADE} items[].spec items[].status")
    w.wait_for(REPLICASETS, "a", lambda found: found["status"].get("replicas") == 1, "counted")
    w.get(REPLICASETS, "a", show="status")


@case
def replica_set_counts_ready_pods(w: World) -> None:
    w.create(REPLICASETS, replica_set(replicas=2))
    w.wait("two pods", lambda: len(pods(w)) == 2)
    make_ready(w)
    w.wait_for(REPLICASETS, "a", lambda found: found["status"].get("availableReplicas") == 2, "available")
    w.get(REPLICASETS, "a", show="status")


@case
def replica_set_replaces_what_is_going(w: World) -> None:
    w.create(REPLICASETS, replica_set(replicas=1, template=template(nodeName="n")))
    w.wait("a pod", lambda: len(pods(w)) == 1)
    first = pods(w)[0]["metadata"]["name"]
    w.quiet("DELETE", w.path("pods", first), None)
    w.wait("two pods", lambda: len(pods(w)) == 2)
    w.wait_for(REPLICASETS, "a", lambda found: counts(found, going=1), "counts it")
    w.get(REPLICASETS, "a", show="status")


def counts(found: Json, *, going: int) -> bool:
    status = found["status"]
    return bool(status.get("replicas") == 1 and status.get("terminatingReplicas") == going)


@case
def replica_set_adopts_and_releases(w: World) -> None:
    # On a node, so that it stays if a controller that learns of it late has made a pod of its own: that one goes.
    w.create("pods", {"metadata": {"name": "mine", "labels": {"app": "a"}}, "spec": template(nodeName="n")["spec"]})
    w.create(REPLICASETS, replica_set(replicas=1))
    w.wait_for("pods", "mine", lambda found: found["metadata"]["ownerReferences"], "adopted")
    w.get("pods", "mine", show="metadata.ownerReferences")
    w.wait("no other pod", lambda: [found["metadata"]["name"] for found in pods(w)] == ["mine"])
    w.patch("pods", "mine", {"metadata": {"labels": {"app": "b"}}})
    w.wait_for("pods", "mine", lambda found: "ownerReferences" not in found["metadata"], "released")
    w.wait("another pod", lambda: len(pods(w)) == 2)


@case
def deployment_makes_a_replica_set(w: World) -> None:
    w.create(DEPLOYMENTS, deployment(replicas=1))
    w.wait("a pod", lambda: len(pods(w)) == 1)
    w.list(
        REPLICASETS,
        show="items[].metadata.labels items[].metadata.annotations items[].metadata.ownerReferences items[].spec",
    )
    w.list("pods", show="items[].metadata.labels items[].metadata.ownerReferences")


@case
def deployment_becomes_available(w: World) -> None:
    w.create(DEPLOYMENTS, deployment(replicas=2))
    w.wait("two pods", lambda: len(pods(w)) == 2)
    make_ready(w)
    w.wait_for(DEPLOYMENTS, "a", lambda found: found["status"].get("availableReplicas") == 2, "available")
    shown = "status.replicas status.readyReplicas status.updatedReplicas status.observedGeneration metadata.annotations"
    w.get(DEPLOYMENTS, "a", show=shown)


@case
def deployment_rolls(w: World) -> None:
    w.create(DEPLOYMENTS, deployment(replicas=1))
    w.wait("a pod", lambda: len(pods(w)) == 1)
    make_ready(w)
    w.wait_for(DEPLOYMENTS, "a", lambda found: found["status"].get("availableReplicas") == 1, "available")
    change = {"spec": {"template": {"metadata": {"annotations": {"at": "now"}}}}}
    w.patch(DEPLOYMENTS, "a", change)
    w.wait("two replica sets", lambda: len(w.peek(REPLICASETS)["items"]) == 2)
    w.wait("two pods", lambda: len(pods(w)) == 2)
    make_ready(w)
    w.wait("old pod is gone", lambda: len(pods(w)) == 1)
    sets = w.peek(REPLICASETS)["items"]
    key = "deployment.kubernetes.io/revision"
    w.note("replicas by revision", {one["metadata"]["annotations"][key]: one["spec"]["replicas"] for one in sets})


@case
def stateful_set_makes_pods_in_order(w: World) -> None:
    w.create(STATEFULSETS, stateful_set(replicas=2))
    w.wait("the first pod", lambda: len(pods(w)) == 1)
    w.list("pods", show=f"{MADE} items[].spec.hostname items[].spec.subdomain")
    make_ready(w)
    w.wait("the second pod", lambda: len(pods(w)) == 2)
    w.list("pods")


@case
def stateful_set_waits_for_the_old_pod(w: World) -> None:
    w.create(STATEFULSETS, stateful_set(replicas=1, template=template(nodeName="n")))
    w.wait("a pod", lambda: len(pods(w)) == 1)
    uid = pods(w)[0]["metadata"]["uid"]
    w.delete("pods", "a-0", show="metadata.deletionGracePeriodSeconds")
    w.get("pods", "a-0", show="metadata.deletionGracePeriodSeconds")
    w.delete("pods", "a-0", gracePeriodSeconds="0")
    w.wait("another one of the same name", lambda: [one["metadata"]["uid"] for one in pods(w)] not in ([], [uid]))


@case
def daemon_set_makes_a_pod_per_node(w: World) -> None:
    body = node(w.ns)
    body["metadata"]["labels"] = {"of": w.ns}
    w.create("nodes", body)
    w.patch("nodes", w.ns, {"spec": {"taints": None}})
    w.create(DAEMONSETS, daemon_set(template=template(nodeSelector={"of": w.ns})))
    w.wait("a pod", lambda: len(pods(w)) == 1)
    w.list("pods", show=f"{MADE} items[].spec.affinity items[].spec.tolerations items[].spec.nodeName")
    w.wait_for(DAEMONSETS, "a", lambda found: found["status"].get("updatedNumberScheduled") == 1, "counted")
    w.get(DAEMONSETS, "a", show="status")


@case
def daemon_set_ignores_a_cordon(w: World) -> None:
    body = node(w.ns, unschedulable=True)
    body["metadata"]["labels"] = {"of": w.ns}
    w.create("nodes", body)
    w.patch("nodes", w.ns, {"spec": {"taints": None}})
    w.create(DAEMONSETS, daemon_set(template=template(nodeSelector={"of": w.ns})))
    w.wait("a pod", lambda: len(pods(w)) == 1)


@case
def job_makes_a_pod(w: World) -> None:
    w.create(JOBS, job(suspend=False))
    w.wait("a pod", lambda: len(pods(w)) == 1)
    w.list("pods", show=f"{MADE} items[].metadata.finalizers items[].metadata.annotations items[].spec.restartPolicy")
    w.wait_for(JOBS, "a", lambda found: found["status"].get("active") == 1, "active")
    w.get(JOBS, "a", show="status")


@case
def job_completes(w: World) -> None:
    w.create(JOBS, job(suspend=False, template=template(restartPolicy="Never", nodeName="n")))
    w.wait("a pod", lambda: len(pods(w)) == 1)
    path = f"{w.path('pods', pods(w)[0]['metadata']['name'])}/status"
    w.quiet("PATCH", path, {"status": {"phase": "Succeeded"}}, "application/merge-patch+json")
    w.wait_for(JOBS, "a", lambda found: found["status"].get("completionTime"), "complete")
    w.get(JOBS, "a", show="status")
    w.list("pods", show="items[].metadata.finalizers items[].status.phase")
