"""The claims of a NodeMaintenance on its node, and its status while they are not granted (decision 0156)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.limits import Limit
from haulout.core.action import Tell
from haulout.core.arbiter import BACKING_OFF
from haulout.core.decision import Decision
from haulout.core.holds import Claim, Grant, Want, grant_key, hold_key, read_priority
from haulout.core.reason import Reason
from haulout.surfaces.nodemaintenance import lease as leases
from haulout.surfaces.nodemaintenance.counts import ACTIVE, has_drain_taint
from haulout.surfaces.nodemaintenance.lease import Holder
from haulout.surfaces.nodemaintenance.situation import MOST_LEASE_ERRORS, SURFACE, Situation, pending
from haulout.surfaces.nodemaintenance.status import failed_with, patch
from haulout.surfaces.nodemaintenance.wire import FAILED, RUNNING, SUCCEEDED, Status

replace = msgspec.structs.replace


def claims_of(situation: Situation, *, drained: bool) -> tuple[Claim, ...]:
    """Return the claims: cordon and drain at once, and the exclusive turn when the node is empty or has succeeded."""
    row, node = situation.row, situation.node
    if node is None or (row.status.phase == FAILED and row.status.error_on_lease_count > MOST_LEASE_ERRORS):
        return ()
    since = row.created_at or situation.now
    begun = has_drain_taint(node)
    if row.drain.dry_run and not begun:
        return ()
    if not begun and (row.deleting_at is not None or leases.holder(situation.lease, situation.now) is Holder.ANOTHER):
        return ()
    most = situation.options.max_concurrent_maintenances
    succeeded = row.status.phase == SUCCEEDED
    # The claim is what is counted: whatever a begun maintenance waits for, it keeps its place while it holds its node.
    limits = (Limit(ACTIVE, "", most),) if most and not (begun and succeeded) else ()
    # The original has no priorities.
    priority = 0 if situation.options.alone else read_priority(row.annotations) or 0
    shared = frozenset({Want.CORDON, Want.DRAIN})
    ending = row.deleting_at is not None or row.status.error_on_lease_count > MOST_LEASE_ERRORS
    claims = [Claim(node.key, row.key, shared, limits, since, priority, begun=begun, slot="drain", ending=ending)]
    if (drained or succeeded) and row.deleting_at is None:
        turn = frozenset({Want.EXCLUSIVE})
        claims.append(Claim(node.key, row.key, turn, (), since, priority, begun=succeeded, slot="work"))
    return tuple(claims)


def not_granted(situation: Situation, claims: tuple[Claim, ...]) -> Decision | None:
    """Return the decision to take while a claim is not granted; None if all are."""
    for claim in claims:
        if claim.begun:
            continue
        grant = situation.view.get(grant_key(hold_key(SURFACE, claim)), Grant)
        if grant is None:
            return Decision()
        if any(reason.code == BACKING_OFF for reason in grant.reasons):
            # The decision that tried the refused write reports it.
            return Decision(reasons=grant.reasons)
        if not grant.granted:
            why = "; ".join(reason.text for reason in grant.reasons)
            text = f"waiting for its turn on node {situation.row.node}: {why}"
            waits = Decision(claims=claims_of(situation, drained=False))
            if not claim.disrupts or (situation.status.phase, situation.status.last_error) != (RUNNING, text):
                # While it waits to begin, a status with the same text is not written again. Otherwise each pod that
                # other drains move to the node would cause a write.
                waits = with_status(situation, failed_with(pending(situation, RUNNING), text, situation.now))
            return replace(waits, reasons=(Reason("waits-for-grant", situation.key, text, because=grant.reasons),))
    return None


def with_status(situation: Situation, status: Status, *statements: Tell, until: datetime | None = None) -> Decision:
    """Return the decision that writes a status with an event, if more than the status's time changes."""
    alike = replace(status, last_update=situation.status.last_update) == situation.status
    edits = () if alike else patch(situation.row, status)
    return Decision(
        actions=((*edits, *statements),) if edits else (), until=until, claims=claims_of(situation, drained=False)
    )
