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
from haulout.core.drain.preview import foreseen
from haulout.core.drain.progress import Progress, concluded, conclusion, explained, progress
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
    Given,
    drain_of,
    is_expired,
    pending,
    resumed,
    told,
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
        return _refused(Given(row, view, now, options, None, None), NAMELESS)
    older = [other for other in view.rows(MAINTENANCES_OF_NODE, row.node, MaintenanceRow) if _age(other) < _age(row)]
    if older:
        return _refused(Given(row, view, now, options, None, None), _taken(row))
    node = view.node(row.node)
    lease = view.get(leases.lease_key(row.node, options), LeaseRow)
    given = Given(row, view, now, options, node, lease)
    if row.deleting_at is not None:
        return _ending(given)
    if FINALIZER not in row.finalizers:
        return _beginning(given)
    if not row.status.phase or row.status.last_error == _taken(row):
        return _initial(given)
    if node is None:
        return _without_node(given)
    wanted = wish(row.drain, options)
    if wanted.dry_run:
        return _preview(given, wanted)
    return _going_on(given, node, wanted)


def _taken(row: MaintenanceRow) -> str:
    return f"invalid nodeName, a NodeMaintenance for node {row.node} already exists"


def _age(row: MaintenanceRow) -> tuple[datetime, str]:
    assert row.created_at is not None
    return row.created_at, row.key.name


def _beginning(given: Given) -> Decision:
    name = refusals.outcome_name("begin", given.key)
    begun = told(given.key, "BeginMaintenance", "Begin a node maintenance")
    refusal = refused(given.view, name)
    said = _shown(given, refusal.message) if refusal is not None else ()
    step = (Finalize(given.key, FINALIZER, present=True, outcome=name), begun)
    return Decision(actions=(*said, step), claims=claims_of(given, drained=False))


def _shown(given: Given, error: str) -> tuple[Step, ...]:
    """Writes what went wrong where the status does not say so yet; it goes before what is tried again."""
    return with_status(given, failed_with(pending(given), error, given.now)).actions


# Refused, or over


def _refused(given: Given, text: str) -> Decision:
    """Nothing of the node is touched for it, neither now nor at its end."""
    row = given.row
    if row.deleting_at is not None:
        return Decision(actions=_finalized(given))
    if FINALIZER not in row.finalizers:
        return _beginning(given)
    if (row.status.phase, row.status.last_error) == (FAILED, text):
        return Decision(reasons=(Reason("refused", given.key, text),))
    status = let_go(row.status, "Refused", given.now) if row.status.conditions else row.status
    status = replace(failed_with(status, text, given.now), phase=FAILED)
    return Decision(actions=((*patch(row, status), told(given.key, *FAILED_EVENT, warning=True)),))


def _finalized(given: Given) -> tuple[Step, ...]:
    name = refusals.outcome_name("finalize", given.key)
    removed = told(given.key, "RemovedMaintenance", "Removed a node maintenance")
    refusal = refused(given.view, name)
    said = _shown(given, refusal.message) if refusal is not None else ()
    return (*said, (Finalize(given.key, FINALIZER, present=False, outcome=name), removed))


def _ending(given: Given) -> Decision:
    begun = given.node is not None and (has_drain_taint(given.node) or is_cordoned(given.status))
    if given.row.drain.dry_run and not begun:
        # A preview has touched nothing, so that there is nothing to undo; but it may have become one later.
        return Decision(actions=_finalized(given))
    steps = (*_stopping(given, "end"), *_finalized(given))
    return Decision(actions=steps, claims=claims_of(given, drained=False))


def _stopping(given: Given, act: str, prefix: str = "") -> tuple[Step, ...]:
    """Lets the node go; where the server has refused that, the status says so."""
    name = refusals.outcome_name(act, given.key)
    steps = stop_steps(given.row, given.node, given.lease, given.options, _others(given))
    left = tuple(refusals.noted(step, name) for step in steps if step)
    refusal = refused(given.view, name) if left else None
    said = _shown(given, f"{prefix}{refusals.ending(left[0], refusal)}") if refusal is not None else ()
    return (*said, *left)


def _others(given: Given) -> bool:
    """Whether another surface wants the node to stay cordoned."""
    if given.options.alone:
        return False
    return is_kept_by_others(given.view, given.node_key, SURFACE)


