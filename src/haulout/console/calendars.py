"""The calendar: when budgets and profiles let something begin, between two instants, in the time zone of each window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

import msgspec

from haulout.base.zones import zone
from haulout.cluster.store import Store
from haulout.core.budgets.decisions import BUDGETS
from haulout.core.budgets.wire import KIND, NodeBudgetRow
from haulout.core.planned import Json, Schedule
from haulout.explain.setup import Setup
from haulout.plan.courses import Span
from haulout.plan.windows import timetables

# The longest time that is worked out for one answer.
LONGEST = timedelta(days=93)


class Opening(msgspec.Struct, frozen=True, rename={"begins_at": "from", "ends_at": "to"}):
    """A time during which something may begin. Both instants have the offset of the window's time zone on that day."""

    begins_at: datetime
    ends_at: datetime


class CalendarWindow(msgspec.Struct, frozen=True, rename="camel"):
    """The openings of one schedule. `time_zone`: that of its windows; empty if they have several, or none."""

    name: str
    time_zone: str
    open: tuple[Opening, ...]


class CalendarDocument(msgspec.Struct, frozen=True):
    """The openings of all budgets and profiles that have windows."""

    windows: tuple[CalendarWindow, ...]


def calendar_of(store: Store, setup: Setup, since: datetime, until: datetime) -> CalendarDocument:
    """Return the openings of all schedules between two instants."""
    schedules = list(_schedules(store, setup))
    tables = timetables(schedules, since, until)
    return CalendarDocument(
        tuple(
            CalendarWindow(schedule.name, schedule.zone, tuple(_openings(schedule, table.openings)))
            for schedule, table in zip(schedules, tables, strict=True)
        )
    )


def _openings(schedule: Schedule, spans: Iterable[Span]) -> Iterator[Opening]:
    there = zone(schedule.zone)
    for span in spans:
        if span.ends_at is not None:
            yield Opening(span.begins_at.astimezone(there), span.ends_at.astimezone(there))


def _schedules(store: Store, setup: Setup) -> Iterator[Schedule]:
    bodies = list(_budgets(store))
    for each in setup.enabled:
        yield from each.declaration.planned_schedules(each.options, bodies)
    if setup.together:
        yield from BUDGETS.planned_schedules(None, bodies)


def _budgets(store: Store) -> Iterator[Json]:
    for row in sorted(store.rows("", KIND), key=lambda row: row.key.name):
        if isinstance(row, NodeBudgetRow):
            yield {"kind": KIND, "metadata": {"name": row.key.name}, "spec": row.spec}
