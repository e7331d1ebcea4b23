"""The proof that a node is empty: one list of its pods that began after the cordon was stored."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import PROOF
from haulout.core.drain.options import DrainRow


def proof_key(drain: DrainRow, node: NodeRow) -> Key:
    """Return the key of the proof for one drain of one node: another drain, or a node made anew, needs its own."""
    return Key(node.key.cluster, PROOF, node.key.name, f"{node.uid}/{drain.key.namespace}/{drain.key.name}")


def node_of(proof: Key) -> Key:
    """Return the key of the node that a proof is about."""
    return Key(proof.cluster, "Node", "", proof.namespace)
