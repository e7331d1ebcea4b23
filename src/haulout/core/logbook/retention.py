"""The decision that removes old records, a few at a time (decision 0177)."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.store import Listing
from haulout.cluster.view import FactDemand, View
from haulout.core.action import Delete
from haulout.core.decision import NOTHING, Decision
from haulout.core.logbook.options import NAME, LogbookOptions
from haulout.core.logbook.wire import KIND

PROBE = "expired-records"
# So many records are removed in each pace: 10,000 that expire at once are gone after 84 minutes.
AT_ONCE = 20
PACE_FOR = timedelta(seconds=10)
# A list of all records takes some time where there are many.
ANSWER_FOR = timedelta(minutes=2)


class Expired(msgspec.Struct, frozen=True):
    """A closed record that is to be removed."""

    name: str
    uid: str


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Remove the records that a probe has found to be expired."""
    if key.name != NAME:
        return NOTHING
    setting = view.config(NAME)
    if setting is None or not isinstance(setting.value, LogbookOptions) or view.listing(KIND) is not Listing.LISTED:
        return NOTHING
    fact = view.fact(FactDemand(PROBE, setting.value, PACE_FOR, ANSWER_FOR))
    found = fact.value if isinstance(fact.value, tuple) and fact.state == "fresh" else ()
    expired = [each for each in found if isinstance(each, Expired)]
    # Each is a step of its own: one write is under way at a time.
    return Decision(actions=tuple((Delete(Key("", KIND, "", each.name), each.uid),) for each in expired))
