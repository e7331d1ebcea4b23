"""The rule of the webhook of NodeMaintenance, with the original's messages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from enum import Enum
from functools import partial
from typing import Any

import msgspec

from haulout.cluster.indexes import BUDGETS_OF_NAMESPACE, PODS_OF_NODE
from haulout.cluster.key import node_key
from haulout.cluster.rows import BudgetRow, NodeRow, PodRow, Row
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import View
from haulout.core.admission import ALLOWED, AdmissionRequest, Unreadable, Verdict, Webhook, denial, unreadable
from haulout.core.budgets.quorum import ETCD_MEMBERS
from haulout.surfaces.nodemaintenance.declare import WEBHOOK
from haulout.surfaces.nodemaintenance.wire import CONTROL_PLANE_LABELS, KIND, MAINTENANCES_OF_NODE, MaintenanceRow

GUARD_NAMESPACE = "openshift-etcd"
KEEPS_PODS_AWAY = ("NoSchedule", "NoExecute")


class Quorum(Enum):
    """How control-plane nodes are protected: not at all, by OpenShift's guard budget, or by counting etcd members."""

    NONE = "none"
    OPENSHIFT = "openshift"
    MEMBERS = "members"


class _Spec(msgspec.Struct, frozen=True, rename="camel"):
    node_name: str = ""


class Maintenance(msgspec.Struct, frozen=True):
    """The parts of a NodeMaintenance that the rule reads."""

    spec: _Spec | None = None

    @property
    def node(self) -> str:
        return self.spec.node_name if self.spec else ""


def _takes_pods(row: Row) -> Iterable[Hashable]:
    if isinstance(row, NodeRow) and not row.unschedulable:
        return () if any(taint.effect in KEEPS_PODS_AWAY for taint in row.taints) else (True,)
    return ()


TAKING_PODS = Index("nodes-taking-pods", "Node", _takes_pods)


def webhook(quorum: Quorum) -> Webhook:
    return Webhook(WEBHOOK.name, WEBHOOK.path, partial(admit, quorum), Maintenance, WEBHOOK.configuration)


def admit(quorum: Quorum, request: AdmissionRequest, view: View) -> Verdict:
    match request.operation:
        case "CREATE":
            maintenance = _checked(request.object)
            return maintenance if isinstance(maintenance, Verdict) else _create(maintenance.node, quorum, view)
        case "UPDATE":
            return _update(_checked(request.old_object), _checked(request.object))
        case _:
            return ALLOWED


def _update(old: Maintenance | Verdict, new: Maintenance | Verdict) -> Verdict:
    for each in (new, old):
        if isinstance(each, Verdict):
            return each
    assert isinstance(old, Maintenance)
    assert isinstance(new, Maintenance)
    return ALLOWED if old.node == new.node else denial("updating spec.NodeName isn't allowed")


def _create(name: str, quorum: Quorum, view: View) -> Verdict:
    if problem := _unread("Node", view):
        act = "could not get node for validating spec.NodeName, please try again: could not get node"
        return denial(f"{act}: {problem}")
    node = view.node(name)
    if node is None:
        return denial(f"invalid nodeName, no node with name {name} found", *([node_key(name)] if name else []))
    if problem := _unread(KIND, view):
        act = "could not list NodeMaintenances for validating spec.NodeName, please try again"
        return denial(f"{act}: {problem}")
    if others := view.rows(MAINTENANCES_OF_NODE, name, MaintenanceRow):
        message = f"invalid nodeName, a NodeMaintenance for node {name} already exists"
        return denial(message, *(other.key for other in others))
    refusal = _quorum(node, quorum, view)
    return refusal or Verdict(allowed=True, warnings=_warnings(name, view))


