"""The status of a NodeMaintenance during its drain.

It is written at the end of a pass, and in between for blocked pods.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.base.duration import to_text
from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.view import MARK
from haulout.core.action import Measure, Patch, Say, Step, Tell
from haulout.core.decision import earliest
from haulout.core.drain.progress import Progress
from haulout.core.holds import Claim
from haulout.model.meta import wire_time
from haulout.surfaces.nodemaintenance.claims import not_granted
from haulout.surfaces.nodemaintenance.options import DrainWish
from haulout.surfaces.nodemaintenance.situation import FAILED_EVENT, SURFACE, Situation, deadline_of, event
from haulout.surfaces.nodemaintenance.status import (
    blocked_pods,
    drain_error,
    failed_with,
    patch,
    second,
    with_condition,
    with_pods,
)
from haulout.surfaces.nodemaintenance.wire import FAILED, RUNNING, SUCCEEDED, Status

# The end of the message of the condition `Drained`.
LAST_GRACE = "the last grace period ends "

replace = msgspec.structs.replace


def drain_status(
    situation: Situation, wanted: DrainWish, state: Progress, claims: tuple[Claim, ...]
) -> tuple[list[Step], datetime | None, tuple[Row, ...]]:
    """Return the steps that write the status, when time alone changes it, and the mark of the last report."""
    row, now, status = situation.row, situation.now, situation.status
    if state.proving:
        return [], None, _last_report(situation)
    if state.done:
        refusal = not_granted(situation, claims[1:])
        if refusal is not None:
            return list(refusal.actions), None, ()
        return _succeeded(situation, state), None, ()
    if status.phase in (SUCCEEDED, FAILED):
        again = replace(_current(situation, state), phase=RUNNING, last_update=second(now))
        return [_written(situation, state, _passed(state, again))], None, ()
    deadline_at = deadline_of(status, wanted)
    if deadline_at is not None and now >= deadline_at and not wanted.force_after:
        assert wanted.deadline_for is not None
        text = f"the drain did not end within {to_text(wanted.deadline_for)}: {_error(state, wanted)}"
        over = replace(failed_with(_passed(state, _current(situation, state)), text, now), phase=FAILED)
        return [(*_written(situation, state, over), event(row.key, *FAILED_EVENT, warning=True))], None, ()
    began_at = _pass_began_at(situation)
    ends_at = began_at + wanted.timeout_for if wanted.timeout_for else None
    errors = state.errors or state.proof_error
    is_over = ends_at is not None and now >= ends_at and not errors
    # The text is about all pods, so it is made only when it is reported.
    if is_over or errors or state.failed:
        error = _error(state, wanted)
        tried_at = max((each.refused_at for each in state.pods if each.refused_at), default=None)
        is_news = error != status.last_error or (tried_at is not None and tried_at > began_at + timedelta(seconds=1))
        if is_over or is_news:
            failed = failed_with(_passed(state, _current(situation, state)), error, now)
            return [(*_written(situation, state, failed), *_failed_pass(situation))], None, ()
    report, report_at, mark = _report(situation, state, began_at)
    future = ends_at if ends_at is not None and ends_at > now else None
    return report, earliest(future, report_at, deadline_at if deadline_at and deadline_at > now else None), mark


def without_pods(situation: Situation, problem: str) -> Step:
    """Return the step that reports an unreadable pod selector: the node is held, and nothing is evicted."""
    status, now = replace(situation.status, phase=RUNNING, blocked_pods=()), situation.now
    status = replace(status, drain_progress=min(99, status.drain_progress))
    for kind in ("Cordoned", "LeaseHeld"):
        status = with_condition(status, kind, True, kind, "", now)
    status = with_condition(status, "Drained", False, "PodsPending", "", now)
    status = with_condition(status, "Blocked", True, "DrainRefused", problem, now)
    failed = replace(status, last_error=problem, error_on_lease_count=0)
    return (
        ()
        if failed == situation.status
        else (*patch(situation.row, failed_with(failed, problem, now)), *_failed_pass(situation))
    )


def _error(state: Progress, wanted: DrainWish) -> str:
    return state.proof_error or drain_error(state, wanted.timeout_for, deletes=wanted.options.disable_eviction)


def _failed_pass(situation: Situation) -> tuple[Say, ...]:
    """Return the log line by which the tests of the original recognise a failed pass."""
    fields = (("object", f"{situation.key.kind}/{situation.key.name}"), ("node", situation.row.node))
    return (Say("Reconciling with fixed duration", fields),)


def _pass_began_at(situation: Situation) -> datetime:
    """Return when the pass began. It comes from stored times, so that a restart does not begin the pass again."""
    instants = [situation.status.last_update, situation.lease.acquired_at if situation.lease else None]
    return max((instant for instant in instants if instant is not None), default=situation.now)


def _current(situation: Situation, state: Progress) -> Status:
    """Return the status for the current state of the drain.

    While we hold the lease, earlier lease errors do not count.
    """
    return replace(_conditions(situation, state, situation.status), error_on_lease_count=0)


def _passed(state: Progress, current: Status) -> Status:
    return with_pods(current, [each.pod for each in state.pods])


def _conditions(situation: Situation, state: Progress, status: Status) -> Status:
    now = situation.now
    blocked = blocked_pods(state, status.blocked_pods)
    status = with_condition(status, "Cordoned", True, "Cordoned", "", now)
    status = with_condition(status, "LeaseHeld", True, "LeaseHeld", "", now)
    reason = "Drained" if state.done else "PodsPending"
    status = with_condition(status, "Drained", state.done, reason, state.proof_error or _skipped(state), now)
    stuck = [each for each in blocked if each.reason != "Terminating"]
    reason = stuck[0].reason if stuck else "DrainRefused" if state.errors else "NotBlocked"
    status = with_condition(status, "Blocked", bool(stuck) or bool(state.errors), reason, state.errors, now)
    return replace(status, blocked_pods=blocked)


def _skipped(state: Progress) -> str:
    """Return the pods that are still there but are not waited for.

    People need to know them before they switch the node off.
    """
    names = [f"{pod.key.namespace}/{pod.key.name}" for pod in state.selection.skipped_pods]
    return f"no longer waited for: {', '.join(names)}" if names else ""


def _succeeded(situation: Situation, state: Progress) -> list[Step]:
    status, row = situation.status, situation.row
    over = replace(
        status,
        phase=SUCCEEDED,
        drain_progress=100,
        pending_pods=(),
        pending_pods_refs=(),
        last_error="",
        error_on_lease_count=0,
    )
    over = _conditions(situation, state, over)
    if over == status and not situation.kicked:
        return []
    began_at = situation.lease.acquired_at if situation.lease and situation.lease.acquired_at else situation.now
    statements: tuple[Tell | Measure, ...] = (
        event(row.key, "SucceedMaintenance", "Node maintenance was succeeded"),
        Measure("nodemaintenance_drain_duration_seconds", since=began_at),
    )
    if status.phase == SUCCEEDED:
        statements = ()
    return [(*patch(row, replace(over, last_update=second(situation.now))), *statements)]


def _written(situation: Situation, state: Progress, status: Status) -> tuple[Patch, ...]:
    """Return the patch that stores the status, with the end of the last grace period in the message of `Drained`.

    That end changes often. It is added to a write that has another cause, and never causes a write itself (K9).
    """
    if state.ends_at is not None:
        parts = (_drained_message(status), f"{LAST_GRACE}{wire_time(state.ends_at)}")
        status = _with_drained_message(status, "; ".join(part for part in parts if part))
    return patch(situation.row, status)


def _without_end(status: Status) -> Status:
    """Return the status without the end of the last grace period in the message of `Drained`."""
    return _with_drained_message(status, _drained_message(status).partition(LAST_GRACE)[0].removesuffix("; "))


def _drained_message(status: Status) -> str:
    return next((each.message for each in status.conditions if each.type == "Drained"), "")


def _with_drained_message(status: Status, message: str) -> Status:
    return replace(
        status,
        conditions=tuple(
            replace(each, message=message) if each.type == "Drained" and each.message != message else each
            for each in status.conditions
        ),
    )


def _report(
    situation: Situation, state: Progress, began_at: datetime
) -> tuple[list[Step], datetime | None, tuple[Row, ...]]:
    """Return the write of the current status between two passes, without changing the time of the pass."""
    last = _last_report(situation)
    reported_at = next((each.value for each in last if isinstance(each.value, datetime)), began_at)
    due_at = max(began_at, reported_at) + situation.options.report_every_for
    # A report that is not due is not computed either, so that the pods' budgets do not wake this decision.
    if situation.now < due_at:
        return [], due_at, last
    current = _current(situation, state)
    # The original writes the remaining pods only at the end of a pass, together with its error. So does the drop-in.
    latest = current if situation.options.alone else _passed(state, current)
    # A status that equals the stored one counts as a report, too. Otherwise it would be computed again for each pod
    # that changes.
    built = (Value(key=_report_key(situation), value=situation.now),)
    return [] if latest == _without_end(situation.status) else [_written(situation, state, latest)], None, built


def _last_report(situation: Situation) -> tuple[Value, ...]:
    last = situation.view.recall(_report_key(situation), Value)
    return (last,) if last is not None else ()


def _report_key(situation: Situation) -> Key:
    return Key("", MARK, SURFACE, situation.key.name)
