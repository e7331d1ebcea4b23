"""The decision about one NodeMaintenance: from itself, its node, its lease and its pods to the next steps."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.base.selector import SelectorError
from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key, node_key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import LeaseRow, NodeRow, PodRow, Row, Value
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
    Tell,
)
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.drain.options import DrainRow, drain_row
from haulout.core.drain.report import Progress, progress, reasons
from haulout.core.holds import HOLDS_OF_NODE, Claim, Grant, Hold, Want, grant_key, hold_key
from haulout.core.reason import Reason
from haulout.surfaces.nodemaintenance import conditions
from haulout.surfaces.nodemaintenance import lease as leases
from haulout.surfaces.nodemaintenance.counts import ACTIVE, active_mark, is_marked
from haulout.surfaces.nodemaintenance.lease import Holder
from haulout.surfaces.nodemaintenance.options import DrainWish, Options, wish
from haulout.surfaces.nodemaintenance.status import (
    blocked_pods,
    drain_error,
    failed_with,
    patch,
    second,
    with_condition,
    with_pods,
)
from haulout.surfaces.nodemaintenance.stop import stop_steps
from haulout.surfaces.nodemaintenance.wire import (
    DRAIN_TAINT,
    EXCLUDE_LABEL,
    FAILED,
    FINALIZER,
    MAINTENANCES_OF_NODE,
    REPORTER,
    RUNNING,
    SUCCEEDED,
    UNSCHEDULABLE_TAINT,
    MaintenanceRow,
    Status,
)

SURFACE = "nodemaintenance"
# More lease errors than this in a row end a maintenance.
MOST_LEASE_ERRORS = 3
# What is counted against a maintenance is tried again no sooner; the stored time knows only whole seconds.
LEASE_RETRY_FOR = timedelta(seconds=3)
# During a pass the status follows what blocks it, but not at every step.
REPORT_EVERY_FOR = timedelta(seconds=2)

LEASE_ERROR = Measure("nodemaintenance_lease_errors_total")

replace = msgspec.structs.replace


class Given(msgspec.Struct, frozen=True):
    """What one decision is made upon."""

    row: MaintenanceRow
    view: View
    now: datetime
    options: Options
    node: NodeRow | None
    lease: LeaseRow | None

    @property
    def status(self) -> Status:
        return self.row.status

    @property
    def key(self) -> Key:
        return self.row.key

    @property
    def node_key(self) -> Key:
        return node_key(self.row.node)


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
        return _refused(Given(row, view, now, options, None, None), "invalid nodeName, no node with name  found")
    older = [other for other in view.rows(MAINTENANCES_OF_NODE, row.node, MaintenanceRow) if _age(other) < _age(row)]
    if older:
        text = f"invalid nodeName, a NodeMaintenance for node {row.node} already exists"
        return _refused(Given(row, view, now, options, None, None), text)
    node = view.node(row.node)
    lease = view.get(leases.lease_key(row.node, options), LeaseRow)
    given = Given(row, view, now, options, node, lease)
    if row.deleting_at is not None:
        return _ending(given)
    if FINALIZER not in row.finalizers:
        begun = _told(key, "BeginMaintenance", "Begin a node maintenance")
        return Decision(actions=((Finalize(key, FINALIZER, present=True), begun),), holds=_claims(given, drained=False))
    if not row.status.phase:
        return _initial(given)
    if node is None:
        return _without_node(given)
    try:
        wanted = wish(row.drain, options)
    except SelectorError as error:
        return _with_status(given, failed_with(given.status, f"spec.drain.podSelector: {error}", now))
    if wanted.dry_run:
        return _preview(given, wanted)
    return _going_on(given, node, wanted)


def _age(row: MaintenanceRow) -> tuple[datetime, str]:
    assert row.created_at is not None
    return row.created_at, row.key.name


def _told(regarding: Key, reason: str, note: str, *, warning: bool = False) -> Tell:
    return Tell(regarding, reason, reason, note, REPORTER, warning=warning, core=True)


FAILED_EVENT = ("FailedMaintenance", "Failed a node maintenance")


def _with_status(given: Given, status: Status, *said: Tell, until: datetime | None = None) -> Decision:
    """Writes a status where something but its time differs, and tells of it."""
    alike = replace(status, last_update=given.status.last_update) == given.status
    edits = () if alike else patch(given.row, status)
    return Decision(actions=((*edits, *said),) if edits else (), until=until, holds=_claims(given, drained=False))


# Refused, or over


def _refused(given: Given, text: str) -> Decision:
    """Nothing of the node is touched for it, neither now nor at its end."""
    row = given.row
    if row.deleting_at is not None:
        return Decision(actions=(_finalized(given.key),))
    if FINALIZER not in row.finalizers:
        begun = _told(given.key, "BeginMaintenance", "Begin a node maintenance")
        return Decision(actions=((Finalize(given.key, FINALIZER, present=True), begun),))
    if (row.status.phase, row.status.last_error) == (FAILED, text):
        return Decision(reasons=(Reason("refused", given.key, text),))
    status = replace(failed_with(row.status, text, given.now), phase=FAILED)
    return Decision(actions=((*patch(row, status), _told(given.key, *FAILED_EVENT, warning=True)),))


def _finalized(key: Key) -> Step:
    return (Finalize(key, FINALIZER, present=False), _told(key, "RemovedMaintenance", "Removed a node maintenance"))


def _ending(given: Given) -> Decision:
    steps = (*stop_steps(given.row, given.node, given.lease, given.options, _others(given)), _finalized(given.key))
    return Decision(actions=tuple(step for step in steps if step), holds=_claims(given, drained=False))


def _others(given: Given) -> bool:
    """Whether another surface wants the node to stay cordoned."""
    if given.options.alone:
        return False
    holds = given.view.rows(HOLDS_OF_NODE, given.node_key, Row)
    shared = {Want.CORDON, Want.DRAIN}
    return any(
        isinstance(hold, Hold) and hold.surface != SURFACE and hold.claim.begun and hold.claim.wants & shared
        for hold in holds
    )


def _initial(given: Given) -> Decision:
    view, now, name = given.view, given.now, given.row.node
    if view.listing("Pod") is Listing.UNREADABLE:
        text = "failed to get pods for eviction while initializing status"
        return _with_status(given, failed_with(given.status, text, now))
    try:
        drain = _drain_row(given, wish(given.row.drain, given.options))
    except SelectorError:
        drain = drain_row(SURFACE, given.key, given.node_key)
    selection = progress(view, drain, now).selection
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
    return Decision(actions=(patch(given.row, status),), holds=_claims(given, drained=False))


def _without_node(given: Given) -> Decision:
    text = f'nodes "{given.row.node}" not found'
    status = replace(failed_with(given.status, text, given.now), phase=FAILED)
    return _with_status(given, status, _told(given.key, *FAILED_EVENT, warning=True))


def _preview(given: Given, wanted: DrainWish) -> Decision:
    """What a drain would have to do; nothing is done."""
    state = progress(given.view, _drain_row(given, wanted), given.now)
    pods = [each.pod for each in state.pods]
    status = with_pods(replace(given.status, eviction_pods=len(pods), phase=RUNNING), pods)
    status = replace(status, last_error=state.errors, drain_progress=0)
    return _with_status(given, replace(status, blocked_pods=blocked_pods(state, given.status.blocked_pods)))


# Going on


def _going_on(given: Given, node: NodeRow, wanted: DrainWish) -> Decision:
    row, now = given.row, given.now
    if (owners := _owners(row, node)) is not None:
        body = {"metadata": {"ownerReferences": owners}}
        return Decision(actions=((Patch(row.key, body),),), holds=_claims(given, drained=False))
    if row.status.error_on_lease_count > MOST_LEASE_ERRORS:
        return _lost_for_good(given)
    held = leases.holder(given.lease, now)
    if held is Holder.ANOTHER:
        return _held_by_another(given)
    counted = _lease_failed(given)
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
    over = replace(failed_with(status, text, given.now), phase=FAILED)
    said = _told(row.key, *FAILED_EVENT, warning=True)
    steps: tuple[Step, ...] = (
        *stop_steps(row, given.node, given.lease, given.options, _others(given)),
        (*patch(row, over), said),
    )
    return Decision(actions=tuple(step for step in steps if step), holds=_claims(given, drained=False))


def _held_by_another(given: Given) -> Decision:
    lease, status, now = given.lease, given.status, given.now
    assert lease is not None
    assert given.node is not None
    why = leases.held_by_another(lease)
    runs_out_at = leases.expires_at(lease)
    reason = Reason("lease-held", given.key, why, until=runs_out_at)
    if not is_marked(given.node):
        text = (
            f"failed to obtain a lease that is not owned by us : {why} errorOnLeaseCount {status.error_on_lease_count}"
        )
        waits = _with_status(given, failed_with(_pending(given), text, now), until=runs_out_at)
        return replace(waits, reasons=(reason,))
    again_at = _again_at(status)
    if again_at is not None and now < again_at:
        return Decision(until=earliest(again_at, runs_out_at), reasons=(reason,), holds=_claims(given, drained=False))
    count = status.error_on_lease_count + 1
    text = (
        "failed to extend a lease that used to be owned by us, incrementing error on lease count: "
        f"{why}, errorOnLeaseCount: {count}"
    )
    failed = replace(failed_with(_pending(given), text, now), error_on_lease_count=count)
    return Decision(
        actions=((*patch(given.row, failed), LEASE_ERROR),),
        until=runs_out_at,
        reasons=(reason,),
        holds=_claims(given, drained=False),
    )


def _again_at(status: Status) -> datetime | None:
    """Errors are counted one at a time: the first at once, the next ones a while after the last was written."""
    if not status.error_on_lease_count or status.last_update is None:
        return None
    return status.last_update + LEASE_RETRY_FOR


def _lease_failed(given: Given) -> Decision | None:
    """The server refused to give us the lease: counted, unless somebody was quicker or the namespace is missing."""
    outcome = given.view.outcome(leases.outcome_name(given.row.node))
    refusal = outcome.value if outcome is not None else None
    if not isinstance(refusal, Refusal) or refusal.code in (404, 409):
        return None
    status, now = given.status, given.now
    written = status.last_update
    if written is not None and refusal.at <= written + timedelta(seconds=1):
        again_at = written + LEASE_RETRY_FOR
        if now < again_at:
            return Decision(until=again_at, holds=_claims(given, drained=False))
        return None
    count = status.error_on_lease_count + 1
    failed = replace(failed_with(_pending(given), refusal.message, now), error_on_lease_count=count)
    return Decision(actions=((*patch(given.row, failed), LEASE_ERROR),), holds=_claims(given, drained=False))


def _pending(given: Given) -> Status:
    """The status with the pods that are still there, as far as they can be told."""
    try:
        state = progress(given.view, _drain_row(given, wish(given.row.drain, given.options)), given.now)
    except SelectorError:
        return given.status
    return with_pods(given.status, [each.pod for each in state.pods])


def _maintain(given: Given, node: NodeRow, wanted: DrainWish) -> Decision:
    row, view, now, options = given.row, given.view, given.now, given.options
    ours = leases.holder(given.lease, now) is Holder.OURS
    edits = _node_edits(given, node, wanted)
    prepared = ours and not edits
    drain = _drain_row(given, wanted)
    state = progress(view, drain, now)
    claims = _claims(given, drained=prepared and state.done)
    refusal = _not_granted(given, claims[:1])
    if refusal is not None:
        return replace(refusal, holds=claims)
    renew_at = leases.renew_at(given.lease, options, row.seen) if ours and given.lease else None
    steps: list[Step] = []
    if renew_at is None or now >= renew_at:
        steps.append(_lease_step(given, node))
        renew_at = now + options.lease_for / 3
    if edits:
        steps.append(edits)
    if row.status.phase == FAILED and is_expired(given, wanted):
        # It keeps the node, but evicts nothing more.
        told = Reason("deadline", row.key, row.status.last_error)
        return Decision(actions=tuple(steps), holds=claims, until=renew_at, reasons=(told,))
    if not prepared:
        return Decision(actions=tuple(steps), holds=claims, until=renew_at)
    status, until, waiting = _status(given, wanted, state, claims)
    steps += status
    if options.node_conditions:
        succeeded = row.status.phase == SUCCEEDED
        steps.append(conditions.shown(node, now, drained=state.done, succeeded=succeeded))
    return Decision(
        actions=tuple(step for step in steps if step),
        holds=claims,
        until=earliest(renew_at, until),
        marks=(drain, *active_mark(row), *waiting),
        reasons=reasons(view, drain, now) if view.explaining else (),
    )


def _lease_step(given: Given, node: NodeRow) -> Step:
    outcome = given.view.outcome(leases.outcome_name(given.row.node))
    refusal = outcome.value if outcome is not None else None
    request = leases.request(given.lease, node, given.options, given.row.seen, given.now)
    if isinstance(refusal, Refusal) and refusal.code == 404 and given.lease is None:
        name = given.options.lease_namespace
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        return (Create(Key("", "Namespace", "", name), body), request)
    return (request,)


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
    if wanted.restore:
        edits += cordon.claim(node, SURFACE, shown=True, labels=(EXCLUDE_LABEL,))
    elif not given.options.alone:
        edits += cordon.claim(node, SURFACE, shown=True)
    elif not node.unschedulable:
        edits.append(Cordon(node.key, unschedulable=True))
    return tuple(edits)


def _drain_row(given: Given, wanted: DrainWish) -> DrainRow:
    deadline_at = _deadline_at(given.status, wanted)
    return drain_row(
        SURFACE,
        given.key,
        given.node_key,
        options=wanted.options,
        rules=given.options.rules,
        since=given.row.created_at or given.now,
        deadline_at=deadline_at,
        force_after=wanted.force_after and deadline_at is not None,
        retry_for=wanted.retry_for,
    )


def _deadline_at(status: Status, wanted: DrainWish) -> datetime | None:
    cordoned = next((each for each in status.conditions if each.type == "Cordoned" and each.status == "True"), None)
    if wanted.deadline_for is None or cordoned is None or cordoned.last_transition_time is None:
        return None
    return cordoned.last_transition_time + wanted.deadline_for


def is_expired(given: Given, wanted: DrainWish) -> bool:
    deadline_at = _deadline_at(given.status, wanted)
    return deadline_at is not None and given.now >= deadline_at and not wanted.force_after


# Claims


def _claims(given: Given, *, drained: bool) -> tuple[Claim, ...]:
    """Drain before its turn; the turn itself, for `Succeeded`, once the node is empty."""
    row, node = given.row, given.node
    if node is None or (row.status.phase == FAILED and row.status.error_on_lease_count > MOST_LEASE_ERRORS):
        return ()
    if given.row.drain.dry_run:
        return ()
    since = row.created_at or given.now
    begun = is_marked(node)
    if not begun and (row.deleting_at is not None or leases.holder(given.lease, given.now) is Holder.ANOTHER):
        return ()
    most = given.options.most_at_once
    limits = (Limit(ACTIVE, "", most),) if most else ()
    claims = [Claim(node.key, row.key, frozenset({Want.CORDON, Want.DRAIN}), limits, since, begun=begun, slot="drain")]
    succeeded = row.status.phase == SUCCEEDED
    if (drained or succeeded) and row.deleting_at is None:
        claims.append(Claim(node.key, row.key, frozenset({Want.EXCLUSIVE}), (), since, begun=succeeded, slot="work"))
    return tuple(claims)


def _not_granted(given: Given, claims: tuple[Claim, ...]) -> Decision | None:
    """What is said while something that is claimed is not granted."""
    for claim in claims:
        if claim.begun:
            continue
        grant = given.view.get(grant_key(hold_key(SURFACE, claim)), Grant)
        if grant is None:
            return Decision()
        if not grant.granted:
            why = "; ".join(reason.text for reason in grant.reasons)
            text = f"waiting for its turn on node {given.row.node}: {why}"
            waits = _with_status(given, failed_with(_pending(given), text, given.now))
            return replace(waits, reasons=(Reason("waits-for-grant", given.key, text, because=grant.reasons),))
    return None


# The status while it is drained


def _status(
    given: Given, wanted: DrainWish, state: Progress, claims: tuple[Claim, ...]
) -> tuple[list[Step], datetime | None, tuple[Row, ...]]:
    """The steps that write it, when time alone changes it, and what has to be remembered of the last report."""
    row, now, status = given.row, given.now, given.status
    if state.done:
        refusal = _not_granted(given, claims[1:])
        if refusal is not None:
            return list(refusal.actions), None, ()
        return _succeeded(given, state), None, ()
    current = _conditions(given, state, status)
    if status.phase in (SUCCEEDED, FAILED):
        again = replace(with_pods(current, [each.pod for each in state.pods]), phase=RUNNING, last_update=second(now))
        return [patch(row, replace(again, error_on_lease_count=0))], None, ()
    deadline_at = _deadline_at(status, wanted)
    if deadline_at is not None and now >= deadline_at and not wanted.force_after:
        text = f"the drain did not end within {wanted.deadline_for}: {drain_error(state, wanted.timeout_for)}"
        over = replace(failed_with(_passed(given, state, current), text, now), phase=FAILED)
        return [(*patch(row, over), _told(row.key, *FAILED_EVENT, warning=True))], None, ()
    began_at = _pass_began_at(given)
    ends_at = began_at + wanted.timeout_for if wanted.timeout_for else None
    error = drain_error(state, wanted.timeout_for)
    tried_at = max((each.refused_at for each in state.pods if each.refused_at), default=None)
    news = error != status.last_error or (tried_at is not None and tried_at > began_at + timedelta(seconds=1))
    if (
        (state.errors and news)
        or (state.failed and news)
        or (ends_at is not None and now >= ends_at and not state.errors)
    ):
        failed = failed_with(_passed(given, state, current), error, now)
        return [patch(row, replace(failed, error_on_lease_count=0))], None, ()
    report, report_at, mark = _report(given, current, began_at)
    future = ends_at if ends_at is not None and ends_at > now else None
    return report, earliest(future, report_at, deadline_at if deadline_at and deadline_at > now else None), mark


def _pass_began_at(given: Given) -> datetime:
    """Bounded by what is stored, so that a restart does not begin it anew."""
    instants = [given.status.last_update, given.lease.acquired_at if given.lease else None]
    return max((instant for instant in instants if instant is not None), default=given.now)


def _passed(given: Given, state: Progress, current: Status) -> Status:
    return with_pods(current, [each.pod for each in state.pods])


def _conditions(given: Given, state: Progress, status: Status) -> Status:
    now = given.now
    blocked = blocked_pods(state, status.blocked_pods)
    status = with_condition(status, "Cordoned", True, "Cordoned", "", now)
    status = with_condition(status, "LeaseHeld", True, "LeaseHeld", "", now)
    reason = "Drained" if state.done else "PodsPending"
    status = with_condition(status, "Drained", state.done, reason, "", now)
    stuck = [each for each in blocked if each.reason != "Terminating"]
    reason = stuck[0].reason if stuck else "DrainRefused" if state.errors else "NotBlocked"
    status = with_condition(status, "Blocked", bool(stuck) or bool(state.errors), reason, state.errors, now)
    return replace(status, blocked_pods=blocked)


def _succeeded(given: Given, state: Progress) -> list[Step]:
    status, row = given.status, given.row
    over = replace(
        status,
        phase=SUCCEEDED,
        drain_progress=100,
        pending_pods=(),
        pending_pods_refs=(),
        last_error="",
        error_on_lease_count=0,
    )
    over = _conditions(given, state, over)
    if over == status:
        return []
    took = given.now - (given.lease.acquired_at if given.lease and given.lease.acquired_at else given.now)
    said: tuple[Tell | Measure, ...] = (
        _told(row.key, "SucceedMaintenance", "Node maintenance was succeeded"),
        Measure("nodemaintenance_drain_duration_seconds_sum", amount=took.total_seconds()),
        Measure("nodemaintenance_drain_duration_seconds_count"),
    )
    if status.phase == SUCCEEDED:
        said = ()
    return [(*patch(row, replace(over, last_update=second(given.now))), *said)]


def _report(given: Given, current: Status, began_at: datetime) -> tuple[list[Step], datetime | None, tuple[Row, ...]]:
    """What blocks the drain, written between two passes; the time of the pass is left alone."""
    key = Key("", MARK, SURFACE, given.key.name)
    last = given.view.recall(key, Value)
    standing: tuple[Row, ...] = (last,) if last is not None else ()
    if current == given.status:
        return [], None, standing
    reported_at = last.value if last is not None and isinstance(last.value, datetime) else began_at
    due_at = max(began_at, reported_at) + REPORT_EVERY_FOR
    if given.now < due_at:
        return [], due_at, standing
    return [patch(given.row, current)], None, (Value(key=key, value=given.now),)
