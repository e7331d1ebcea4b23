"""The conditions of a NodeMaintenance that other tools understand (`core/kstatus.py`)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.base.bounds import text
from haulout.core.action import Patch
from haulout.core.decision import Decision
from haulout.core.kstatus import Course, riding, with_course
from haulout.surfaces.nodemaintenance.status import patch
from haulout.surfaces.nodemaintenance.wire import FAILED, LONGEST_MESSAGE, SUCCEEDED, MaintenanceRow, Status

_COURSES = {SUCCEEDED: Course.DONE, FAILED: Course.FAILED}


def with_conditions(decision: Decision, row: MaintenanceRow, now: datetime) -> Decision:
    """Return the decision with these conditions in the patches of the status."""

    def rewritten(becomes: MaintenanceRow | None) -> tuple[Patch, ...]:
        return patch(row, _said(becomes.status if becomes is not None else row.status, row.generation, now))

    is_due = row.status.observed_generation not in (0, row.generation)
    return riding(decision, row.key, rewritten, is_due=is_due)


def _said(status: Status, generation: int, now: datetime) -> Status:
    course, message = _COURSES.get(status.phase, Course.GOING_ON), text(status.last_error, LONGEST_MESSAGE)
    conditions = with_course(status.conditions, course, status.phase or "Pending", message, generation, now)
    return msgspec.structs.replace(status, conditions=conditions, observed_generation=generation)
