"""K21: no node is released while another surface may have a claim on it that is not known (decision 0093)."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.store import Store
from haulout.core import claimants
from haulout.core.action import Annotate, Cordon
from haulout.core.cordon import ANNOTATION
from haulout.core.decision import Decision
from haulout.core.holds import HOLDS_OF_NODE, Blocked
from haulout.kernel.rooms import Subject


def uncordons_too_early(store: Store, subject: Subject, decision: Decision) -> bool:
    """Whether a decision uncordons a node that another surface may still claim, or removes its cordon ledger.

    That is so after a start, until all surfaces have decided once about each of their objects, and while a decision of
    another surface about the node fails. The decision's own claims are made all the same, and it is asked again when
    the other claims become known.
    """
    nodes = {
        action.target
        for step in decision.actions
        for action in step
        if isinstance(action, Cordon | Annotate) and _releases(action)
    }
    return any(not claimants.are_known(store, node.cluster) or _is_blocked(store, subject, node) for node in nodes)


def _releases(action: Cordon | Annotate) -> bool:
    if isinstance(action, Cordon):
        return not action.unschedulable
    # Without the ledger, a claim that stands would take the cordon for one of its original.
    return action.name == ANNOTATION and action.value is None


def _is_blocked(store: Store, subject: Subject, node: Key) -> bool:
    rows = store.bucket(HOLDS_OF_NODE, node.cluster, node)
    return any(isinstance(row, Blocked) and row.surface != subject.decider for row in rows)
