"""Surfaces that act only while they hold the Lease of their original, so that only one of the two works at a time."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG, View
from haulout.core.decision import Decider, Decision
from haulout.core.reason import Reason


def leased(decider: Decider, surface: str, lease: str) -> Decider:
    """Return a decider with the same decisions that does nothing while this process does not hold the surface's Lease.

    Claims that have begun stay: the node is out of service, whether or not this process may go on with it.
    """

    def decide(key: Key, view: View, now: datetime) -> Decision:
        decision = decider.decide(key, view, now)
        held = view.config(_name(surface))
        if held is not None and held.value:
            return decision
        return Decision(
            claims=tuple(claim for claim in decision.claims if claim.begun),
            until=decision.until,
            sources=decision.sources,
            reasons=(Reason("lease-not-held", key, f"the Lease {lease} of its original is not held"),),
        )

    return msgspec.structs.replace(decider, decide=decide)


def lease_row(surface: str, *, held: bool) -> Value:
    """Return the configuration row that says whether this process holds the Lease of the surface's original."""
    return Value(key=Key("", CONFIG, "", _name(surface)), value=held)


def _name(surface: str) -> str:
    return f"{surface}-lease"
