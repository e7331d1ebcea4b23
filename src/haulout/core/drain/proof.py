"""Lists of a node's pods that decisions ask for: to prove a node empty, or to check the pods that a drain waits for.

See decision 0117.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import PROOF, View
from haulout.core.drain.options import DrainRow

# A watch brings every event. If a server or a proxy loses one all the same, a drain waits this long at most for a pod
# that is gone.
RELIST_FOR = timedelta(minutes=10)


def proof_key(drain: DrainRow, node: NodeRow) -> Key:
    """Return the key of the proof for one drain of one node.

    Another drain, or a new node of the same name, has another.
    """
    return Key(node.key.cluster, PROOF, node.key.name, f"{node.uid}/{drain.key.namespace}/{drain.key.name}")


def relist(view: View, node: NodeRow, reader: str, since: datetime, now: datetime) -> datetime:
    """Return when the pods of a node that `reader` waits for are listed next, and ask for the list that is due now.

    They are listed once every ten minutes, if the node is cordoned. The list enters the store, so that the drain no
    longer waits for a pod that is gone.
    """
    times = (now - since) // RELIST_FOR
    if times > 0 and node.unschedulable:
        view.proof(Key(node.key.cluster, PROOF, node.key.name, f"{node.uid}/{reader}/{times}"))
    return since + (times + 1) * RELIST_FOR


def node_of(proof: Key) -> Key:
    """Return the key of the node that a proof is about."""
    return Key(proof.cluster, "Node", "", proof.namespace)
