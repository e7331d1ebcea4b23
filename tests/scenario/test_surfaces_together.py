"""What one surface lacks keeps no other from its work."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.project import within
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import Label
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Claim, Want, is_granted
from haulout.embedded.controllers.kinds import NODES
from tests.build.maintenances import Maintenances


def _works(key: Key, view: View, now: datetime) -> Decision:
    node = view.get(key, NodeRow)
    if node is None:
        return NOTHING
    claim = Claim(key, key, frozenset({Want.EXCLUSIVE}))
    goes = is_granted(view, "other", claim) and "done" not in node.labels
    return Decision(((Label(key, "done", "yes"),),) if goes else (), holds=(claim,))


def test_leases_of_maintenances_that_cannot_be_read() -> None:
    ops = Maintenances(None, None, Decider("other", "Node", _works), turns=True)
    leases = within("Lease", ops.options.lease_namespace)
    ops.kernel.store.set_listing("", leases, Listing.UNREADABLE, "forbidden")
    ops.run(5)
    assert ops.world.get(NODES, "n0")["metadata"]["labels"]["done"] == "yes"
