"""The decision about one NodeMaintenance: from the object, its node, its lease and its pods to the next steps."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus

import msgspec

from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.rows import LeaseRow, NodeRow, PodRow
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import (
    Finalize,
    Patch,
    Refusal,
    Step,
)
from haulout.core.decision import NOTHING, Decision
from haulout.core.drain.preview import foresee
from haulout.core.drain.progress import progress
from haulout.core.reason import Reason
from haulout.core.refusals import find_refusal
from haulout.surfaces.nodemaintenance import lease as leases
from haulout.surfaces.nodemaintenance import refusals
from haulout.surfaces.nodemaintenance.claims import claims_of, with_status
from haulout.surfaces.nodemaintenance.counts import has_drain_taint
from haulout.surfaces.nodemaintenance.course import with_conditions
from haulout.surfaces.nodemaintenance.lease import Holder
from haulout.surfaces.nodemaintenance.lease_failures import counted_refusal, held_by_another
from haulout.surfaces.nodemaintenance.maintain import maintain
from haulout.surfaces.nodemaintenance.options import DrainWish, Options, wish
from haulout.surfaces.nodemaintenance.release import lease_outcome, stop_steps
from haulout.surfaces.nodemaintenance.sets.wire import is_of_a_set
from haulout.surfaces.nodemaintenance.situation import (
    FAILED_EVENT,
    MOST_LEASE_ERRORS,
    SURFACE,
    Situation,
    drain_of,
    event,
    pending,
)
from haulout.surfaces.nodemaintenance.status import (
    blocked_pods,
    failed_with,
    is_cordoned,
    let_go,
    patch,
    second,
    with_pods,
)
from haulout.surfaces.nodemaintenance.wire import (
    FAILED,
    FINALIZER,
    MAINTENANCES_OF_NODE,
    RUNNING,
    MaintenanceRow,
)

NAMELESS = "invalid nodeName, no node with name  found"

replace = msgspec.structs.replace


def decide(key: Key, view: View, now: datetime) -> Decision:
    row = view.get(key, MaintenanceRow)
    setting = view.config(SURFACE)
    if row is None or setting is None:
        return NOTHING
    options = setting.value
    assert isinstance(options, Options)
    decision = _decide(row, view, now, options)
    # The status of the original has no such conditions.
    return decision if options.alone else with_conditions(decision, row, now)


def _decide(row: MaintenanceRow, view: View, now: datetime, options: Options) -> Decision:
    if row.deleting_at is not None and FINALIZER not in row.finalizers:
        return NOTHING
    if not row.node:
        return _refused(Situation(row, view, now, options, None, None), NAMELESS)
    older = [other for other in view.rows(MAINTENANCES_OF_NODE, row.node, MaintenanceRow) if _age(other) < _age(row)]
    if older:
        first = min(older, key=_age)
        return _refused(Situation(row, view, now, options, None, None), _taken(row), _way_out(row, first))
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


def _way_out(row: MaintenanceRow, first: MaintenanceRow) -> str:
    """Return what a person can do about a maintenance whose node an older one has."""
    name, older = row.key.name, first.key.name
    if first.deleting_at is not None:
        return f"{name} starts once NodeMaintenance {older} is deleted: haulout explain nm {older}"
    return f"end the maintenance that has the node, and {name} starts: kubectl delete nm {older}"


def _age(row: MaintenanceRow) -> tuple[datetime, str]:
    assert row.created_at is not None
    return row.created_at, row.key.name


def _beginning(situation: Situation) -> Decision:
    name = refusals.outcome_name("begin", situation.key)
    begun = event(situation.key, "BeginMaintenance", "Begin a node maintenance")
    refusal = find_refusal(situation.view, name)
    statements = _reported(situation, refusal.message) if refusal is not None else ()
    owner: tuple[Patch, ...] = ()
    if refusal is None and not situation.options.alone:
        owner = _owner_patch(situation, name)
    step: Step = (Finalize(situation.key, FINALIZER, present=True, outcome=name), *owner, begun)
    return Decision(actions=(*statements, step), claims=claims_of(situation, drained=False))


def _reported(situation: Situation, error: str) -> tuple[Step, ...]:
    """Return the step that writes an error into the status, if it is not there yet. It comes before the next try."""
    return with_status(situation, failed_with(pending(situation), error, situation.now)).actions


def _refused(situation: Situation, text: str, act: str = "") -> Decision:
    """Refuse the maintenance. Its node is not changed, neither now nor when the maintenance is deleted.

    `act`: what a person can do about it.
    """
    row = situation.row
    if row.deleting_at is not None:
        return Decision(actions=_finalized(situation))
    if FINALIZER not in row.finalizers:
        return _beginning(situation)
    if (row.status.phase, row.status.last_error) == (FAILED, text):
        return Decision(reasons=(Reason("refused", situation.key, text, act=act),))
    status = let_go(row.status, "Refused", situation.now) if row.status.conditions else row.status
    status = replace(failed_with(status, text, situation.now), phase=FAILED)
    return Decision(actions=((*patch(row, status), event(situation.key, *FAILED_EVENT, warning=True)),))


def _finalized(situation: Situation) -> tuple[Step, ...]:
    name = refusals.outcome_name("finalize", situation.key)
    removed = event(situation.key, "RemovedMaintenance", "Removed a node maintenance")
    refusal = find_refusal(situation.view, name)
    statements = _reported(situation, refusal.message) if refusal is not None else ()
    return (*statements, (Finalize(situation.key, FINALIZER, present=False, outcome=name), removed))


def _ending(situation: Situation) -> Decision:
    begun = situation.node is not None and (has_drain_taint(situation.node) or is_cordoned(situation.status))
    if situation.row.drain.dry_run and not begun:
        # A dry run has changed nothing, so there is nothing to undo. `begun` is for a maintenance that became a dry run
        # later.
        return Decision(actions=_finalized(situation))
    steps = (*_stopping(situation, "end"), *_finalized(situation))
    return Decision(actions=steps, claims=claims_of(situation, drained=False))


def _stopping(situation: Situation, act: str, prefix: str = "") -> tuple[Step, ...]:
    """Return the steps that release the node. If the API server refused them before, the status says so."""
    name = refusals.outcome_name(act, situation.key)
    steps = stop_steps(situation.row, situation.node, situation.lease, situation.options, situation.view)
    pending_steps = tuple(refusals.with_outcome(step, name) for step in steps if step)
    refusal = _refusal(situation, name) if pending_steps else None
    statements = (
        _reported(situation, f"{prefix}{refusals.ending(pending_steps[0], refusal)}") if refusal is not None else ()
    )
    return (*statements, *pending_steps)


def _refusal(situation: Situation, name: str) -> Refusal | None:
    """Return why the API server refused to release the node. That a lease may not be deleted is no reason: it is emptied."""
    refusal, lease = find_refusal(situation.view, name), situation.lease
    if refusal is not None or lease is None:
        return refusal
    refusal = find_refusal(situation.view, lease_outcome(lease))
    return refusal if refusal is not None and refusal.code != HTTPStatus.FORBIDDEN else None


def _initial(situation: Situation) -> Decision:
    view, now, name = situation.view, situation.now, situation.row.node
    if view.listing("Pod") is Listing.UNREADABLE:
        text = "failed to get pods for eviction while initializing status"
        return with_status(situation, failed_with(situation.status, text, now))
    selection = progress(view, drain_of(situation, wish(situation.row.drain, situation.options)), now).selection
    awaited = selection.awaited_pods
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
    """Show in the status what a drain would do, without doing it."""
    if wanted.problem:
        return with_status(situation, failed_with(situation.status, wanted.problem, situation.now))
    state = foresee(situation.view, progress(situation.view, drain_of(situation, wanted), situation.now), situation.now)
    pods = [each.pod for each in state.pods]
    status = with_pods(replace(situation.status, eviction_pods=len(pods), phase=RUNNING), pods)
    status = replace(status, last_error=state.errors, drain_progress=0)
    status = replace(status, blocked_pods=blocked_pods(state, situation.status.blocked_pods))
    return with_status(situation, status, until=state.changes_at)


def _going_on(situation: Situation, node: NodeRow, wanted: DrainWish) -> Decision:
    name = refusals.outcome_name("owner", situation.key)
    step = _owner_patch(situation, name)
    if not step:
        return _held(situation, node, wanted)
    if find_refusal(situation.view, name) is None:
        return Decision(actions=(step,), claims=claims_of(situation, drained=False))
    # Like the original, continue without the owner reference. If the original's own webhook is down, a maintenance must
    # not wait for it.
    decision = _held(situation, node, wanted)
    return replace(decision, actions=(*decision.actions, step))


def _held(situation: Situation, node: NodeRow, wanted: DrainWish) -> Decision:
    """Take or keep the node if the lease allows it."""
    row, now = situation.row, situation.now
    if row.status.error_on_lease_count > MOST_LEASE_ERRORS:
        return _lost_for_good(situation)
    held = leases.holder(situation.lease, now)
    if held is Holder.ANOTHER:
        return held_by_another(situation)
    # The outcome is read only while a write is due, so that an old refusal is forgotten once the lease is right.
    due = situation.lease is None or leases.is_due(situation.lease, node, situation.options, row.seen, now)
    counted = counted_refusal(situation) if due else None
    if counted is not None:
        return counted
    return maintain(situation, node, wanted)


def _owner_patch(situation: Situation, outcome: str) -> tuple[Patch, ...]:
    """Return the patch that makes the node an owner of the maintenance, unless it is one. A dry run has no owner."""
    row, node = situation.row, situation.node
    if is_of_a_set(row):
        return ()
    owners = _owners(row, node) if node is not None and not row.drain.dry_run else None
    return (Patch(row.key, {"metadata": {"ownerReferences": owners}}, outcome=outcome),) if owners is not None else ()


def _owners(row: MaintenanceRow, node: NodeRow) -> list[dict[str, object]] | None:
    """Return the owner references with the node added; None if it is there.

    References to a former node of the same name go.
    """
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
    """Release the node once after too many lease errors. Then nothing more happens until the maintenance is deleted."""
    status, row = situation.status, situation.row
    if status.phase == FAILED:
        return Decision(reasons=(Reason("lease-lost", row.key, status.last_error),))
    count = status.error_on_lease_count
    text = f"maintenance failed: lease could not be extended after {count} attempts"
    over = replace(failed_with(let_go(status, "LeaseLost", situation.now), text, situation.now), phase=FAILED)
    failed = event(row.key, *FAILED_EVENT, warning=True)
    stopped = _stopping(situation, "lost", "failed to uncordon upon failure to obtain owned lease: ")
    return Decision(actions=(*stopped, (*patch(row, over), failed)), claims=claims_of(situation, drained=False))
