"""What the logbook records of a NodeMaintenance."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.holds import Claim
from haulout.core.logbook.account import WORKING, Account, SurfaceLogbook
from haulout.core.logbook.wire import Outcome
from haulout.surfaces.nodemaintenance.sets.wire import asking_set
from haulout.surfaces.nodemaintenance.wire import FAILED, SUCCEEDED, MaintenanceRow


def _account(view: View, claim: Claim) -> Account | None:
    row = view.get(claim.owner, MaintenanceRow)
    # A drain taint without a NodeMaintenance is claimed for the Node. That is what is left of a maintenance, not a new one.
    if row is None:
        return None
    asker = asking_set(row, view)
    if asker is None:
        return Account(asked_at=row.created_at, reason=row.reason)
    # The operator has made the NodeMaintenance. The person who made the set has asked, for the reason of the set.
    return Account(asked_at=row.created_at, reason=asker.spec.reason, asker=asker.key)


def _outcome(view: View, owner: Key, node: Key, part: str) -> Outcome | None:
    row = view.get(owner, MaintenanceRow)
    if row is None:
        return None
    return {SUCCEEDED: Outcome.COMPLETED, FAILED: Outcome.FAILED}.get(row.status.phase, Outcome.CANCELLED)


def _error(view: View, owner: Key, node: Key, part: str) -> str:
    row = view.get(owner, MaintenanceRow)
    return row.status.last_error if row is not None else ""


def _stage(view: View, owner: Key, node: Key, part: str) -> str:
    # People work on the node from then on until they delete the NodeMaintenance.
    row = view.get(owner, MaintenanceRow)
    return WORKING if row is not None and row.status.phase == SUCCEEDED else ""


LOGBOOK = SurfaceLogbook(_account, _outcome, error=_error, stage=_stage)
