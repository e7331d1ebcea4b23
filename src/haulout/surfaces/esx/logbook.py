"""What the logbook records of a node whose virtual machine is stopped for the maintenance of its ESX host."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.holds import Claim
from haulout.core.logbook.account import Account, SurfaceLogbook, stored_instant
from haulout.core.logbook.wire import Outcome
from haulout.surfaces.esx.wire import INITIATED_ANNOTATION, INITIATED_AT, OK_LABEL


def _account(view: View, claim: Claim) -> Account | None:
    node = view.get(claim.node, NodeRow)
    if node is None:
        return None
    occasion = node.annotations.get(INITIATED_AT, "")
    reason, request = "maintenance of the ESX host", (OK_LABEL, "true")
    return Account(occasion=occasion, begun_at=stored_instant(occasion), reason=reason, request=request)


def _outcome(view: View, owner: Key, node: Key, part: str) -> Outcome | None:
    row = view.get(node, NodeRow)
    is_stopped = row is not None and INITIATED_ANNOTATION in row.annotations
    return Outcome.CANCELLED if is_stopped else Outcome.COMPLETED


LOGBOOK = SurfaceLogbook(_account, _outcome)
