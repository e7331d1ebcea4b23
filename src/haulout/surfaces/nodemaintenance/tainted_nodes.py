"""Nodes with the mark of a maintenance whose object is not to be had: what stands in the world counts all the same."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.decision import NOTHING, Decision
from haulout.core.holds import Claim, Want
from haulout.core.reason import Reason
from haulout.surfaces.nodemaintenance.counts import is_marked
from haulout.surfaces.nodemaintenance.wire import KIND, MAINTENANCES_OF_NODE, MaintenanceRow

# Whether somebody works on the node already is written on the object alone, so that the turn has to be taken for taken.
ALL = frozenset(Want)


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Asked about a node. Maintenances may be forbidden to us, or not served: neither ends those that have begun."""
    node = view.node(key.name)
    if node is None or not is_marked(node):
        return NOTHING
    if view.listing(KIND) is Listing.UNREADABLE:
        why = Reason("marked", key, "its mark says that it is in maintenance; NodeMaintenances cannot be read")
    elif view.rows(MAINTENANCES_OF_NODE, key.name, MaintenanceRow):
        return NOTHING
    else:
        why = left_behind(key)
    return Decision(claims=(Claim(key, key, ALL, begun=True),), reasons=(why,))


def left_behind(node: Key) -> Reason:
    """A mark alone: its maintenance was robbed of its finalizer. Only a person knows whether the work is over."""
    why = "its mark says that it is in maintenance; there is no NodeMaintenance of it"
    return Reason(
        "marked", node, why, act=f"make a NodeMaintenance of {node.name} and delete it: the mark goes with it"
    )
