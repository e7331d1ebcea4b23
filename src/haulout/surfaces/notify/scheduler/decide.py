"""The scheduler's decision about one maintenance: whether it may be chosen, and its start once it is."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.action import Step
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.holds import Claim, Grant, grant_key, hold_key, is_granted, refusals
from haulout.surfaces.notify.match import may_act
from haulout.surfaces.notify.notice.states import has_finalizer, is_final, is_terminal
from haulout.surfaces.notify.scheduler.budgets import is_out, shares_of
from haulout.surfaces.notify.scheduler.campaign import halt_events
from haulout.surfaces.notify.scheduler.choose import DRY_RUN, PLANNED
from haulout.surfaces.notify.scheduler.claims import WANTS, priority_of, since_of
from haulout.surfaces.notify.scheduler.eligibility import CandidateBlock, is_flying, judge
from haulout.surfaces.notify.scheduler.estimate import Estimate
from haulout.surfaces.notify.scheduler.fairness import group_of
from haulout.surfaces.notify.scheduler.pods import estimate_of
from haulout.surfaces.notify.scheduler.score import Score, score
from haulout.surfaces.notify.scheduler.show import SELECTED, WAITING, condition_write, reason_of, refusal
from haulout.surfaces.notify.scheduler.standing import (
    BLOCKED,
    CANDIDATE,
    IN_FLIGHT,
    VERDICT,
    BlockedCandidate,
    Candidate,
    Flight,
    RoundVerdict,
    mark_key,
)
from haulout.surfaces.notify.scheduler.start import keep_steps, start_step
from haulout.surfaces.notify.situation import NoticeSituation, situation_of
from haulout.surfaces.notify.wire import SCHEDULED, UNPLANNED

NAME, DECIDER = "scheduler", "notify-scheduler"
JOINED, CHOSEN = "Joined", "Selected"


def decide(key: Key, view: View, now: datetime) -> Decision:
    situation = situation_of(key, view, now)
    if situation is None or not situation.options.operators.scheduler.enabled or not has_finalizer(situation.row):
        return NOTHING
    is_ours = may_act(situation.options, NAME, situation.row, situation.node)
    if situation.node is not None and is_flying(situation.row, situation.node):
        return _in_flight(situation, is_ours=is_ours)
    if not is_ours or situation.row.state != SCHEDULED or is_final(situation.row) or is_terminal(situation.row):
        return NOTHING
    return _candidate(situation)


def _in_flight(situation: NoticeSituation, *, is_ours: bool) -> Decision:
    """Publish that the node is in maintenance.

    It takes a place under the budgets even if another operator has started the maintenance.
    """
    node, row, settings = situation.node, situation.row, situation.options.operators.scheduler
    assert node is not None
    mark = Flight(
        key=mark_key(IN_FLIGHT, row),
        node=row.node,
        group=group_of(row, settings),
        shares=shares_of(settings, node),
        out=is_out(node),
    )
    keeps = row.state != SCHEDULED and not is_terminal(row) and not is_final(row)
    events: Step = halt_events(situation) if is_ours else ()
    steps = (*(keep_steps(situation) if keeps and is_ours else ()), *((events,) if events else ()))
    return Decision(actions=steps, marks=(mark,))


def _candidate(situation: NoticeSituation) -> Decision:
    estimate = estimate_of(situation) if situation.node is not None else Estimate()
    found = score(estimate, since_of(situation.row), priority_of(situation.row), situation.options, situation.now)
    verdict = judge(situation, estimate, granted=_was_granted(situation))
    until = earliest(verdict.until, estimate.changes_at)
    if verdict.block is not None:
        return _blocked(situation, verdict.block, found, earliest(until, verdict.block.until))
    if verdict.joins:
        return _claimed(
            situation, JOINED, RoundVerdict(key=mark_key(VERDICT, situation.row), rank=PLANNED), found, None, until
        )
    mark = _mark(situation, estimate)
    chosen = situation.view.get(mark_key(VERDICT, situation.row), RoundVerdict)
    if chosen is None:
        return Decision(marks=(mark,), until=until)
    if not chosen.chosen:
        reason = CandidateBlock(chosen.reason)
        show = condition_write(situation, WAITING, chosen.reason, found)
        reasons = (reason_of(situation, reason),)
        return Decision(actions=show.steps, marks=(mark, show.mark), reasons=reasons, until=earliest(until, show.until))
    return _claimed(situation, CHOSEN, chosen, found, mark, until)


def _mark(situation: NoticeSituation, estimate: Estimate) -> Candidate:
    node, row, settings = situation.node, situation.row, situation.options.operators.scheduler
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


def _blocked(situation: NoticeSituation, block: CandidateBlock, found: Score, until: datetime | None) -> Decision:
    show = condition_write(situation, WAITING, block.reason, found)
    return Decision(
        actions=show.steps,
        marks=(
            BlockedCandidate(key=mark_key(BLOCKED, situation.row), reason=block.reason.partition("(")[0]),
            show.mark,
        ),
        reasons=(reason_of(situation, block),),
        until=earliest(until, show.until),
    )


def _claimed(
    situation: NoticeSituation,
    reason: str,
    verdict: RoundVerdict,
    found: Score,
    mark: Candidate | None,
    until: datetime | None,
) -> Decision:
    """Claim the node, and start the maintenance once the claim is granted. In a dry run, only report the choice."""
    marks = (mark,) if mark is not None else ()
    if situation.options.operators.scheduler.dry_run:
        show = condition_write(situation, SELECTED, DRY_RUN, found)
        return Decision(actions=show.steps, marks=(*marks, show.mark), until=earliest(until, show.until))
    claim = _claim(situation, verdict)
    if is_granted(situation.view, DECIDER, claim):
        steps = (*condition_write(situation, SELECTED, reason, found).steps, start_step(situation, verdict.rank, found))
        return Decision(actions=steps, claims=(claim,), marks=marks, until=until)
    refused = refusals(situation.view, DECIDER, claim)
    word = refusal(refused)
    if not word:
        return Decision(claims=(claim,), marks=marks, reasons=refused, until=until)
    show = condition_write(situation, WAITING, word, found)
    return Decision(
        actions=show.steps,
        claims=(claim,),
        marks=(*marks, show.mark),
        reasons=(reason_of(situation, CandidateBlock(word), refused),),
        until=earliest(until, show.until),
    )


def _claim(situation: NoticeSituation, verdict: RoundVerdict) -> Claim:
    assert situation.node is not None
    row = situation.row
    return Claim(situation.node.key, row.key, WANTS, verdict.limits, since=since_of(row), priority=priority_of(row))


def _was_granted(situation: NoticeSituation) -> bool:
    """Whether its claim is already granted. Then the budgets have counted its place."""
    if situation.node is None:
        return False
    claim = Claim(situation.node.key, situation.row.key)
    grant = situation.view.recall(grant_key(hold_key(DECIDER, claim)), Grant)
    return grant is not None and grant.granted
