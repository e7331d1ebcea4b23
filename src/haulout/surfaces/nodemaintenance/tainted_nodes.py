"""Claims on nodes with the drain taint while their NodeMaintenance is missing or cannot be read."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import View
from haulout.core.cordon_remains import let_go_advice
from haulout.core.decision import NOTHING, Decision
from haulout.core.holds import Claim, Want
from haulout.core.reason import Reason
from haulout.surfaces.nodemaintenance.counts import has_drain_taint
from haulout.surfaces.nodemaintenance.wire import KIND, MAINTENANCES_OF_NODE, MaintenanceRow

# Whether work on the node has begun is only in the missing object, so the claim includes the exclusive turn.
ALL = frozenset(Want)


def _tainted(row: Row) -> tuple[str, ...]:
    return (row.key.name,) if isinstance(row, NodeRow) and has_drain_taint(row) else ()


# There is a bucket for each node with the taint, so that other changes of nodes do not wake the decision.
TAINTED_NODE = Index("drain-tainted-node", "Node", _tainted)


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Decide about one node.

    A maintenance that has begun continues while NodeMaintenances are forbidden or not served.
    """
    if not view.rows(TAINTED_NODE, key.name, NodeRow):
        return NOTHING
    if view.listing(KIND) is Listing.UNREADABLE:
        why = Reason("tainted", key, "its taint says that it is in maintenance; NodeMaintenances cannot be read")
    elif view.rows(MAINTENANCES_OF_NODE, key.name, MaintenanceRow):
        return NOTHING
    else:
        why = left_behind(key)
    return Decision(claims=(Claim(key, key, ALL, begun=True),), reasons=(why,))


def left_behind(node: Key) -> Reason:
    """Return the reason for a drain taint without a NodeMaintenance, which was deleted without its finalizer.

    Only a person knows whether the work on the node is over.
    """
    why = "its taint says that it is in maintenance; there is no NodeMaintenance for it"
    return Reason("tainted", node, why, act=let_go_advice(node))