def _initial(given: Given) -> Decision:
    view, now, name = given.view, given.now, given.row.node
    if view.listing("Pod") is Listing.UNREADABLE:
        text = "failed to get pods for eviction while initializing status"
        return with_status(given, failed_with(given.status, text, now))
    selection = progress(view, drain_of(given, wish(given.row.drain, given.options)), now).selection
    awaited = selection.awaited
    counted = replace(
        given.status,
        phase=RUNNING,
        last_update=second(now),
        last_error="",
        eviction_pods=len(awaited),
        total_pods=len(view.rows(PODS_OF_NODE, name, PodRow)),
    )
    status = replace(with_pods(counted, awaited), drain_progress=0)
    return Decision(actions=(patch(given.row, status),), claims=claims_of(given, drained=False))


def _without_node(given: Given) -> Decision:
    text = f'nodes "{given.row.node}" not found'
    status = replace(failed_with(given.status, text, given.now), phase=FAILED)
    status = let_go(status, "NodeNotFound", given.now) if status.conditions else status
    return with_status(given, status, told(given.key, *FAILED_EVENT, warning=True))


def _preview(given: Given, wanted: DrainWish) -> Decision:
    """What a drain would have to do; nothing is done."""
    if wanted.problem:
        return with_status(given, failed_with(given.status, wanted.problem, given.now))
    state = foreseen(given.view, progress(given.view, drain_of(given, wanted), given.now), given.now)
    pods = [each.pod for each in state.pods]
    status = with_pods(replace(given.status, eviction_pods=len(pods), phase=RUNNING), pods)
    status = replace(status, last_error=state.errors, drain_progress=0)
    status = replace(status, blocked_pods=blocked_pods(state, given.status.blocked_pods))
    return with_status(given, status, until=state.changes_at)


# Going on


def _going_on(given: Given, node: NodeRow, wanted: DrainWish) -> Decision:
    owners = _owners(given.row, node)
    if owners is None:
        return _held(given, node, wanted)
    name = refusals.outcome_name("owner", given.key)
    step = (Patch(given.key, {"metadata": {"ownerReferences": owners}}, outcome=name),)
    if refused(given.view, name) is None:
        return Decision(actions=(step,), claims=claims_of(given, drained=False))
    # The original does without: where its own webhook is down, this must not be what a maintenance waits for.
    decision = _held(given, node, wanted)
    return replace(decision, actions=(*decision.actions, step))


def _held(given: Given, node: NodeRow, wanted: DrainWish) -> Decision:
    """As far as the lease allows."""
    row, now = given.row, given.now
    if row.status.error_on_lease_count > MOST_LEASE_ERRORS:
        return _lost_for_good(given)
    held = leases.holder(given.lease, now)
    if held is Holder.ANOTHER:
        return _held_by_another(given)
    # Not asked of one that is as it should be, so that what was refused before it was had is forgotten.
    due = given.lease is None or leases.is_due(given.lease, node, given.options, row.seen, now)
    counted = _lease_failed(given) if due else None
    if counted is not None:
        return counted
    return _maintain(given, node, wanted)


def _owners(row: MaintenanceRow, node: NodeRow) -> list[dict[str, object]] | None:
    """The owner references with the node among them, where it is not yet; those of a former node of the name go."""
    ours = [
        owner for owner in row.owners if (owner.api_version, owner.kind, owner.name) == ("v1", "Node", node.key.name)
    ]
    if any(owner.uid == node.uid for owner in ours):
        return None
    kept = [msgspec.to_builtins(owner) for owner in row.owners if owner not in ours]
    kept = [{name: value for name, value in owner.items() if value is not None} for owner in kept]
    reference = {"apiVersion": "v1", "kind": "Node", "name": node.key.name, "uid": node.uid}
    return [*kept, {**reference, "controller": False, "blockOwnerDeletion": False}]


def _lost_for_good(given: Given) -> Decision:
    """The node is let go once; after that nothing is done until the maintenance is deleted."""
    status, row = given.status, given.row
    if status.phase == FAILED:
        return Decision(reasons=(Reason("lease-lost", row.key, status.last_error),))
    count = status.error_on_lease_count
    text = f"maintenance failed: lease could not be extended after {count} attempts"
    over = replace(failed_with(let_go(status, "LeaseLost", given.now), text, given.now), phase=FAILED)
    said = told(row.key, *FAILED_EVENT, warning=True)
    stopped = _stopping(given, "lost", "failed to uncordon upon failure to obtain owned lease: ")
    return Decision(actions=(*stopped, (*patch(row, over), said)), claims=claims_of(given, drained=False))


