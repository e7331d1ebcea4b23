"""Lists of a node's pods that decisions ask for: the proof that it is empty, and the check of what is waited for."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import PROOF, View
from haulout.core.drain.options import DrainRow

# A watch brings every event. If a server or a proxy loses one all the same, a pod that is gone is waited for this long at most.
RELIST_FOR = timedelta(minutes=10)


def proof_key(drain: DrainRow, node: NodeRow) -> Key:
    """Return the key of the proof for one drain of one node: another drain, or a node made anew, needs its own."""
    return Key(node.key.cluster, PROOF, node.key.name, f"{node.uid}/{drain.key.namespace}/{drain.key.name}")


def relist(view: View, node: NodeRow, reader: str, since: datetime, now: datetime) -> datetime:
    """List the pods of a cordoned node again for every ten minutes that `reader` has waited for them. Return when the next list is due.

    What the list shows enters the store, so that a pod that is gone is no longer waited for. Until then it is.
    """
    times = (now - since) // RELIST_FOR
    if times > 0 and node.unschedulable:
        view.proof(Key(node.key.cluster, PROOF, node.key.name, f"{node.uid}/{reader}/{times}"))
    return since + (times + 1) * RELIST_FOR


def node_of(proof: Key) -> Key:
    """Return the key of the node that a proof is about."""
    return Key(proof.cluster, "Node", "", proof.namespace)
