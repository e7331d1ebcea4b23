"""What happens when another holder has the lease of a node, or when the API server refuses the lease."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core.action import (
    Create,
    Measure,
    Refusal,
    Step,
)
from haulout.core.decision import Decision, earliest
from haulout.core.reason import Reason
from haulout.surfaces.nodemaintenance import lease as leases
from haulout.surfaces.nodemaintenance.claims import claims_of, with_status
from haulout.surfaces.nodemaintenance.counts import has_drain_taint
from haulout.surfaces.nodemaintenance.situation import (
    Situation,
    pending,
    phase_at_work,
)
from haulout.surfaces.nodemaintenance.status import (
    failed_with,
    patch,
    with_condition,
)
from haulout.surfaces.nodemaintenance.wire import (
    Status,
)

replace = msgspec.structs.replace

# The next lease error is counted this long after the last one at the earliest. Stored times have whole seconds.
LEASE_RETRY_FOR = timedelta(seconds=3)
LEASE_ERROR = Measure("nodemaintenance_lease_errors_total")


def held_by_another(situation: Situation) -> Decision:
    lease, status, now = situation.lease, situation.status, situation.now
    assert lease is not None
    assert situation.node is not None
    why = leases.held_by_another(lease)
    runs_out_at = leases.expires_at(lease)
    reason = Reason("lease-held", situation.key, why, until=runs_out_at)
    without_lease = with_condition(
        pending(situation, phase_at_work(status)), "LeaseHeld", False, "HeldByAnother", why, now
    )
    if not has_drain_taint(situation.node):
        text = (
            f"failed to obtain a lease that is not owned by us : {why} errorOnLeaseCount {status.error_on_lease_count}"
        )
        waits = with_status(situation, failed_with(without_lease, text, now), until=runs_out_at)
        return replace(waits, reasons=(reason,))
    again_at = _again_at(status)
    if again_at is not None and now < again_at:
        return Decision(
            until=earliest(again_at, runs_out_at), reasons=(reason,), claims=claims_of(situation, drained=False)
        )
    count = status.error_on_lease_count + 1
    text = (
        "failed to extend a lease that used to be owned by us, incrementing error on lease count: "
        f"{why}, errorOnLeaseCount: {count}"
    )
    failed = replace(failed_with(without_lease, text, now), error_on_lease_count=count)
    return Decision(
        actions=((*patch(situation.row, failed), LEASE_ERROR),),
        until=runs_out_at,
        reasons=(reason,),
        claims=claims_of(situation, drained=False),
    )


def _again_at(status: Status) -> datetime | None:
    """Return when the next lease error may be counted: the first at once, later ones a while after the last."""
    if not status.error_on_lease_count or status.last_update is None:
        return None
    return status.last_update + LEASE_RETRY_FOR


def _lease_refusal(situation: Situation) -> Refusal | None:
    outcome = situation.view.outcome(leases.outcome_name(situation.row.node, situation.lease))
    return outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None


def _namespace_refusal(situation: Situation) -> Refusal | None:
    outcome = situation.view.outcome(leases.namespace_outcome(situation.row.node))
    return outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None


def counted_refusal(situation: Situation) -> Decision | None:
    """Count a refused lease request as an error, unless another client was faster or the namespace is missing."""
    refusal = _lease_refusal(situation)
    if refusal is None or refusal.code == 409:
        return None
    if refusal.code == 404 and _namespace_refusal(situation) is None:
        return None
    status, now = situation.status, situation.now
    written = status.last_update
    if written is not None and refusal.at <= written + timedelta(seconds=1):
        again_at = written + LEASE_RETRY_FOR
        if now < again_at:
            # A maintenance that has not begun claims nothing until then, because an unused grant would be taken back.
            begun = tuple(claim for claim in claims_of(situation, drained=False) if claim.begun)
            return Decision(until=again_at, claims=begun)
        return None
    count = status.error_on_lease_count + 1
    failed = failed_with(pending(situation, phase_at_work(status)), refusal.message, now)
    failed = replace(failed, error_on_lease_count=count)
    return Decision(actions=((*patch(situation.row, failed), LEASE_ERROR),), claims=claims_of(situation, drained=False))


def lease_steps(situation: Situation, node: NodeRow) -> tuple[Step, ...]:
    """Return the steps that request the lease. If its namespace is missing, that is created first."""
    request = leases.request(situation.lease, node, situation.options, situation.row.seen, situation.now)
    missing = _lease_refusal(situation)
    if missing is None or missing.code != 404 or situation.lease is not None:
        return ((request,),)
    made = _namespace_refusal(situation)
    if made is not None and made.at >= missing.at:
        return ((request,),)
    name = situation.options.lease_namespace
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return ((Create(Key("", "Namespace", "", name), body, leases.namespace_outcome(situation.row.node)),), (request,))
