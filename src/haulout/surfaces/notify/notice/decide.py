"""The decision about one NotifyMaintenance, as a table of rules in the original's order. The first that fits wins."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.action import Annotate, Finalize, Label, Measure, Step, Tell
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.surfaces.notify.drainer.report import with_drained
from haulout.surfaces.notify.notice import messages
from haulout.surfaces.notify.notice.baseline import with_baseline
from haulout.surfaces.notify.notice.completion import complete, finish
from haulout.surfaces.notify.notice.course import with_conditions
from haulout.surfaces.notify.notice.deadline import deadline, is_expired, repair_deadline
from haulout.surfaces.notify.notice.deliver import (
    AFTER,
    CONTINUE,
    background,
    delivery,
    handed_over,
    is_sending,
    note_events,
    note_if_configured,
)
from haulout.surfaces.notify.notice.states import (
    AFTER_START,
    DECIDED_BY,
    DRAINING,
    RETRIED,
    asks_for_retry,
    has_finalizer,
    is_completing,
    is_final,
    is_labelled,
    is_released,
    is_terminal,
)
from haulout.surfaces.notify.notice.status import condition_of, enter_state, patch, with_condition, without_conditions
from haulout.surfaces.notify.obstacles import obstacles
from haulout.surfaces.notify.scheduler import decide as scheduler
from haulout.surfaces.notify.scheduler.claims import standing_claim
from haulout.surfaces.notify.scheduler.estimate_error import estimate_error
from haulout.surfaces.notify.situation import NoticeSituation, events_of, situation_of, time_in_status
from haulout.surfaces.notify.wire import (
    CLIENT,
    FINALIZER,
    INCOMPLETE,
    OBJECTS_DRAINED,
    OWNER_PREFIX,
    READY,
    RETRY,
    SCHEDULED,
    SLA_EXPIRED,
    STARTED,
    TERMINATED,
    VALIDATING,
    VALIDATION,
    Status,
)

replace = msgspec.structs.replace
# The state that a client's annotation leads to. Other values are copied into a condition and change nothing.
MOVES = {
    (CLIENT, "complete"): VALIDATING,
    (CLIENT, "incomplete"): INCOMPLETE,
    (VALIDATION, "failed"): INCOMPLETE,
}


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Decide about the state of a maintenance, and claim its node while the node is out of service for it."""
    decision = _decide_state(key, view, now)
    situation = situation_of(key, view, now)
    # The status of the original has no such conditions.
    if situation is not None and not situation.options.alone:
        decision = with_conditions(decision, situation.row, now)
    claim = standing_claim(situation) if situation is not None else None
    if claim is not None:
        decision = replace(decision, claims=(claim,))
    if not view.explaining:
        return decision
    stuck = obstacles(situation) if situation is not None else ()
    reasons = scheduler.decide(key, view, now).reasons
    return replace(decision, reasons=(*decision.reasons, *stuck, *reasons))


def _decide_state(key: Key, view: View, now: datetime) -> Decision:
    situation = situation_of(key, view, now)
    if situation is None:
        return NOTHING
    decision = _decide(situation)
    if not situation.row.state:
        return decision
    also = background(situation)
    if not also.steps and also.until is None:
        return decision
    return replace(decision, actions=(*decision.actions, *also.steps), until=earliest(decision.until, also.until))


def _decide(situation: NoticeSituation) -> Decision:
    row = situation.row
    if is_released(row) or (is_final(row) and not has_finalizer(row)):
        return NOTHING
    if is_completing(row):
        return finish(situation)
    if situation.node is None:
        return _without_node(situation)
    if is_final(row) and not is_terminal(row):
        return _delete(situation)
    if not row.state:
        return _initialize(situation)
    return _go_on(situation)


def _without_node(situation: NoticeSituation) -> Decision:
    """Decide about a maintenance whose node does not exist: it waits for the node, unless it is being deleted."""
    row = situation.row
    if not is_final(row):
        return NOTHING
    if not is_terminal(row):
        return _delete(situation)
    grace_for = situation.options.core.node_gone_grace_period
    assert row.deleting_at is not None
    if not grace_for:
        return NOTHING
    ends_at = row.deleting_at + grace_for
    return complete(situation) if situation.now >= ends_at else Decision(until=ends_at)


def _delete(situation: NoticeSituation) -> Decision:
    """End a deleted maintenance. Its end is announced only if it had started."""
    row, node = situation.row, situation.node
    if row.state not in AFTER_START:
        unlabel: Step = (Label(node.key, row.label, None),) if node is not None and is_labelled(row, node) else ()
        if is_sending(situation):
            return NOTHING
        release: Step = (Finalize(row.key, FINALIZER, present=False), *handed_over(situation))
        return Decision(actions=(*((unlabel,) if unlabel else ()), release))
    event = messages.CANCELLED if row.state in DRAINING else messages.ENDED
    spent = time_in_status(situation, row.state, row.status.last_at, row.deleting_at)
    return announced(situation, event, (Annotate(row.key, TERMINATED, ""), *spent))


def _initialize(situation: NoticeSituation) -> Decision:
    row = situation.row
    edits: list[Finalize | Label | Annotate] = [*note_if_configured(row, situation.options, messages.SCHEDULED)]
    if not has_finalizer(row):
        edits.append(Finalize(row.key, FINALIZER, present=True))
    if row.label not in row.labels:
        edits.append(Label(row.key, row.label, ""))
    status = enter_state(row.status, SCHEDULED, situation.now)
    sends = delivery(situation, messages.SCHEDULED).sends
    move: Step = (*patch(row, status), *_events(situation, messages.SCHEDULED), *sends)
    return Decision(actions=(*((tuple(edits),) if edits else ()), move))


