"""Expired records are deleted under their UIDs, each in a step of its own."""

from __future__ import annotations

from datetime import UTC, datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import CONFIG, FactDemand, View
from haulout.core.action import Delete
from haulout.core.logbook.options import NAME, LogbookOptions
from haulout.core.logbook.retention import ANSWER_FOR, PACE_FOR, PROBE, Expired, decide
from haulout.core.logbook.wire import KIND

NOW = datetime(2026, 3, 1, tzinfo=UTC)
SUBJECT = Key("", CONFIG, "", NAME)
DEMAND = FactDemand(PROBE, LogbookOptions(), PACE_FOR, ANSWER_FOR)


def store(*found: Expired, state: str = "fresh", listing: Listing = Listing.LISTED) -> Store:
    made = Store()
    made.set_listing("", KIND, listing)
    made.write(Value(key=SUBJECT, value=LogbookOptions()))
    made.write(Value(key=DEMAND.key, value=found, state=state))
    return made


def test_expired_records_are_deleted_one_after_the_other() -> None:
    decision = decide(SUBJECT, View(store(Expired("a", "u1"), Expired("b", "u2"))), NOW)
    assert decision.actions == (
        (Delete(Key("", KIND, "", "a"), "u1"),),
        (Delete(Key("", KIND, "", "b"), "u2"),),
    )


def test_nothing_is_deleted_on_an_old_list_or_without_a_logbook() -> None:
    for made in (store(Expired("a", "u"), state="stale"), store(Expired("a", "u"), listing=Listing.UNREADABLE)):
        assert decide(SUBJECT, View(made), NOW).actions == ()


def test_other_settings_are_not_its_own() -> None:
    assert decide(Key("", CONFIG, "", "profiles"), View(store(Expired("a", "u"))), NOW).actions == ()
