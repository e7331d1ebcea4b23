"""The alert gate: while a Prometheus query returns rows, no planned maintenance starts."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from haulout.cluster.view import FactDemand, View
from haulout.surfaces.notify.options import AlertGate

PROBE = "notify-alerts"
# How often the query is asked while a planned maintenance waits, and how old an answer may be when one starts.
PACE_FOR, ANSWER_FOR = timedelta(seconds=2), timedelta(seconds=15)
FRESH = "fresh"


class AlertQuery(msgspec.Struct, frozen=True):
    """The query of an alert gate, and the Prometheus server that is asked."""

    url: str
    query: str


def is_closed(gate: AlertGate | None, view: View) -> bool:
    """Whether alerts keep planned maintenances from starting.

    Without an answer the gate is closed, unless it fails open.
    """
    if gate is None:
        return False
    fact = view.fact(FactDemand(PROBE, AlertQuery(gate.url, gate.query), PACE_FOR, ANSWER_FOR))
    return bool(fact.value) if fact.state == FRESH else not gate.fail_open
