"""The scheduler's decision about one maintenance: whether it may be chosen, and its start once it is."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.action import Step
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.holds import Claim, Grant, grant_key, hold_key, is_granted, refusals
from haulout.surfaces.notify.match import may_act
from haulout.surfaces.notify.scheduler.budgets import is_out, shares_of
from haulout.surfaces.notify.scheduler.campaign import halt_events
from haulout.surfaces.notify.scheduler.choose import DRY_RUN, PLANNED
from haulout.surfaces.notify.scheduler.claims import WANTS, priority_of, since_of
from haulout.surfaces.notify.scheduler.eligibility import Block, is_flying, judged
from haulout.surfaces.notify.scheduler.estimate import Estimate
from haulout.surfaces.notify.scheduler.fairness import group_of
from haulout.surfaces.notify.scheduler.pods import estimate_of
from haulout.surfaces.notify.scheduler.score import Score, score
from haulout.surfaces.notify.scheduler.show import SELECTED, WAITING, reason_of, refusal, shown
from haulout.surfaces.notify.scheduler.standing import (
    BLOCKED,
    CANDIDATE,
    IN_FLIGHT,
    VERDICT,
    Candidate,
    Flight,
    Verdict,
    Waiting,
    mark_key,
)
from haulout.surfaces.notify.scheduler.start import keep_steps, start_step
from haulout.surfaces.notify.situation import Situation, situation_of
from haulout.surfaces.notify.states import has_finalizer, is_final, is_terminal
from haulout.surfaces.notify.wire import SCHEDULED, UNPLANNED

NAME, DECIDER = "scheduler", "notify-scheduler"
JOINED, CHOSEN = "Joined", "Selected"


def decide(key: Key, view: View, now: datetime) -> Decision:
    given = situation_of(key, view, now)
    if given is None or not given.options.operators.scheduler.enabled or not has_finalizer(given.row):
        return NOTHING
    is_ours = may_act(given.options, NAME, given.row, given.node)
    if given.node is not None and is_flying(given.row, given.node):
        return _in_flight(given, is_ours=is_ours)
    if not is_ours or given.row.state != SCHEDULED or is_final(given.row) or is_terminal(given.row):
        return NOTHING
    return _candidate(given)


def _in_flight(given: Situation, *, is_ours: bool) -> Decision:
    """Publish that the node is in maintenance, also for one that another operator looks after: it takes a place."""
    node, row, settings = given.node, given.row, given.options.operators.scheduler
    assert node is not None
    mark = Flight(
        key=mark_key(IN_FLIGHT, row),
        node=row.node,
        group=group_of(row, settings),
        shares=shares_of(settings, node),
        out=is_out(node),
    )
    keeps = row.state != SCHEDULED and not is_terminal(row) and not is_final(row)
    events: Step = halt_events(given) if is_ours else ()
    steps = (*(keep_steps(given) if keeps and is_ours else ()), *((events,) if events else ()))
    return Decision(actions=steps, marks=(mark,))


def _candidate(given: Situation) -> Decision:
    estimate = estimate_of(given) if given.node is not None else Estimate()
    found = score(estimate, since_of(given.row), priority_of(given.row), given.options, given.now)
    verdict = judged(given, estimate, granted=_was_granted(given))
    until = earliest(verdict.until, estimate.changes_at)
    if verdict.block is not None:
        return _blocked(given, verdict.block, found, earliest(until, verdict.block.until))
    if verdict.joins:
        return _claimed(given, JOINED, Verdict(key=mark_key(VERDICT, given.row), rank=PLANNED), found, None, until)
    mark = _mark(given, estimate)
    chosen = given.view.get(mark_key(VERDICT, given.row), Verdict)
    if chosen is None:
        return Decision(marks=(mark,), until=until)
    if not chosen.chosen:
        reason = Block(chosen.reason)
        show = shown(given, WAITING, chosen.reason, found)
        reasons = (reason_of(given, reason),)
        return Decision(actions=show.steps, marks=(mark, show.mark), reasons=reasons, until=earliest(until, show.until))
    return _claimed(given, CHOSEN, chosen, found, mark, until)


def _mark(given: Situation, estimate: Estimate) -> Candidate:
    node, row, settings = given.node, given.row, given.options.operators.scheduler
    assert node is not None
    return Candidate(
        key=mark_key(CANDIDATE, row),
        place=row.place,
        node=row.node,
        since=since_of(row),
        unplanned=row.type == UNPLANNED,
        priority=priority_of(row),
        group=group_of(row, settings),
        shares=shares_of(settings, node),
        out=is_out(node),
        estimate=estimate,
    )


def _blocked(given: Situation, block: Block, found: Score, until: datetime | None) -> Decision:
    show = shown(given, WAITING, block.reason, found)
    return Decision(
        actions=show.steps,
        marks=(Waiting(key=mark_key(BLOCKED, given.row), reason=block.reason.partition("(")[0]), show.mark),
        reasons=(reason_of(given, block),),
        until=earliest(until, show.until),
    )


def _claimed(
    given: Situation, reason: str, verdict: Verdict, found: Score, mark: Candidate | None, until: datetime | None
) -> Decision:
    """Claim the node, and start once the claim is granted. In a dry run, only say so."""
    marks = (mark,) if mark is not None else ()
    if given.options.operators.scheduler.dry_run:
        show = shown(given, SELECTED, DRY_RUN, found)
        return Decision(actions=show.steps, marks=(*marks, show.mark), until=earliest(until, show.until))
    claim = _claim(given, verdict)
    if is_granted(given.view, DECIDER, claim):
        steps = (*shown(given, SELECTED, reason, found).steps, start_step(given, verdict.rank, found))
        return Decision(actions=steps, claims=(claim,), marks=marks, until=until)
    refused = refusals(given.view, DECIDER, claim)
    word = refusal(refused)
    if not word:
        return Decision(claims=(claim,), marks=marks, reasons=refused, until=until)
    show = shown(given, WAITING, word, found)
    return Decision(
        actions=show.steps,
        claims=(claim,),
        marks=(*marks, show.mark),
        reasons=(reason_of(given, Block(word), refused),),
        until=earliest(until, show.until),
    )


def _claim(given: Situation, verdict: Verdict) -> Claim:
    assert given.node is not None
    row = given.row
    return Claim(given.node.key, row.key, WANTS, verdict.limits, since=since_of(row), priority=priority_of(row))


def _was_granted(given: Situation) -> bool:
    """Whether its claim stands granted: then the budgets have their place for it already."""
    if given.node is None:
        return False
    claim = Claim(given.node.key, given.row.key)
    grant = given.view.recall(grant_key(hold_key(DECIDER, claim)), Grant)
    return grant is not None and grant.granted
