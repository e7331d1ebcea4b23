"""What the logbook records of a NotifyMaintenance."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.holds import Claim
from haulout.core.logbook.account import VALIDATING as VALIDATION
from haulout.core.logbook.account import WORKING, Account, SurfaceLogbook
from haulout.core.logbook.wire import Outcome
from haulout.model.meta import wire_time
from haulout.surfaces.notify.scheduler.claims import since_of
from haulout.surfaces.notify.wire import COMPLETED_AT, INCOMPLETE, OBJECTS_DRAINED, STARTED, VALIDATING, NoticeRow


def _account(view: View, claim: Claim) -> Account | None:
    row = view.get(claim.owner, NoticeRow)
    if row is None:
        return None
    reason = " ".join(filter(None, (row.type, "maintenance", row.maintenance)))
    return Account(
        occasion=wire_time(since_of(row)),
        begun_at=row.status.entered_at(STARTED),
        asked_at=row.created_at,
        reason=reason,
    )


def _outcome(view: View, owner: Key, node: Key, part: str) -> Outcome | None:
    row = view.get(owner, NoticeRow)
    if row is None:
        return None
    if row.state == INCOMPLETE:
        return Outcome.FAILED
    if row.state == VALIDATING or COMPLETED_AT in row.annotations:
        return Outcome.COMPLETED
    return Outcome.CANCELLED


def _error(view: View, owner: Key, node: Key, part: str) -> str:
    row = view.get(owner, NoticeRow)
    return row.failure if row is not None else ""


def _stage(view: View, owner: Key, node: Key, part: str) -> str:
    row = view.get(owner, NoticeRow)
    return {OBJECTS_DRAINED: WORKING, VALIDATING: VALIDATION}.get(row.state, "") if row is not None else ""


LOGBOOK = SurfaceLogbook(_account, _outcome, error=_error, stage=_stage)