def _held_by_another(given: Given) -> Decision:
    lease, status, now = given.lease, given.status, given.now
    assert lease is not None
    assert given.node is not None
    why = leases.held_by_another(lease)
    runs_out_at = leases.expires_at(lease)
    reason = Reason("lease-held", given.key, why, until=runs_out_at)
    without_lease = with_condition(pending(given, resumed(status)), "LeaseHeld", False, "HeldByAnother", why, now)
    if not has_drain_taint(given.node):
        text = (
            f"failed to obtain a lease that is not owned by us : {why} errorOnLeaseCount {status.error_on_lease_count}"
        )
        waits = with_status(given, failed_with(without_lease, text, now), until=runs_out_at)
        return replace(waits, reasons=(reason,))
    again_at = _again_at(status)
    if again_at is not None and now < again_at:
        return Decision(
            until=earliest(again_at, runs_out_at), reasons=(reason,), claims=claims_of(given, drained=False)
        )
    count = status.error_on_lease_count + 1
    text = (
        "failed to extend a lease that used to be owned by us, incrementing error on lease count: "
        f"{why}, errorOnLeaseCount: {count}"
    )
    failed = replace(failed_with(without_lease, text, now), error_on_lease_count=count)
    return Decision(
        actions=((*patch(given.row, failed), LEASE_ERROR),),
        until=runs_out_at,
        reasons=(reason,),
        claims=claims_of(given, drained=False),
    )


def _again_at(status: Status) -> datetime | None:
    """Errors are counted one at a time: the first at once, the next ones a while after the last was written."""
    if not status.error_on_lease_count or status.last_update is None:
        return None
    return status.last_update + LEASE_RETRY_FOR


def _lease_refusal(given: Given) -> Refusal | None:
    outcome = given.view.outcome(leases.outcome_name(given.row.node, given.lease))
    return outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None


def _namespace_refusal(given: Given) -> Refusal | None:
    outcome = given.view.outcome(leases.namespace_outcome(given.row.node))
    return outcome.value if outcome is not None and isinstance(outcome.value, Refusal) else None


def _lease_failed(given: Given) -> Decision | None:
    """The server refused to give us the lease: counted, unless another client was quicker or the namespace is missing."""
    refusal = _lease_refusal(given)
    if refusal is None or refusal.code == 409:
        return None
    if refusal.code == 404 and _namespace_refusal(given) is None:
        return None
    status, now = given.status, given.now
    written = status.last_update
    if written is not None and refusal.at <= written + timedelta(seconds=1):
        again_at = written + LEASE_RETRY_FOR
        if now < again_at:
            # What has not begun claims nothing meanwhile: a grant that is not used is taken back.
            begun = tuple(claim for claim in claims_of(given, drained=False) if claim.begun)
            return Decision(until=again_at, claims=begun)
        return None
    count = status.error_on_lease_count + 1
    failed = failed_with(pending(given, resumed(status)), refusal.message, now)
    failed = replace(failed, error_on_lease_count=count)
    return Decision(actions=((*patch(given.row, failed), LEASE_ERROR),), claims=claims_of(given, drained=False))


