"""The conditions of a NotifyMaintenance that other tools understand (`core/kstatus.py`)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.core.action import Patch
from haulout.core.decision import Decision
from haulout.core.kstatus import Course, riding, with_course
from haulout.surfaces.notify.notice.status import condition_of, patch
from haulout.surfaces.notify.wire import INCOMPLETE, VALIDATING, VALIDATION, NoticeRow, Status


def with_conditions(decision: Decision, row: NoticeRow, now: datetime) -> Decision:
    """Return the decision with these conditions in the patches of the status."""

    def rewritten(becomes: NoticeRow | None) -> tuple[Patch, ...]:
        return patch(row, _said(becomes.status if becomes is not None else row.status, row.generation, now))

    is_due = row.status.observed_generation not in (0, row.generation)
    return riding(decision, row.key, rewritten, is_due=is_due)


def _said(status: Status, generation: int, now: datetime) -> Status:
    state, validated = status.maintenance_status, status.condition(condition_of(VALIDATION))
    course, reason = Course.GOING_ON, state or "Pending"
    if state == INCOMPLETE:
        course = Course.FAILED
    elif state == VALIDATING and validated is not None and validated.status == "complete":
        course, reason = Course.DONE, "Validated"
    conditions = with_course(status.conditions, course, reason, "", generation, now)
    # The definition of the original has no such member in a condition.
    plain = tuple(msgspec.structs.replace(each, observed_generation=None) for each in conditions)
    return msgspec.structs.replace(status, conditions=plain, observed_generation=generation)
