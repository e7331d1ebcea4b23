"""The eviction subresource: what it allows, what it refuses, and with which messages."""

from __future__ import annotations

from typing import Any

from tests.contract.build import SELECTOR, container, pdb, pod, ready_pod, template
from tests.contract.registry import case, each
from tests.contract.world import PDBS, REPLICASETS, World

Json = dict[str, Any]
GOING = (
    "metadata.deletionTimestamp metadata.deletionGracePeriodSeconds status.conditions[].type status.conditions[].reason"
)
NUMBERS = "status.currentHealthy status.desiredHealthy status.expectedPods status.disruptionsAllowed"


def running(w: World, name: str, *, ready: bool = True, **given: Any) -> None:
    w.create("pods", pod(name, node="n", **given))
    w.patch("pods", name, ready_pod(ready=ready), "status")


def budget(w: World, healthy: int, allowed: int, name: str = "a", **spec: Any) -> None:
    """Create a budget, and wait until the controller has computed its status."""
    w.create(PDBS, pdb(name, **spec))
    w.wait_for(PDBS, name, lambda found: counted(found, healthy, allowed), "counted")


def evict_again(w: World, pod: str) -> None:
    """Evict a pod again. The message depends on whether the controller has counted meanwhile."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": w.ns}}
    answer = w.quiet("POST", w.path("pods", pod, "eviction"), body)
    causes = answer.body.get("details", {}).get("causes", [])
    w.note(f"eviction of {pod}", [answer.code, answer.body.get("message"), [cause["reason"] for cause in causes]])


def counted(found: Json, healthy: int, allowed: int) -> bool:
    status = found["status"]
    return bool(
        status.get("observedGeneration") == found["metadata"]["generation"]
        and status["currentHealthy"] == healthy
        and status["disruptionsAllowed"] == allowed
    )


@case
def evict_without_a_budget(w: World) -> None:
    running(w, "a")
    w.evict("a")
    w.get("pods", "a", show=GOING)


@case
def evict_what_is_not_bound(w: World) -> None:
    w.create("pods", pod("a"))
    w.evict("a")
    w.get("pods", "a")


@case
def evict_what_is_missing(w: World) -> None:
    w.evict("none")


@case
def evict_within_the_budget(w: World) -> None:
    for name in ("a", "b"):
        running(w, name)
    budget(w, 2, 1, minAvailable=1)
    w.evict("a")
    w.get("pods", "a", show=GOING)
    evict_again(w, "b")


@case
def evict_against_the_budget(w: World) -> None:
    running(w, "a")
    budget(w, 1, 0, minAvailable=1)
    w.evict("a")
    w.get("pods", "a", show="metadata.deletionTimestamp")


@case
def evict_takes_from_the_budget_at_once(w: World) -> None:
    """The answer is known before the controller has counted again."""
    for name in ("a", "b", "c"):
        running(w, name)
    budget(w, 3, 1, minAvailable=2)
    w.evict("a", show="")
    evict_again(w, "b")


@case
def evict_notes_the_pod_in_the_budget(w: World) -> None:
    """Seen in the watch: the API server's own write comes before the controller's."""
    for name in ("a", "b"):
        running(w, name)
    budget(w, 2, 1, minAvailable=1)
    version = w.get(PDBS, "a", show=NUMBERS).version
    stream = w.watch(PDBS, resourceVersion=version)
    w.evict("a", show="")
    stream.take(1, show=f"{NUMBERS} status.disruptedPods metadata.generation")


@case
def evict_with_two_budgets(w: World) -> None:
    running(w, "a")
    budget(w, 1, 1, name="one", minAvailable=0)
    budget(w, 1, 1, name="two", minAvailable=0)
    w.evict("a")


@case
def evict_with_a_budget_of_others(w: World) -> None:
    running(w, "a", labels={"app": "b"})
    running(w, "b")
    budget(w, 1, 0, minAvailable=1)
    w.evict("a")


@case
def evict_with_a_budget_that_selects_nothing(w: World) -> None:
    running(w, "a")
    w.create(PDBS, {"metadata": {"name": "a"}, "spec": {"minAvailable": 1}})
    w.wait_for(PDBS, "a", lambda found: found["status"]["observedGeneration"] == 1, "counted")
    w.get(PDBS, "a", show=NUMBERS)
    w.evict("a")


@case
def evict_with_a_budget_that_selects_all(w: World) -> None:
    running(w, "a")
    w.create(PDBS, {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {}}})
    w.wait_for(PDBS, "a", lambda found: counted(found, 1, 0), "counted")
    w.evict("a")


@each({"default": None, "if-healthy": "IfHealthyBudget", "always": "AlwaysAllow"})
def evict_what_is_not_ready_of_a_healthy_budget(w: World, policy: str | None) -> None:
    running(w, "a")
    running(w, "b", ready=False)
    budget(w, 1, 0, minAvailable=1, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    w.evict("b")
    w.evict("a")


@each({"default": None, "if-healthy": "IfHealthyBudget", "always": "AlwaysAllow"})
def evict_what_is_not_ready_of_a_broken_budget(w: World, policy: str | None) -> None:
    running(w, "a")
    running(w, "b", ready=False)
    budget(w, 1, 0, minAvailable=2, **({"unhealthyPodEvictionPolicy": policy} if policy else {}))
    w.evict("b")


@case
def evict_what_is_not_ready_takes_nothing_from_the_budget(w: World) -> None:
    for name in ("a", "b"):
        running(w, name)
    running(w, "c", ready=False)
    budget(w, 2, 1, minAvailable=1, unhealthyPodEvictionPolicy="AlwaysAllow")
    w.evict("c", show="")
    w.get(PDBS, "a", show="status.disruptionsAllowed status.disruptedPods")


@each({"succeeded": "Succeeded", "failed": "Failed", "pending": "Pending"})
def evict_in_a_phase(w: World, phase: str) -> None:
    running(w, "b")
    w.create("pods", pod("a", node="n"))
    w.patch("pods", "a", {"status": {"phase": phase}}, "status")
    budget(w, 1, 0, minAvailable=1)
    w.evict("a")
    w.get("pods", "a", show="metadata.deletionTimestamp")


@case
def evict_what_is_going_already(w: World) -> None:
    running(w, "a")
    budget(w, 1, 0, minAvailable=1)
    w.delete("pods", "a", show="metadata.deletionGracePeriodSeconds")
    w.evict("a")
    w.get("pods", "a", show="metadata.deletionGracePeriodSeconds")


@case
def evict_with_a_grace_period(w: World) -> None:
    running(w, "a")
    w.evict("a", options={"gracePeriodSeconds": 7})
    w.get("pods", "a", show=GOING)


@case
def evict_without_grace(w: World) -> None:
    running(w, "a")
    w.evict("a", options={"gracePeriodSeconds": 0})
    w.get("pods", "a")


@case
def evict_with_preconditions(w: World) -> None:
    running(w, "a")
    w.evict("a", options={"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}})
    uid = w.get("pods", "a", show="metadata.uid").uid
    w.evict("a", options={"preconditions": {"resourceVersion": "1"}})
    w.evict("a", options={"preconditions": {"uid": uid}})


@case
def evict_with_a_failed_precondition_takes_from_the_budget(w: World) -> None:
    """The real server counts before it looks; the controller believes it for two minutes."""
    for name in ("a", "b"):
        running(w, name)
    budget(w, 2, 1, minAvailable=1)
    w.evict("a", options={"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}})
    w.wait_for(PDBS, "a", lambda found: counted(found, 1, 0), "counted")
    w.get(PDBS, "a", show=f"{NUMBERS} status.disruptedPods")


@case
def evict_as_a_dry_run(w: World) -> None:
    for name in ("a", "b"):
        running(w, name)
    budget(w, 2, 1, minAvailable=1)
    w.evict("a", options={"dryRun": ["All"]})
    w.evict("a", dryRun="All")
    w.get("pods", "a", show="metadata.deletionTimestamp")
    w.get(PDBS, "a", show=f"{NUMBERS} status.disruptedPods")


@case
def evict_as_a_dry_run_against_the_budget(w: World) -> None:
    running(w, "a")
    budget(w, 1, 0, minAvailable=1)
    w.evict("a", options={"dryRun": ["All"]})


@case
def evict_of_what_is_held(w: World) -> None:
    running(w, "a", meta={"finalizers": ["contract.test/hold"]})
    w.evict("a", options={"gracePeriodSeconds": 0})
    w.get("pods", "a", show=GOING)
    w.evict("a")


@case
def eviction_with_another_name(w: World) -> None:
    running(w, "a")
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "b", "namespace": w.ns}}
    w.ask("POST", w.path("pods", "a", "eviction"), body)
    w.ask("POST", w.path("pods", "a", "eviction"), {**body, "metadata": {}}, show="*")


@case
def eviction_of_the_old_version(w: World) -> None:
    running(w, "a")
    body = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "a", "namespace": w.ns}}
    w.ask("POST", w.path("pods", "a", "eviction"), body, show="*")


@case
def eviction_of_a_wrong_kind(w: World) -> None:
    running(w, "a")
    w.ask("POST", w.path("pods", "a", "eviction"), {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}})
    w.ask("POST", w.path("pods", "a", "eviction"), b"{not json")


@case
def eviction_of_a_budget_not_counted_yet(w: World) -> None:
    """Until the controller has seen a change of the budget, nothing goes."""
    for name in ("a", "b"):
        running(w, name)
    budget(w, 2, 1, minAvailable=1)
    w.patch(PDBS, "a", {"status": {"observedGeneration": 0}}, "status", show="status.observedGeneration")
    w.wait_for(PDBS, "a", lambda found: counted(found, 2, 1), "counted again")
    w.evict("a")


def replica_set_of(w: World, replicas: int, ready: int) -> list[str]:
    """Create a ReplicaSet with pods, so many of them ready."""
    spec = {"replicas": replicas, "selector": SELECTOR, "template": template(containers=[container()], nodeName="n")}
    w.create(REPLICASETS, {"metadata": {"name": "a"}, "spec": spec})
    w.wait("pods are there", lambda: len(w.peek("pods")["items"]) == replicas)
    names = [found["metadata"]["name"] for found in w.peek("pods")["items"]]
    for name in names[:ready]:
        path = f"{w.path('pods', name)}/status"
        w.quiet("PATCH", path, ready_pod(), "application/merge-patch+json")
    return names


@each(
    {
        "min-2-of-3": (3, 3, {"minAvailable": 2}),
        "min-3-of-3": (3, 3, {"minAvailable": 3}),
        "min-0-of-2": (2, 2, {"minAvailable": 0}),
        "min-5-of-3": (3, 3, {"minAvailable": 5}),
        "min-1-of-3-one-ready": (3, 1, {"minAvailable": 1}),
        "min-half-of-3": (3, 3, {"minAvailable": "50%"}),
        "min-half-of-4": (4, 4, {"minAvailable": "50%"}),
        "min-one-percent-of-3": (3, 3, {"minAvailable": "1%"}),
        "min-all-of-3": (3, 3, {"minAvailable": "100%"}),
        "max-1-of-3": (3, 3, {"maxUnavailable": 1}),
        "max-1-of-3-two-ready": (3, 2, {"maxUnavailable": 1}),
        "max-0-of-3": (3, 3, {"maxUnavailable": 0}),
        "max-5-of-3": (3, 3, {"maxUnavailable": 5}),
        "max-third-of-4": (4, 4, {"maxUnavailable": "30%"}),
        "max-half-of-3": (3, 3, {"maxUnavailable": "50%"}),
        "max-all-of-3": (3, 3, {"maxUnavailable": "100%"}),
        "max-none-ready": (2, 0, {"maxUnavailable": 1}),
        "of-nothing": (0, 0, {"maxUnavailable": 1}),
    }
)
def arithmetic(w: World, given: tuple[int, int, Json]) -> None:
    replicas, ready, spec = given
    replica_set_of(w, replicas, ready)
    w.create(PDBS, pdb(**spec))
    w.wait_for(PDBS, "a", lambda found: settled(found, replicas, ready), "counted")
    w.get(PDBS, "a", show="status spec")


def settled(found: Json, replicas: int, ready: int) -> bool:
    status = found["status"]
    return bool(
        status["observedGeneration"] and status["expectedPods"] == replicas and status["currentHealthy"] == ready
    )


def all_seen(found: Json) -> bool:
    """Whether both pods are counted, or the status says why they cannot be."""
    reasons = [condition["reason"] for condition in found["status"]["conditions"]]
    return bool(found["status"]["currentHealthy"] == 2 or "SyncFailed" in reasons)


@each({"max": {"maxUnavailable": 1}, "percent": {"minAvailable": "50%"}, "min": {"minAvailable": 1}})
def arithmetic_without_a_controller(w: World, spec: Json) -> None:
    """Pods that nothing scales can be counted only against a plain number."""
    for name in ("a", "b"):
        running(w, name)
    w.create(PDBS, pdb(**spec))
    w.wait_for(PDBS, "a", all_seen, "looked at")
    w.get(PDBS, "a", show=f"{NUMBERS} status.conditions[].type status.conditions[].status status.conditions[].reason")


@case
def arithmetic_follows_the_scale(w: World) -> None:
    replica_set_of(w, 2, 2)
    budget(w, 2, 1, maxUnavailable=1)
    w.patch(REPLICASETS, "a", {"spec": {"replicas": 4}})
    w.wait_for(PDBS, "a", lambda found: found["status"]["expectedPods"] == 4, "expects four")
    w.get(PDBS, "a", show=NUMBERS)


@case
def arithmetic_follows_the_pods(w: World) -> None:
    for name in ("a", "b", "c"):
        running(w, name)
    budget(w, 3, 1, minAvailable=2)
    w.patch("pods", "a", ready_pod(ready=False), "status")
    w.wait_for(PDBS, "a", lambda found: counted(found, 2, 0), "counted")
    w.delete("pods", "b", gracePeriodSeconds="0")
    # Two writes, first going and then gone: the controller may count in between.
    w.wait_for(PDBS, "a", lambda found: counted(found, 1, 0) and found["status"]["expectedPods"] == 2, "counted")
    w.get(PDBS, "a", show=f"{NUMBERS} status.conditions[].reason status.conditions[].status")


@case
def arithmetic_counts_no_pod_that_is_going(w: World) -> None:
    for name in ("a", "b"):
        running(w, name)
    budget(w, 2, 1, minAvailable=1)
    w.delete("pods", "a")
    w.wait_for(PDBS, "a", lambda found: counted(found, 1, 0), "counted")
    w.get(PDBS, "a", show=NUMBERS)


@case
def arithmetic_after_a_change_of_the_budget(w: World) -> None:
    for name in ("a", "b"):
        running(w, name)
    budget(w, 2, 1, minAvailable=1)
    w.patch(PDBS, "a", {"spec": {"minAvailable": 2}}, show="metadata.generation")
    w.wait_for(PDBS, "a", lambda found: counted(found, 2, 0), "counted")
    w.get(PDBS, "a", show=f"{NUMBERS} status.observedGeneration")


def forgotten(found: Json) -> bool:
    return counted(found, 1, 0) and found["status"]["expectedPods"] == 1 and "disruptedPods" not in found["status"]


@case
def disrupted_pod_that_is_gone_is_forgotten(w: World) -> None:
    for name in ("a", "b"):
        running(w, name)
    budget(w, 2, 1, minAvailable=1)
    w.evict("a", options={"gracePeriodSeconds": 0}, show="")
    w.wait_for(PDBS, "a", forgotten, "forgotten")
    w.get(PDBS, "a", show=f"{NUMBERS} status.disruptedPods")