def _go_on(situation: NoticeSituation) -> Decision:
    """Apply rules 3 to 7 of the table. A deadline in the future does not stop the later rules from being checked."""
    row, until = situation.row, None
    if row.state == STARTED and not is_terminal(row):
        if row.status.sla_expires is None:
            return Decision(actions=((*patch(row, repair_deadline(situation)),),))
        if is_expired(situation):
            return _moved(situation, messages.SLA_EXPIRED, enter_state(row.status, SLA_EXPIRED, situation.now))
        until = row.status.sla_expires
    annotation = DECIDED_BY.get(row.state, "")
    if annotation in row.annotations and not is_terminal(row):
        decision = _drained(situation) if row.state in DRAINING else _mirrored(situation, annotation)
    elif _wants_retry(situation):
        decision = _retry(situation)
    else:
        decision = _node_row(situation)
    return replace(decision, until=earliest(decision.until, until))


def _drained(situation: NoticeSituation) -> Decision:
    row = situation.row
    if row.annotations[READY] != "true":
        return NOTHING
    status = with_drained(situation, with_condition(row.status, condition_of(READY), "true", situation.now))
    operators = situation.options.operators
    if situation.node is not None and (operators.runner.enabled or operators.validator.enabled):
        status = with_baseline(status, situation.node, situation.now)
    return _moved(
        situation,
        messages.OBJECTS_DRAINED,
        enter_state(status, OBJECTS_DRAINED, situation.now),
        estimate_error(situation),
    )


def _mirrored(situation: NoticeSituation, annotation: str) -> Decision:
    """Copy a client's annotation into a condition, and make the transition that it asks for in the same write."""
    row, value = situation.row, situation.row.annotations[annotation]
    stood = row.status.condition(condition_of(annotation))
    is_known = (stood.status if stood is not None else "") == value
    status = row.status if is_known else with_condition(row.status, condition_of(annotation), value, situation.now)
    state = MOVES.get((annotation, value))
    if state is None:
        return Decision(actions=(patch(row, status),)) if not is_known else NOTHING
    status = enter_state(status, state, situation.now)
    if state == INCOMPLETE and situation.options.core.allow_retry and RETRY in row.annotations:
        # A retry annotation that was set before the failure is not a request to retry this failure.
        status = with_condition(status, RETRIED, row.annotations[RETRY], situation.now)
    event = AFTER[state]
    spent = time_in_status(situation, row.state, row.status.last_at)
    remember: Step = note_if_configured(row, situation.options, event)
    step: Step = (*patch(row, status), *_events(situation, event), *spent, *delivery(situation, event).sends)
    return Decision(actions=(*((remember,) if remember else ()), step))


def _wants_retry(situation: NoticeSituation) -> bool:
    row = situation.row
    return situation.options.core.allow_retry and not is_terminal(row) and asks_for_retry(row)


def _retry(situation: NoticeSituation) -> Decision:
    """Go back to the maintenance step. The clients' annotations are removed first, so that no operator acts on them."""
    row = situation.row
    names = (CLIENT, VALIDATION, f"{OWNER_PREFIX}runner", f"{OWNER_PREFIX}validator")
    cleared = tuple(Annotate(row.key, name, None) for name in names if name in row.annotations)
    status = without_conditions(row.status, condition_of(CLIENT), condition_of(VALIDATION))
    status = with_condition(status, RETRIED, row.annotations[RETRY], situation.now)
    status = enter_state(status, OBJECTS_DRAINED, situation.now)
    return _moved(situation, messages.OBJECTS_DRAINED, status, before=(cleared,) if cleared else ())


def _node_row(situation: NoticeSituation) -> Decision:
    row, node = situation.row, situation.node
    assert node is not None
    if not is_labelled(row, node) and not is_terminal(row) and not is_final(row):
        return NOTHING
    if node.unschedulable:
        return _start(situation) if row.state == SCHEDULED else NOTHING
    return complete(situation) if has_finalizer(row) and row.state in AFTER_START else NOTHING


def _start(situation: NoticeSituation) -> Decision:
    expires_at, problem = deadline(situation)
    status = replace(enter_state(situation.status, STARTED, situation.now), sla_expires=expires_at)
    decision = _moved(situation, messages.SLA_STARTED, status)
    if not problem:
        return decision
    return replace(
        decision, actions=(*decision.actions, events_of(situation, "SLAPeriodInvalid", problem, warning=True))
    )


def _moved(
    situation: NoticeSituation,
    event: str,
    status: Status,
    measured: tuple[Measure, ...] = (),
    before: tuple[Step, ...] = (),
) -> Decision:
    """Make a transition whose message is sent first."""
    spent = (*time_in_status(situation, situation.row.state, situation.status.last_at), *measured)
    return announced(situation, event, (*patch(situation.row, status), *spent), *before)


def announced(situation: NoticeSituation, event: str, step: Step, *before: Step) -> Decision:
    """Send a message, and take the step once it is delivered or, with the failure policy Continue, has failed."""
    state = delivery(situation, event)
    goes_on = state.failed and situation.options.notifications.failure_policy == CONTINUE
    if not state.done and not goes_on:
        return Decision(actions=(state.sends,) if state.sends else (), until=state.until)
    remember: Step = note_events(situation.row, event) if goes_on else ()
    return Decision(actions=(*((remember,) if remember else ()), *before, (*step, *_events(situation, event))))


def _events(situation: NoticeSituation, event: str) -> tuple[Tell, ...]:
    return events_of(situation, event, messages.text_of(situation.row, event))
