"""The alert gate: while a Prometheus query returns rows, no planned maintenance starts."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from haulout.cluster.view import FactDemand, View
from haulout.surfaces.notify.options import AlertGate

PROBE = "notify-alerts"
# So old is the answer at most by which a maintenance starts. It is asked for only while one waits that is planned.
PACE_FOR = timedelta(seconds=5)
FRESH = "fresh"


class AlertQuery(msgspec.Struct, frozen=True):
    """What is asked, and of whom."""

    url: str
    query: str


def is_closed(gate: AlertGate | None, view: View) -> bool:
    """Whether alerts keep planned maintenances from starting. No answer closes the gate too, unless it fails open."""
    if gate is None:
        return False
    fact = view.fact(FactDemand(PROBE, AlertQuery(gate.url, gate.query), PACE_FOR))
    return bool(fact.value) if fact.state == FRESH else not gate.fail_open
