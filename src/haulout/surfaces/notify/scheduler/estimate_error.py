"""The error of the scheduler's drain estimates, measured when a node is drained."""

from __future__ import annotations

import re

from haulout.base.duration import DurationError, parse
from haulout.core.action import Measure
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import STARTED

CONDITION, SELECTED = "schedulerDecision", "selected"
ERROR = "nm_scheduler_estimate_error_seconds"
_ESTIMATE = re.compile(r"drain=(\S+)")


def estimate_error(situation: NoticeSituation) -> tuple[Measure, ...]:
    """Return the time from the estimated end of the drain until now, negative if the drain was faster.

    A maintenance that a person started has no estimate of that moment, and is not measured.
    """
    stood, started_at = situation.status.condition(CONDITION), situation.status.entered_at(STARTED)
    if stood is None or stood.status != SELECTED or started_at is None:
        return ()
    found = _ESTIMATE.search(stood.message)
    try:
        ends_at = started_at + parse(found[1]) if found else None
    except (DurationError, OverflowError):
        return ()
    return (Measure(ERROR, since=ends_at, signed=True),) if ends_at is not None else ()