def _quorum(node: NodeRow, quorum: Quorum, view: View) -> Verdict | None:
    if quorum is Quorum.NONE or not any(label in node.labels for label in CONTROL_PLANE_LABELS):
        return None
    for kind in ("PodDisruptionBudget", "Pod") if quorum is Quorum.OPENSHIFT else ("Pod",):
        if problem := _unread(kind, view):
            return Verdict(allowed=False, code=500, reason="InternalError", message=problem)
    return _guard(node, view) if quorum is Quorum.OPENSHIFT else _members(node, view)


def _guard(node: NodeRow, view: View) -> Verdict | None:
    """Judge by OpenShift's guard of etcd: a PodDisruptionBudget over one guard pod for each member."""
    name = node.key.name
    budgets = view.rows(BUDGETS_OF_NAMESPACE, GUARD_NAMESPACE, BudgetRow)
    if len(budgets) != 1:
        return _violates(name)
    budget = budgets[0]
    if budget.disruptions_allowed >= 1:
        return None
    try:
        wanted = _as_labels(budget.selector)
    except ValueError as error:
        return denial(str(error))
    for pod in view.rows(PODS_OF_NODE, name, PodRow):
        if pod.key.namespace == GUARD_NAMESPACE and wanted.items() <= dict(pod.labels).items():
            # A control-plane node whose guard pod is not ready has already left the quorum.
            is_member = pod.ready is not False
            return denial(_violation(name), budget.key, pod.key) if is_member else None
    return None


def _members(node: NodeRow, view: View) -> Verdict | None:
    """Judge by the members of etcd: more than half must remain.

    A member whose node is in maintenance counts as gone.
    """
    name = node.key.name
    members = {pod.node: pod for pod in view.rows(ETCD_MEMBERS, True, PodRow)}
    own = members.get(name)
    if own is None or not own.ready:
        return None
    remaining = [
        pod
        for pod in members.values()
        if pod.node != name and pod.ready and not view.rows(MAINTENANCES_OF_NODE, pod.node, MaintenanceRow)
    ]
    return None if len(remaining) > len(members) // 2 else _violates(name)


def _warnings(name: str, view: View) -> tuple[str, ...]:
    for other in view.rows(TAKING_PODS, True, NodeRow):
        if other.key.name != name and not view.rows(MAINTENANCES_OF_NODE, other.key.name, MaintenanceRow):
            return ()
    return (f"no schedulable node is left beside {name}: pods that leave it cannot run elsewhere",)


def _violates(name: str) -> Verdict:
    return denial(_violation(name))


def _violation(name: str) -> str:
    return (
        "can not put master/control-plane node into maintenance at this moment,"
        f" disrupting node {name} will violate etcd quorum"
    )


def _unread(kind: str, view: View) -> str:
    match view.listing(kind):
        case Listing.LISTED:
            return ""
        case Listing.WAITING:
            return f"the list of {kind} objects is not complete yet"
        case Listing.UNREADABLE:
            return f"{kind} objects cannot be read"


def _checked(obj: msgspec.Struct | Unreadable | None) -> Maintenance | Verdict:
    match obj:
        case Maintenance():
            return obj
        case Unreadable():
            return unreadable(f"the object is not a NodeMaintenance: {obj.why}")
        case _:
            return unreadable("there is no content to decode")


def _as_labels(selector: Mapping[str, Any] | None) -> dict[str, str]:
    """Return a selector as plain equality, which is all that the original supports. An empty one selects every pod."""
    fields = selector or {}
    wanted = dict(fields.get("matchLabels") or {})
    for expression in fields.get("matchExpressions") or ():
        operator, values = expression.get("operator", ""), list(expression.get("values") or ())
        if operator == "In" and len(values) == 1:
            wanted[expression["key"]] = values[0]
        elif operator == "In":
            raise ValueError(
                'operator "In" without a single value cannot be converted into the old label selector format'
            )
        elif operator in ("NotIn", "Exists", "DoesNotExist"):
            raise ValueError(f'operator "{operator}" cannot be converted into the old label selector format')
        else:
            raise ValueError(f'"{operator}" is not a valid label selector operator')
    return wanted
