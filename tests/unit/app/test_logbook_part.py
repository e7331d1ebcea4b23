"""The logbook as a part of the process: what it reports, and how it hands out expired records."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from haulout.app.logbook import RECORDED, REFUSED, UNRECORDED, Logbook
from haulout.app.parts import Surroundings
from haulout.app.troubles import TroubleEvent, Troubles
from haulout.base.clock import SystemClock
from haulout.cluster.store import Listing, Store
from haulout.core.logbook.decisions import logbook_of
from haulout.core.logbook.notes import RefusedNote, note_key
from haulout.core.logbook.wire import KIND
from haulout.runtime.metrics import Metrics
from haulout.settings.settings import Settings
from tests.build.clock import ManualClock


def reported(why: str) -> list[TroubleEvent]:
    """Return what is reported while records cannot be read."""
    told: list[TroubleEvent] = []
    troubles = Troubles(SystemClock())
    troubles._tell = lambda what, statement: told.append(statement)  # type: ignore[method-assign]
    around = Surroundings(Settings(), Store(), Metrics(), SystemClock(), lambda: None, troubles=troubles)
    part = Logbook(around, logbook_of(()))
    around.store.set_listing("", KIND, Listing.UNREADABLE, why)
    part.look()
    part.look()
    return told


def test_records_that_may_not_be_read_are_reported_once() -> None:
    [event] = reported("maintenancerecords is forbidden")
    assert event.reason == UNRECORDED
    assert "forbidden" in event.note


def test_what_lasts_is_reported_again_before_its_event_is_forgotten() -> None:
    told: list[TroubleEvent] = []
    clock = ManualClock(datetime(2026, 3, 1, tzinfo=UTC))
    troubles = Troubles(clock)
    troubles._tell = lambda what, statement: told.append(statement)  # type: ignore[method-assign]
    around = Surroundings(Settings(), Store(), Metrics(), clock, lambda: None, troubles=troubles)
    part = Logbook(around, logbook_of(()))
    around.store.set_listing("", KIND, Listing.UNREADABLE, "maintenancerecords is forbidden")
    for _ in range(60):
        part.look()
        clock.move_to(clock.now() + timedelta(minutes=1))
    assert [each.reason for each in told] == [UNRECORDED] * 2


def test_a_missing_definition_is_no_event() -> None:
    assert reported("maintenancerecords are not served") == []


def test_records_that_are_refused_are_reported_once_and_so_is_their_end() -> None:
    told: list[TroubleEvent] = []
    troubles = Troubles(SystemClock())
    troubles._tell = lambda what, statement: told.append(statement)  # type: ignore[method-assign]
    around = Surroundings(Settings(), Store(), Metrics(), SystemClock(), lambda: None, troubles=troubles)
    part = Logbook(around, logbook_of(()))
    note = RefusedNote(key=note_key("refused", "a"), why="quota exceeded")
    around.store.write(note)
    part.look()
    part.look()
    around.store.erase(note.key)
    part.look()
    assert [each.reason for each in told] == [REFUSED, RECORDED]
    assert "MaintenanceRecords are refused" in told[0].note
    assert "quota exceeded" in told[0].note
