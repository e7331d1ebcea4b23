"""Surfaces that act only while they hold the Lease of their original, so that only one of the two works at a time."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG, View
from haulout.core.decision import Decider, Decision
from haulout.core.reason import Reason


class LeaseState(msgspec.Struct, frozen=True):
    """Whether this process holds the Lease of a surface's original; the namespace that keeps it from that, if any."""

    is_held: bool = False
    missing_namespace: str = ""


def under_lease(decider: Decider, surface: str, lease: str) -> Decider:
    """Return a decider with the same decisions that does nothing while this process does not hold the surface's Lease.

    Claims that have begun stay: the node is out of service, whether or not this process may go on with it.
    """

    def decide(key: Key, view: View, now: datetime) -> Decision:
        decision = decider.decide(key, view, now)
        row = view.config(_name(surface))
        state = row.value if row is not None and isinstance(row.value, LeaseState) else LeaseState()
        if state.is_held:
            return decision
        text = f"the Lease {lease} of its original is not held"
        return Decision(
            claims=tuple(claim for claim in decision.claims if claim.begun),
            until=decision.until,
            sources=decision.sources,
            reasons=(Reason("lease-not-held", key, text, because=_causes(key, surface, state)),),
        )

    return msgspec.structs.replace(decider, decide=decide)


def lease_row(surface: str, *, held: bool, missing_namespace: str = "") -> Value:
    """Return the configuration row that says whether this process holds the Lease of the surface's original.

    `missing_namespace`: the namespace of the Lease, if it is known that it does not exist.
    """
    return Value(key=Key("", CONFIG, "", _name(surface)), value=LeaseState(held, missing_namespace))


def _causes(key: Key, surface: str, state: LeaseState) -> tuple[Reason, ...]:
    if not (missing := state.missing_namespace):
        return ()
    act = f"create the namespace {missing}, or name that of the original in surfaces.{surface}.lease.namespace"
    return (Reason("lease-namespace-missing", key, f"the namespace {missing} of the Lease does not exist", act=act),)


def _name(surface: str) -> str:
    return f"{surface}-lease"
