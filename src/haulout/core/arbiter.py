"""The arbiter: from the holds on one node, limits and the clock to grants.

Asked per node; what spans nodes is a room. Deterministic: priority, then age, then name. Every hold that waits gets
its reason.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import Row
from haulout.cluster.store import Listing, Store, reservations
from haulout.cluster.view import View, holds_table
from haulout.core.decision import Decider, Decision, earliest
from haulout.core.holds import HOLDS_OF_NODE, Blocked, Grant, Hold, Rank, Want, grant_key
from haulout.core.reason import Reason

PHASE = 1


class Rules(msgspec.Struct, frozen=True):
    """`turns`: one surface at a time may work on a node (off where a single original's behaviour is wanted)."""

    surfaces: tuple[str, ...]
    turns: bool = True


def arbiter(rules: Rules) -> Decider:
    def decide(key: Key, view: View, now: datetime) -> Decision:
        return arbitrate(rules, key, view, now)

    return Decider(name="arbiter", kind="Node", decide=decide, phase=PHASE, cluster=None, rank=best_rank)


def best_rank(key: Key, store: Store) -> Rank:
    """Of those who wait: what stands already must not carry others past older ones."""
    holds = [row for row in store.bucket(HOLDS_OF_NODE, key.cluster, key) if isinstance(row, Hold)]
    return min((hold.rank for hold in holds if not hold.claim.begun and not _stands(hold, store)), default=Rank())


def _stands(hold: Hold, store: Store) -> bool:
    grant = store.row(grant_key(hold.key))
    return isinstance(grant, Grant) and grant.granted


def arbitrate(rules: Rules, node: Key, view: View, now: datetime) -> Decision:
    for surface in rules.surfaces:
        # A surface whose objects cannot be read claims nothing that we could know of; the others go on.
        if view.listing(holds_table(surface), node.cluster) is Listing.WAITING:
            view.require(holds_table(surface), node.cluster)
    rows = view.rows(HOLDS_OF_NODE, node, Row, node.cluster)
    holds = sorted((row for row in rows if isinstance(row, Hold)), key=lambda hold: (not hold.claim.begun, hold.rank))
    blocked = [row.surface for row in rows if isinstance(row, Blocked)]
    turn = _turn(rules, holds, view, now)
    grants: list[Grant] = []
    until: datetime | None = None
    for hold in holds:
        refusals = _refusals(rules, hold, view, now, turn, blocked)
        grants.append(_answer(hold, refusals))
        until = earliest(until, *(reason.until for reason in refusals))
        if not refusals and turn is None and Want.EXCLUSIVE in hold.claim.wants:
            turn = hold.surface
    return Decision(grants=tuple(grants), until=until)


def _turn(rules: Rules, holds: list[Hold], view: View, now: datetime) -> str | None:
    """The surface that works on the node: one that has begun, else one that has been told that it may."""
    if not rules.turns:
        return None
    workers = [hold for hold in holds if Want.EXCLUSIVE in hold.claim.wants]
    begun = [hold for hold in workers if hold.claim.begun]
    return next((hold.surface for hold in (*begun, *(hold for hold in workers if _granted(hold, view, now)))), None)


def _granted(hold: Hold, view: View, now: datetime) -> bool:
    """Granted earlier, and neither used up nor refused since."""
    earlier = view.recall(grant_key(hold.key), Grant)
    passed_on = hold.declined or (hold.paused_until is not None and hold.paused_until > now)
    return earlier is not None and earlier.granted and not passed_on


def _refusals(
    rules: Rules, hold: Hold, view: View, now: datetime, turn: str | None, blocked: list[str]
) -> tuple[Reason, ...]:
    claim = hold.claim
    if claim.begun or _granted(hold, view, now):
        return ()
    if hold.paused_until is not None and hold.paused_until > now:
        return (Reason("backing-off", claim.owner, "its last attempt was refused", until=hold.paused_until),)
    if hold.declined:
        return (Reason("not-used", claim.owner, "it was let, and did nothing"),)
    if blocked:
        return tuple(Reason("claims-unknown", claim.node, f"what {name} claims is not known") for name in blocked)
    if rules.turns and Want.EXCLUSIVE in claim.wants and turn not in (None, hold.surface):
        return (Reason("turn-taken", claim.node, f"{turn} is working on the node"),)
    full = view.fits(claim.limits) if claim.limits else ()
    return tuple(_no_room(claim.node, limit) for limit in full)


def _no_room(node: Key, limit: Limit) -> Reason:
    return Reason("no-room", node, f"{limit.count.describe(limit.group)}: no more than {limit.most} at a time")


def _answer(hold: Hold, refusals: tuple[Reason, ...]) -> Grant:
    claim = hold.claim
    granted = not refusals
    # Once begun, the objects themselves show what is taken.
    places = tuple(reservations(claim.limits, claim.node)) if granted and not claim.begun else ()
    return Grant(key=grant_key(hold.key), hold=hold.key, granted=granted, reasons=refusals, reserves=places)