def _maintain(given: Given, node: NodeRow, wanted: DrainWish) -> Decision:
    row, view, now, options = given.row, given.view, given.now, given.options
    ours = leases.holder(given.lease, now) is Holder.OURS
    edits = _node_edits(given, node, wanted)
    said = _node_refused(given, wanted, edits)
    prepared = ours and not edits
    drain = drain_of(given, wanted)
    reopened = _reopened(given, node)
    stands = row.status.phase == SUCCEEDED and not reopened
    state = concluded(progress(view, drain, now), drain) if stands else conclusion(view, drain, now)
    claims = claims_of(given, drained=prepared and state.done and not wanted.problem)
    refusal = not_granted(given, claims[:1])
    if refusal is not None:
        return replace(refusal, actions=refusal.actions or said, claims=claims)
    renew_at = leases.renew_at(given.lease, node, options, row.seen) if ours and given.lease else None
    steps: list[Step] = [*said]
    if renew_at is None or now >= renew_at:
        steps += _lease_steps(given, node)
        renew_at = now + options.lease_duration / 3
    if edits:
        steps.append(refusals.noted(edits, refusals.outcome_name("node", row.key)))
    if row.status.phase == FAILED and is_expired(given, wanted):
        # It keeps the node, but evicts nothing more.
        told = Reason("deadline", row.key, row.status.last_error)
        return Decision(actions=tuple(steps), claims=claims, until=renew_at, reasons=(told,))
    if not prepared:
        return Decision(actions=tuple(steps), claims=claims, until=renew_at, marks=reopened)
    if wanted.problem:
        steps.append(without_pods(given, wanted.problem))
        why = Reason("drain-refused", row.key, wanted.problem)
        return Decision(actions=tuple(step for step in steps if step), claims=claims, until=renew_at, reasons=(why,))
    said_of_pods, told_of = leaving(given, wanted, state)
    status, until, waiting = drain_status(given, wanted, state, claims)
    steps += [said_of_pods, *status]
    if options.node_conditions:
        succeeded = row.status.phase == SUCCEEDED
        steps.append(node_conditions.shown(node, now, drained=state.done, succeeded=succeeded))
    return Decision(
        actions=tuple(step for step in steps if step),
        claims=claims,
        until=earliest(renew_at, until, state.changes_at),
        marks=(
            *(() if is_expired(given, wanted) else (drain,)),
            *active_mark(row),
            *waiting,
            *told_of,
            *(() if state.done else reopened),
        ),
        reasons=_reasons(given, drain, state, claims) if view.explaining else (),
    )


def _reopened(given: Given, node: NodeRow) -> tuple[Value, ...]:
    """Return a mark if the node was uncordoned after the drain had succeeded: it is to be proven empty once more."""
    if given.status.phase != SUCCEEDED:
        return ()
    key = Key("", MARK, "nodemaintenance-reopened", given.key.name)
    mark = given.view.recall(key, Value)
    return (mark or Value(key=key),) if mark is not None or not node.unschedulable else ()


def _reasons(given: Given, drain: DrainRow, state: Progress, claims: tuple[Claim, ...]) -> tuple[Reason, ...]:
    """What the drain waits for; after it, the turn."""
    refusal = not_granted(given, claims[1:]) if state.done else None
    if refusal is not None:
        return refusal.reasons
    return explained(given.view, drain, with_errors(state, given.status.blocked_pods), given.now)


def _node_refused(given: Given, wanted: DrainWish, edits: tuple[Edit, ...]) -> tuple[Step, ...]:
    """What the server has said to the edits; a node that cannot be held as it should be is not out of service."""
    name = refusals.outcome_name("node", given.key)
    refusal = refused(given.view, name) if edits else None
    if refusal is None:
        return ()
    phase = given.status.phase if is_expired(given, wanted) else RUNNING
    status = failed_with(pending(given, phase), refusals.beginning(edits, refusal), given.now)
    return with_status(given, status).actions


def _lease_steps(given: Given, node: NodeRow) -> tuple[Step, ...]:
    """The request, after the namespace where that was missing and has not been tried since."""
    request = leases.request(given.lease, node, given.options, given.row.seen, given.now)
    missing = _lease_refusal(given)
    if missing is None or missing.code != 404 or given.lease is not None:
        return ((request,),)
    made = _namespace_refusal(given)
    if made is not None and made.at >= missing.at:
        return ((request,),)
    name = given.options.lease_namespace
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return ((Create(Key("", "Namespace", "", name), body, leases.namespace_outcome(given.row.node)),), (request,))


def _node_edits(given: Given, node: NodeRow, wanted: DrainWish) -> tuple[Edit, ...]:
    """Label, taints and cordon, as far as they are missing: one patch."""
    edits: list[Edit] = []
    if node.labels.get(EXCLUDE_LABEL) != "true":
        edits.append(Label(node.key, EXCLUDE_LABEL, "true"))
    present = {(taint.key, taint.effect) for taint in node.taints}
    ours = (DRAIN_TAINT, UNSCHEDULABLE_TAINT)
    if any((taint.key, taint.effect) not in present for taint in ours):
        # The whole list is written anew with ours in front, in their plain form.
        edits += [SetTaint(node.key, taint, present=False) for taint in ours]
        edits += [SetTaint(node.key, taint, present=True, first=True) for taint in ours]
    if wanted.restore or not given.options.alone:
        labels = (EXCLUDE_LABEL,) if wanted.restore else ()
        edits += cordon.claim(node, SURFACE, shown=True, labels=labels, taint=True, begun=has_drain_taint(node))
    elif not node.unschedulable:
        edits.append(Cordon(node.key, unschedulable=True))
    return tuple(edits)
