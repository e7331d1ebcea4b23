"""Works out when schedules are open during a plan, for its chart and its JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from haulout.core.planned import Schedule
from haulout.plan.courses import Span, Timetable

# The most changes of a schedule that are shown. One that changes every minute is shown for the first days only.
MOST_CHANGES = 5000
# At the boundary itself some schedules are still closed and others open. After this time all have changed.
_MOMENT = timedelta(milliseconds=1)
OPEN = "open"


def timetables(schedules: Iterable[Schedule], begins_at: datetime, ends_at: datetime) -> tuple[Timetable, ...]:
    """Return when each schedule is open between two instants."""
    return tuple(Timetable(each.name, tuple(_openings(each, begins_at, ends_at))) for each in schedules)


def _openings(schedule: Schedule, begins_at: datetime, ends_at: datetime) -> Iterator[Span]:
    opened_at = begins_at if schedule.is_open(begins_at + _MOMENT) else None
    at = begins_at
    for _ in range(MOST_CHANGES):
        changes_at = schedule.changes_at(at + _MOMENT)
        if changes_at is None or changes_at >= ends_at:
            break
        at = changes_at
        is_open = schedule.is_open(at + _MOMENT)
        if opened_at is None and is_open:
            opened_at = at
        elif opened_at is not None and not is_open:
            yield Span(OPEN, opened_at, at)
            opened_at = None
    if opened_at is not None:
        yield Span(OPEN, opened_at, ends_at)
