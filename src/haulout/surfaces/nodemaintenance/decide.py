"""The decision about one NodeMaintenance: from itself, its node, its lease and its pods to the next steps."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.rows import LeaseRow, NodeRow, PodRow, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import MARK, View
from haulout.core import cordon
from haulout.core.action import (
    Cordon,
    Create,
    Edit,
    Finalize,
    Label,
    Measure,
    Patch,
    Refusal,
    SetTaint,
    Step,
)
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.drain.options import DrainRow
from haulout.core.drain.preview import foresee
from haulout.core.drain.progress import Progress, conclude, conclusion, drain_reasons, progress
from haulout.core.holds import Claim, is_kept_by_others
from haulout.core.reason import Reason
from haulout.core.refusals import refused
from haulout.surfaces.nodemaintenance import lease as leases
from haulout.surfaces.nodemaintenance import node_conditions, refusals
from haulout.surfaces.nodemaintenance.claims import claims_of, not_granted, with_status
from haulout.surfaces.nodemaintenance.counts import active_mark, has_drain_taint
from haulout.surfaces.nodemaintenance.drain_log import leaving
from haulout.surfaces.nodemaintenance.drain_status import drain_status, without_pods
from haulout.surfaces.nodemaintenance.lease import Holder
from haulout.surfaces.nodemaintenance.options import DrainWish, Options, wish
from haulout.surfaces.nodemaintenance.release import stop_steps
from haulout.surfaces.nodemaintenance.situation import (
    FAILED_EVENT,
    MOST_LEASE_ERRORS,
    SURFACE,
    Situation,
    drain_of,
    event,
    is_expired,
    pending,
    resumed,
)
from haulout.surfaces.nodemaintenance.status import (
    blocked_pods,
    failed_with,
    is_cordoned,
    let_go,
    patch,
    second,
    with_condition,
    with_errors,
    with_pods,
)
from haulout.surfaces.nodemaintenance.wire import (
    DRAIN_TAINT,
    EXCLUDE_LABEL,
    FAILED,
    FINALIZER,
    MAINTENANCES_OF_NODE,
    RUNNING,
    SUCCEEDED,
    UNSCHEDULABLE_TAINT,
    MaintenanceRow,
    Status,
)

# What is counted against a maintenance is tried again no sooner; the stored time knows only whole seconds.
LEASE_RETRY_FOR = timedelta(seconds=3)

NAMELESS = "invalid nodeName, no node with name  found"
LEASE_ERROR = Measure("nodemaintenance_lease_errors_total")

replace = msgspec.structs.replace


def decide(key: Key, view: View, now: datetime) -> Decision:
    row = view.get(key, MaintenanceRow)
    setting = view.config(SURFACE)
    if row is None or setting is None:
        return NOTHING
    options = setting.value
    assert isinstance(options, Options)
    if row.deleting_at is not None and FINALIZER not in row.finalizers:
        return NOTHING
    if not row.node:
        return _refused(Situation(row, view, now, options, None, None), NAMELESS)
    older = [other for other in view.rows(MAINTENANCES_OF_NODE, row.node, MaintenanceRow) if _age(other) < _age(row)]
    if older:
        return _refused(Situation(row, view, now, options, None, None), _taken(row))
    node = view.node(row.node)
    lease = view.get(leases.lease_key(row.node, options), LeaseRow)
    situation = Situation(row, view, now, options, node, lease)
    if row.deleting_at is not None:
        return _ending(situation)
    if FINALIZER not in row.finalizers:
        return _beginning(situation)
    if not row.status.phase or row.status.last_error == _taken(row):
        return _initial(situation)
    if node is None:
        return _without_node(situation)
    wanted = wish(row.drain, options)
    if wanted.dry_run:
        return _preview(situation, wanted)
    return _going_on(situation, node, wanted)


def _taken(row: MaintenanceRow) -> str:
    return f"invalid nodeName, a NodeMaintenance for node {row.node} already exists"


def _age(row: MaintenanceRow) -> tuple[datetime, str]:
    assert row.created_at is not None
    return row.created_at, row.key.name


def _beginning(situation: Situation) -> Decision:
    name = refusals.outcome_name("begin", situation.key)
    begun = event(situation.key, "BeginMaintenance", "Begin a node maintenance")
    refusal = refused(situation.view, name)
    statements = _reported(situation, refusal.message) if refusal is not None else ()
    step = (Finalize(situation.key, FINALIZER, present=True, outcome=name), begun)
    return Decision(actions=(*statements, step), claims=claims_of(situation, drained=False))


def _reported(situation: Situation, error: str) -> tuple[Step, ...]:
    """Write what went wrong where the status does not say so yet, before it is tried again."""
    return with_status(situation, failed_with(pending(situation), error, situation.now)).actions


# Refused, or over


def _refused(situation: Situation, text: str) -> Decision:
    """Refuse the maintenance: nothing of the node is touched for it, neither now nor at its end."""
    row = situation.row
    if row.deleting_at is not None:
        return Decision(actions=_finalized(situation))
    if FINALIZER not in row.finalizers:
        return _beginning(situation)
    if (row.status.phase, row.status.last_error) == (FAILED, text):
        return Decision(reasons=(Reason("refused", situation.key, text),))
    status = let_go(row.status, "Refused", situation.now) if row.status.conditions else row.status
    status = replace(failed_with(status, text, situation.now), phase=FAILED)
    return Decision(actions=((*patch(row, status), event(situation.key, *FAILED_EVENT, warning=True)),))


def _finalized(situation: Situation) -> tuple[Step, ...]:
    name = refusals.outcome_name("finalize", situation.key)
    removed = event(situation.key, "RemovedMaintenance", "Removed a node maintenance")
    refusal = refused(situation.view, name)
    statements = _reported(situation, refusal.message) if refusal is not None else ()
    return (*statements, (Finalize(situation.key, FINALIZER, present=False, outcome=name), removed))


def _ending(situation: Situation) -> Decision:
    begun = situation.node is not None and (has_drain_taint(situation.node) or is_cordoned(situation.status))
    if situation.row.drain.dry_run and not begun:
        # A preview has touched nothing, so that there is nothing to undo; but it may have become one later.
        return Decision(actions=_finalized(situation))
    steps = (*_stopping(situation, "end"), *_finalized(situation))
    return Decision(actions=steps, claims=claims_of(situation, drained=False))


def _stopping(situation: Situation, act: str, prefix: str = "") -> tuple[Step, ...]:
    """Let the node go. Where the server has refused that, the status says so."""
    name = refusals.outcome_name(act, situation.key)
    steps = stop_steps(situation.row, situation.node, situation.lease, situation.options, _others(situation))
    left = tuple(refusals.with_outcome(step, name) for step in steps if step)
    refusal = refused(situation.view, name) if left else None
    statements = _reported(situation, f"{prefix}{refusals.ending(left[0], refusal)}") if refusal is not None else ()
    return (*statements, *left)


def _others(situation: Situation) -> bool:
    """Whether another surface wants the node to stay cordoned."""
    if situation.options.alone:
        return False
    return is_kept_by_others(situation.view, situation.node_key, SURFACE)


def _initial(situation: Situation) -> Decision:
    view, now, name = situation.view, situation.now, situation.row.node
    if view.listing("Pod") is Listing.UNREADABLE:
        text = "failed to get pods for eviction while initializing status"
        return with_status(situation, failed_with(situation.status, text, now))
    selection = progress(view, drain_of(situation, wish(situation.row.drain, situation.options)), now).selection
    awaited = selection.awaited
    counted = replace(
        situation.status,
        phase=RUNNING,
        last_update=second(now),
        last_error="",
        eviction_pods=len(awaited),
        total_pods=len(view.rows(PODS_OF_NODE, name, PodRow)),
    )
    status = replace(with_pods(counted, awaited), drain_progress=0)
    return Decision(actions=(patch(situation.row, status),), claims=claims_of(situation, drained=False))


def _without_node(situation: Situation) -> Decision:
    text = f'nodes "{situation.row.node}" not found'
    status = replace(failed_with(situation.status, text, situation.now), phase=FAILED)
    status = let_go(status, "NodeNotFound", situation.now) if status.conditions else status
    return with_status(situation, status, event(situation.key, *FAILED_EVENT, warning=True))


def _preview(situation: Situation, wanted: DrainWish) -> Decision:
    """Show what a drain would have to do; nothing is done."""
    if wanted.problem:
        return with_status(situation, failed_with(situation.status, wanted.problem, situation.now))
    state = foresee(situation.view, progress(situation.view, drain_of(situation, wanted), situation.now), situation.now)
    pods = [each.pod for each in state.pods]
    status = with_pods(replace(situation.status, eviction_pods=len(pods), phase=RUNNING), pods)
    status = replace(status, last_error=state.errors, drain_progress=0)
    status = replace(status, blocked_pods=blocked_pods(state, situation.status.blocked_pods))
    return with_status(situation, status, until=state.changes_at)


# Going on


def _going_on(situation: Situation, node: NodeRow, wanted: DrainWish) -> Decision:
    owners = _owners(situation.row, node)
    if owners is None:
        return _held(situation, node, wanted)
    name = refusals.outcome_name("owner", situation.key)
    step = (Patch(situation.key, {"metadata": {"ownerReferences": owners}}, outcome=name),)
    if refused(situation.view, name) is None:
        return Decision(actions=(step,), claims=claims_of(situation, drained=False))
    # The original does without: where its own webhook is down, this must not be what a maintenance waits for.
    decision = _held(situation, node, wanted)
    return replace(decision, actions=(*decision.actions, step))


def _held(situation: Situation, node: NodeRow, wanted: DrainWish) -> Decision:
    """Hold the node as far as the lease allows."""
    row, now = situation.row, situation.now
    if row.status.error_on_lease_count > MOST_LEASE_ERRORS:
        return _lost_for_good(situation)
    held = leases.holder(situation.lease, now)
    if held is Holder.ANOTHER:
        return _held_by_another(situation)
    # Not asked of one that is as it should be, so that what was refused before it was had is forgotten.
    due = situation.lease is None or leases.is_due(situation.lease, node, situation.options, row.seen, now)
    counted = _lease_failed(situation) if due else None
    if counted is not None:
        return counted
    return _maintain(situation, node, wanted)


def _owners(row: MaintenanceRow, node: NodeRow) -> list[dict[str, object]] | None:
    """Return the owner references with the node added. Those of a former node of the same name go."""
    ours = [
        owner for owner in row.owners if (owner.api_version, owner.kind, owner.name) == ("v1", "Node", node.key.name)
    ]
    if any(owner.uid == node.uid for owner in ours):
        return None
    kept = [msgspec.to_builtins(owner) for owner in row.owners if owner not in ours]
    kept = [{name: value for name, value in owner.items() if value is not None} for owner in kept]
    reference = {"apiVersion": "v1", "kind": "Node", "name": node.key.name, "uid": node.uid}
    return [*kept, {**reference, "controller": False, "blockOwnerDeletion": False}]


def _lost_for_good(situation: Situation) -> Decision:
    """Let the node go once; after that nothing is done until the maintenance is deleted."""
    status, row = situation.status, situation.row
    if status.phase == FAILED:
        return Decision(reasons=(Reason("lease-lost", row.key, status.last_error),))
    count = status.error_on_lease_count
    text = f"maintenance failed: lease could not be extended after {count} attempts"
    over = replace(failed_with(let_go(status, "LeaseLost", situation.now), text, situation.now), phase=FAILED)
    failed = event(row.key, *FAILED_EVENT, warning=True)
    stopped = _stopping(situation, "lost", "failed to uncordon upon failure to obtain owned lease: ")
    return Decision(actions=(*stopped, (*patch(row, over), failed)), claims=claims_of(situation, drained=False))


def _held_by_another(situation: Situation) -> Decision:
    lease, status, now = situation.lease, situation.status, situation.now
    assert lease is not None
    assert situation.node is not None
    why = leases.held_by_another(lease)
    runs_out_at = leases.expires_at(lease)
    reason = Reason("lease-held", situation.key, why, until=runs_out_at)
    without_lease = with_condition(pending(situation, resumed(status)), "LeaseHeld", False, "HeldByAnother", why, now)
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
    """Return when the next error is counted: the first at once, the next ones a while after the last was written."""
    if not status.error_on_lease_count or status.last_update is None:
        return None
    return status.last_update + LEASE_RETRY_FOR


def _lease_refusal(situation: Situation) -> Refusal | None:
    outcome = situation.view.outcome(leases.outcome_name(situation.row.node, situation.lease))
    return outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None


def _namespace_refusal(situation: Situation) -> Refusal | None:
    outcome = situation.view.outcome(leases.namespace_outcome(situation.row.node))
    return outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None


def _lease_failed(situation: Situation) -> Decision | None:
    """Count a refused lease, unless another client was quicker or the namespace is missing."""
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
            # What has not begun claims nothing meanwhile: a grant that is not used is taken back.
            begun = tuple(claim for claim in claims_of(situation, drained=False) if claim.begun)
            return Decision(until=again_at, claims=begun)
        return None
    count = status.error_on_lease_count + 1
    failed = failed_with(pending(situation, resumed(status)), refusal.message, now)
    failed = replace(failed, error_on_lease_count=count)
    return Decision(actions=((*patch(situation.row, failed), LEASE_ERROR),), claims=claims_of(situation, drained=False))


def _maintain(situation: Situation, node: NodeRow, wanted: DrainWish) -> Decision:
    row, view, now, options = situation.row, situation.view, situation.now, situation.options
    ours = leases.holder(situation.lease, now) is Holder.OURS
    edits = _node_edits(situation, node, wanted)
    statements = _node_refused(situation, wanted, edits)
    prepared = ours and not edits
    drain = drain_of(situation, wanted)
    reopened = _reopened(situation, node)
    stands = row.status.phase == SUCCEEDED and not reopened
    state = conclude(progress(view, drain, now), drain) if stands else conclusion(view, drain, now)
    claims = claims_of(situation, drained=prepared and state.done and not wanted.problem)
    refusal = not_granted(situation, claims[:1])
    if refusal is not None:
        return replace(refusal, actions=refusal.actions or statements, claims=claims)
    renew_at = leases.renew_at(situation.lease, node, options, row.seen) if ours and situation.lease else None
    steps: list[Step] = [*statements]
    if renew_at is None or now >= renew_at:
        steps += _lease_steps(situation, node)
        renew_at = now + options.lease_duration / 3
    if edits:
        steps.append(refusals.with_outcome(edits, refusals.outcome_name("node", row.key)))
    if row.status.phase == FAILED and is_expired(situation, wanted):
        # It keeps the node, but evicts nothing more.
        reason = Reason("deadline", row.key, row.status.last_error)
        return Decision(actions=tuple(steps), claims=claims, until=renew_at, reasons=(reason,))
    if not prepared:
        return Decision(actions=tuple(steps), claims=claims, until=renew_at, marks=reopened)
    if wanted.problem:
        steps.append(without_pods(situation, wanted.problem))
        why = Reason("drain-refused", row.key, wanted.problem)
        return Decision(actions=tuple(step for step in steps if step), claims=claims, until=renew_at, reasons=(why,))
    said_of_pods, told_of = leaving(situation, wanted, state)
    status, until, waiting = drain_status(situation, wanted, state, claims)
    steps += [said_of_pods, *status]
    if options.node_conditions:
        succeeded = row.status.phase == SUCCEEDED
        steps.append(node_conditions.condition_patches(node, now, drained=state.done, succeeded=succeeded))
    return Decision(
        actions=tuple(step for step in steps if step),
        claims=claims,
        until=earliest(renew_at, until, state.changes_at),
        marks=(
            *(() if is_expired(situation, wanted) else (drain,)),
            *active_mark(row),
            *waiting,
            *told_of,
            *(() if state.done else reopened),
        ),
        reasons=_reasons(situation, drain, state, claims) if view.explaining else (),
    )


def _reopened(situation: Situation, node: NodeRow) -> tuple[Value, ...]:
    """Return a mark if the node was uncordoned after the drain had succeeded: it is to be proven empty once more."""
    if situation.status.phase != SUCCEEDED:
        return ()
    key = Key("", MARK, "nodemaintenance-reopened", situation.key.name)
    mark = situation.view.recall(key, Value)
    return (mark or Value(key=key),) if mark is not None or not node.unschedulable else ()


def _reasons(situation: Situation, drain: DrainRow, state: Progress, claims: tuple[Claim, ...]) -> tuple[Reason, ...]:
    """Return what the drain waits for; after it, the turn."""
    refusal = not_granted(situation, claims[1:]) if state.done else None
    if refusal is not None:
        return refusal.reasons
    return drain_reasons(situation.view, drain, with_errors(state, situation.status.blocked_pods), situation.now)


def _node_refused(situation: Situation, wanted: DrainWish, edits: tuple[Edit, ...]) -> tuple[Step, ...]:
    """Report what the server said to the edits: a node that cannot be held as it should be is not out of service."""
    name = refusals.outcome_name("node", situation.key)
    refusal = refused(situation.view, name) if edits else None
    if refusal is None:
        return ()
    phase = situation.status.phase if is_expired(situation, wanted) else RUNNING
    status = failed_with(pending(situation, phase), refusals.beginning(edits, refusal), situation.now)
    return with_status(situation, status).actions


def _lease_steps(situation: Situation, node: NodeRow) -> tuple[Step, ...]:
    """Return the lease request, after the namespace where that was missing and has not been tried since."""
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


def _node_edits(situation: Situation, node: NodeRow, wanted: DrainWish) -> tuple[Edit, ...]:
    """Return label, taints and cordon, as far as they are missing: one patch."""
    edits: list[Edit] = []
    if node.labels.get(EXCLUDE_LABEL) != "true":
        edits.append(Label(node.key, EXCLUDE_LABEL, "true"))
    present = {(taint.key, taint.effect) for taint in node.taints}
    ours = (DRAIN_TAINT, UNSCHEDULABLE_TAINT)
    if any((taint.key, taint.effect) not in present for taint in ours):
        # The whole list is written anew with ours in front, in their plain form.
        edits += [SetTaint(node.key, taint, present=False) for taint in ours]
        edits += [SetTaint(node.key, taint, present=True, first=True) for taint in ours]
    if wanted.restore or not situation.options.alone:
        labels = (EXCLUDE_LABEL,) if wanted.restore else ()
        edits += cordon.claim(node, SURFACE, shown=True, labels=labels, taint=True, begun=has_drain_taint(node))
    elif not node.unschedulable:
        edits.append(Cordon(node.key, unschedulable=True))
    return tuple(edits)
