"""Surfaces that act only while the Lease of their original is held, too: never do both work on the same objects."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG, View
from haulout.core.decision import Decider, Decision
from haulout.core.reason import Reason


def leased(decider: Decider, surface: str, lease: str) -> Decider:
    """Return a decider that makes the same decisions, but acts on none while the surface's Lease is not held.

    Claims that have begun stay: what stands in the world counts, whether or not this process may go on with it.
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
    """Return the row that says whether the Lease of the surface's original is held."""
    return Value(key=Key("", CONFIG, "", _name(surface)), value=held)


def _name(surface: str) -> str:
    return f"{surface}-lease"
