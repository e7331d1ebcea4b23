"""The reasons for what Kubernikus maintenance does with a node, or waits for."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.holds import Claim, refusals
from haulout.core.reason import Reason
from haulout.surfaces.kubernikus.wire import NAME, UPDATE_LABEL


def deleting(node: NodeRow, because: tuple[Reason, ...]) -> Reason:
    """Return the reason that the server is deleted, with what is waited for before."""
    text = "its server is to be deleted" + (", once it is empty" if because else "")
    return Reason("delete-node", node.key, text, because=because)


def waiting(node: NodeRow, claim: Claim, view: View) -> tuple[Reason, ...]:
    """Return the reason that the deletion waits for a grant."""
    because = refusals(view, NAME, claim)
    return (Reason("delete-node", node.key, "its server is to be deleted: the deletion waits", because=because),)


def resting(node: NodeRow, version: str, *, needs_update: bool) -> tuple[Reason, ...]:
    """Return the reason that a node's server stays, with the versions of kubelet and API server."""
    label = f"{UPDATE_LABEL}={str(needs_update).lower()}"
    text = f"its kubelet is {node.kubelet_version}, the API server {version}: {label}"
    return (Reason("at-rest", node.key, f"{text}, and its server stays"),)


def unknown(node: NodeRow, error: str) -> tuple[Reason, ...]:
    """Return the reason that nothing new begins while versions are not known."""
    why = Reason("fact-awaited", node.key, error or "the version of the API server is not known yet")
    return (Reason("kubernikus", node.key, "waiting: versions are unknown", because=(why,)),)
