"""What the logbook records of the work of a Skyhook on a node."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.holds import Claim
from haulout.core.logbook.account import Account, SurfaceLogbook, stored_instant
from haulout.core.logbook.wire import Outcome
from haulout.surfaces.packages.node import names
from haulout.surfaces.packages.node.standing import NodeStanding, standing_key
from haulout.surfaces.packages.wire import COMPLETE, ERRORING, SkyhookRow


def _account(view: View, claim: Claim) -> Account | None:
    row = view.get(claim.owner, SkyhookRow)
    if row is None:
        return None
    picked = row.status.node_priority.get(claim.node.name, "")
    packages = ", ".join(f"{name} {package.version}" for name, package in sorted(row.spec.packages.items()))
    return Account(occasion=picked, begun_at=stored_instant(picked), reason=f"packages {packages}")


def _outcome(view: View, owner: Key, node: Key, part: str) -> Outcome | None:
    row = view.get(node, NodeRow)
    if row is None:
        return None
    status = row.annotations.get(names.status(owner.name), "")
    return {COMPLETE: Outcome.COMPLETED, ERRORING: Outcome.FAILED}.get(status, Outcome.CANCELLED)


def _error(view: View, owner: Key, node: Key, part: str) -> str:
    standing = view.get(standing_key(owner.name, node.name), NodeStanding)
    return "; ".join(standing.failures) if standing is not None else ""


LOGBOOK = SurfaceLogbook(_account, _outcome, error=_error)
