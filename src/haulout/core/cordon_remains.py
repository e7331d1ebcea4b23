"""What is left of the cordon ledger on a node that no surface claims."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.core import cordon
from haulout.core.action import Release
from haulout.core.decision import NOTHING, Decision
from haulout.core.reason import Reason

CODE = "cordon-left-behind"


def _noted(row: Row) -> tuple[Key, ...]:
    return (row.key,) if isinstance(row, NodeRow) and cordon.ANNOTATION in row.annotations else ()


# There is a bucket for each node with a ledger, so that other changes of nodes do not wake the decision.
NODES_WITH_LEDGER = Index("nodes-with-ledger", "Node", _noted)


def decide(key: Key, view: View) -> Decision:
    """Decide about a node that no surface claims.

    On a schedulable node the ledger is removed: a person ended the claim by uncordoning the node. A cordon is not lifted:
    the object that it was set for has vanished, and only a person knows whether the work on the node is over.
    """
    found = view.rows(NODES_WITH_LEDGER, key, NodeRow, key.cluster)
    if not found:
        return NOTHING
    node, entry = found[0], cordon.ledger(found[0])
    if entry is not None and entry.by:
        # The surfaces that the ledger names keep their entries even while they claim nothing, and remove them.
        return NOTHING
    if not node.unschedulable:
        return Decision(actions=((Release(key, ""),),))
    return Decision(reasons=(left_behind(key),) if view.explaining else ())


def left_behind(node: Key) -> Reason:
    text = "it is still cordoned for a maintenance whose object no longer exists"
    return Reason(CODE, node, text, act=let_go_advice(node))


def let_go_advice(node: Key) -> str:
    """Return the act that gives back a node whose maintenance has vanished. `haulout uncordon` would leave ledger, labels and taints."""
    return f"check that the work on it is over, then run: haulout let-go node/{node.name}"
