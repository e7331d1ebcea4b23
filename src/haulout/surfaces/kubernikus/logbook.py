"""What the logbook records of a Kubernikus node that is deleted."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.holds import Claim
from haulout.core.logbook.account import Account, SurfaceLogbook, stored_instant
from haulout.core.logbook.wire import Outcome
from haulout.surfaces.kubernikus.wire import BEGUN_AT, DELETE_LABEL


def _account(view: View, claim: Claim) -> Account | None:
    node = view.get(claim.node, NodeRow)
    occasion = node.annotations.get(BEGUN_AT, "") if node is not None else ""
    if not occasion:
        # It is written with the cordon. A person may have cordoned the node before.
        return None
    reason, request = "the node is to be deleted", (DELETE_LABEL, "true")
    return Account(occasion=occasion, begun_at=stored_instant(occasion), reason=reason, request=request)


def _outcome(view: View, owner: Key, node: Key, part: str) -> Outcome | None:
    # The maintenance is done when the node is gone. While the node exists, it can only be called off.
    return Outcome.CANCELLED


LOGBOOK = SurfaceLogbook(_account, _outcome)
