"""Advice on a pod that does not leave its node: one thing that a person could do about it, as an order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.rows import BudgetRow, PodRow
from haulout.core.drain.options import POD_ANNOTATION

TEMPLATE_HASH = "pod-template-hash"
# A kubelet needs a moment after the grace period. If it needs longer than this, it probably does not work.
OVERDUE_FOR = timedelta(seconds=30)
# Waiting reasons of a pod that starts by itself.
STARTING = frozenset({"", "ContainerCreating", "PodInitializing"})


def workload(pods: Iterable[PodRow]) -> str:
    """Return the owner of pods as people call it. For a ReplicaSet of a Deployment, that is the Deployment."""
    names = list(dict.fromkeys(_owner(pod) for pod in pods if pod.controller is not None))
    if len(names) == 1:
        return names[0]
    return f"one of {', '.join(names)}" if names else "its workload"


def relax(budget: BudgetRow, pods: Sequence[PodRow]) -> str:
    """Advise on a budget that allows nothing although all pods are healthy: change it, or add a pod."""
    name = f"PodDisruptionBudget {budget.key.namespace}/{budget.key.name}"
    if budget.max_unavailable:
        return f"raise maxUnavailable of {name} (now {budget.max_unavailable})"
    if not budget.min_available or budget.min_available == "100%":
        return f"lower minAvailable of {name} (now {budget.min_available or 'not set'})"
    return f"add a replica to {workload(pods)} or lower minAvailable of {name} (now {budget.min_available})"


def fix(pod: PodRow) -> str:
    """Advise on a replica that is not ready."""
    name = f"pod {pod.key.namespace}/{pod.key.name}"
    if not pod.node:
        return f"find a node for {name}: {pod.trouble or 'it is not scheduled'}"
    if pod.trouble in STARTING:
        return f"wait until {name} on node {pod.node} is ready"
    return f"fix {name} on node {pod.node}: {pod.trouble}"


def end(pod: PodRow, now: datetime) -> str:
    """Advise on a pod that terminates. Within its grace period there is nothing to do."""
    name = f"pod {pod.key.namespace}/{pod.key.name}"
    if pod.finalizers:
        word = "finalizer" if len(pod.finalizers) == 1 else "finalizers"
        return f"remove {word} {', '.join(pod.finalizers)} from {name}, or see why its owner does not"
    if pod.deleting_at is not None and now >= pod.deleting_at + OVERDUE_FOR:
        return f"see why the kubelet of node {pod.node} does not end {name}"
    return ""


def separate(pod: PodRow, budgets: Iterable[Key]) -> str:
    names = ", ".join(f"{budget.namespace}/{budget.name}" for budget in budgets)
    return f"let only one of the PodDisruptionBudgets {names} select pod {pod.key.namespace}/{pod.key.name}"


def allow(refused: Sequence[tuple[PodRow, str]]) -> str:
    """Advise on a drain that must not begin, because its options do not allow it to evict these pods."""
    pods = ", ".join(dict.fromkeys(f"{pod.key.namespace}/{pod.key.name}" for pod, _ in refused))
    return f"remove {pods} by hand, or allow the drain to"


def prove(node: str, *, denied: bool) -> str:
    """Advise on a node whose pods cannot be listed. `denied`: the API server did not allow it."""
    if denied:
        return "allow Haulout to list pods in all namespaces (`haulout rbac` prints the roles)"
    return f"see why the API server does not list the pods of node {node}"


def other(standing: str, pod: PodRow) -> str:
    name = f"pod {pod.key.namespace}/{pod.key.name}"
    match standing:
        case "Waiting":
            return f"end {name}, or change its annotation {POD_ANNOTATION} or the rule for it"
        case "Held":
            return f"remove {name} by hand, or change its annotation {POD_ANNOTATION} or the rule for it"
        case "NamespaceTerminating":
            return f"see why the deletion of namespace {pod.key.namespace} does not end"
        case _:
            return ""


def _owner(pod: PodRow) -> str:
    owner = pod.controller
    assert owner is not None
    kind, name = owner.kind, owner.name
    suffix = f"-{pod.labels.get(TEMPLATE_HASH, '')}"
    if kind == "ReplicaSet" and len(suffix) > 1 and name.endswith(suffix):
        kind, name = "Deployment", name.removesuffix(suffix)
    return f"{kind} {pod.key.namespace}/{name}"
