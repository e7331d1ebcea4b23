"""The checks that a maintenance must pass before the scheduler may choose it. The first one that fails is reported."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import msgspec

from haulout.base.duration import DurationError, parse
from haulout.cluster.rows import NodeRow, Row
from haulout.core.budgets.cover import cover_of
from haulout.core.decision import earliest
from haulout.core.holds import HOLDS_OF_NODE, Hold, Want, is_kept_by_others
from haulout.core.override import override_changes_at, passed_override
from haulout.surfaces.notify.config_file.rules import moment
from haulout.surfaces.notify.notice.states import (
    DRAINING,
    has_finalizer,
    is_final,
    is_in_flight,
    is_labelled,
    is_terminal,
)
from haulout.surfaces.notify.options import Scheduler
from haulout.surfaces.notify.scheduler.alerts import is_closed
from haulout.surfaces.notify.scheduler.campaign import is_halted
from haulout.surfaces.notify.scheduler.choose import BUSY, exhausted_reason
from haulout.surfaces.notify.scheduler.estimate import OVERRUN, Estimate
from haulout.surfaces.notify.scheduler.windows import Opening, opening
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import (
    EXPECTED_MAINTENANCE,
    HOLD,
    NOT_BEFORE,
    SCHEDULED,
    SURFACE,
    UNPLANNED,
    NoticeRow,
)


class CandidateBlock(msgspec.Struct, frozen=True):
    """Why a maintenance may not be chosen.

    `until`: the instant before which time alone does not change that.
    """

    reason: str
    until: datetime | None = None
    detail: str = ""


class Eligibility(msgspec.Struct, frozen=True):
    """Whether a maintenance may be chosen.

    `block`: why not.
    `joins`: its node is being drained for another maintenance, so it joins that one without being chosen.
    """

    block: CandidateBlock | None = None
    joins: bool = False
    until: datetime | None = None


Check = Callable[[NoticeSituation], CandidateBlock | None]


def judge(situation: NoticeSituation, estimate: Estimate, *, granted: bool) -> Eligibility:
    """Return whether a maintenance may be chosen. `granted`: its claim on the node is already granted."""
    for check in CHECKS:
        block = check(situation)
        if block is not None:
            return Eligibility(block)
    open_for, until = _open_for(situation, estimate)
    if open_for is not None:
        return Eligibility(open_for)
    assert situation.node is not None
    flying = [row for row in situation.siblings() if is_flying(row, situation.node)]
    if flying and not _may_join(flying, situation.node, situation.options.operators.scheduler):
        return Eligibility(CandidateBlock(BUSY, detail=f"{flying[0].place} is in maintenance there"))
    if not situation.options.alone and not granted:
        foreign = _foreign(situation) or (None if flying else _refused_by_budgets(situation))
        until = earliest(until, override_changes_at(situation.row.key, situation.view, situation.now))
        if foreign is not None:
            return Eligibility(foreign, until=until)
    return Eligibility(joins=bool(flying), until=until)


def lasting_block(situation: NoticeSituation) -> CandidateBlock | None:
    """Return why a maintenance may not be chosen, as far as its own objects and the clock show."""
    found = next(filter(None, (check(situation) for check in CHECKS if check is not _alerts)), None)
    return found if found is not None else _open_for(situation, Estimate())[0]


def is_flying(row: NoticeRow, node: NodeRow) -> bool:
    """Whether a maintenance keeps the node out of service, or has just claimed it."""
    return is_in_flight(row) or is_claimed(row, node)


def is_claimed(row: NoticeRow, node: NodeRow) -> bool:
    return row.state == SCHEDULED and has_finalizer(row) and is_labelled(row, node) and node.unschedulable


def is_planned(row: NoticeRow) -> bool:
    return row.type != UNPLANNED


def _held(situation: NoticeSituation) -> CandidateBlock | None:
    return CandidateBlock("Held") if situation.row.annotations.get(HOLD) == "true" else None


def _not_before(situation: NoticeSituation) -> CandidateBlock | None:
    at = moment(situation.row.annotations.get(NOT_BEFORE, ""))
    return CandidateBlock("NotBefore", at) if at is not None and situation.now < at else None


def _no_node(situation: NoticeSituation) -> CandidateBlock | None:
    return CandidateBlock("NodeNotFound") if situation.node is None else None


def _cordoned_elsewhere(situation: NoticeSituation) -> CandidateBlock | None:
    """Return the block of a node that another operator or a person has cordoned."""
    node, settings = situation.node, situation.options.operators.scheduler
    assert node is not None
    if not node.unschedulable or settings.adopt_cordoned:
        return None
    rows = [situation.row, *situation.siblings()]
    if any(is_labelled(row, node) and has_finalizer(row) for row in rows):
        return None
    if not situation.options.alone and is_kept_by_others(situation.view, node.key, SURFACE):
        return None
    return CandidateBlock("NodeCordonedElsewhere")


def _halted(situation: NoticeSituation) -> CandidateBlock | None:
    return (
        CandidateBlock("FailureThreshold")
        if is_halted(situation.row.maintenance, _settings(situation), situation.view)
        else None
    )


def _alerts(situation: NoticeSituation) -> CandidateBlock | None:
    return (
        CandidateBlock("AlertsFiring")
        if is_planned(situation.row) and is_closed(_settings(situation).alert_gate, situation.view)
        else None
    )


# The order is for people: reasons that they can do something about come first.
CHECKS: tuple[Check, ...] = (_held, _not_before, _no_node, _cordoned_elsewhere, _halted, _alerts)


def _settings(situation: NoticeSituation) -> Scheduler:
    return situation.options.operators.scheduler


def _open_for(situation: NoticeSituation, estimate: Estimate) -> tuple[CandidateBlock | None, datetime | None]:
    """Return the block by windows or blackouts; if there is none, until when a start is allowed."""
    settings, node = _settings(situation), situation.node
    assert node is not None
    if not is_planned(situation.row) and settings.unplanned.bypass_windows:
        return None, None
    found = opening(settings, node.labels, situation.now)
    if found.reason:
        return CandidateBlock(found.reason, found.until), None
    if settings.require_fit and found.closes_at is not None:
        return _fitting(situation, estimate, found)
    return None, found.until


def _fitting(
    situation: NoticeSituation, estimate: Estimate, open_now: Opening
) -> tuple[CandidateBlock | None, datetime | None]:
    closes_at = open_now.closes_at
    assert closes_at is not None
    lasts_for = expected_for(situation)
    ends_at = situation.now + timedelta(seconds=estimate.drain_seconds(situation.now)) + lasts_for
    if ends_at > closes_at:
        return CandidateBlock("DoesNotFit", closes_at), None
    return None, min(closes_at, *_fits_until(estimate, closes_at - lasts_for))


def expected_for(situation: NoticeSituation) -> timedelta:
    """Return how long the work of the maintenance is expected to take, after the drain."""
    try:
        return parse(situation.row.annotations[EXPECTED_MAINTENANCE])
    except (KeyError, DurationError):
        return _settings(situation).default_maintenance


def _fits_until(estimate: Estimate, drained_by: datetime) -> list[datetime]:
    """Return the last instants at which the drain may begin to end in time, for each part of the estimate."""
    found = [drained_by - timedelta(seconds=estimate.constant)]
    for work in estimate.works:
        if work.overruns:
            overrun = OVERRUN * (drained_by - work.started_at) / (1 + OVERRUN)
            found.append(drained_by - overrun)
    return found


def _may_join(flying: list[NoticeRow], node: NodeRow, settings: Scheduler) -> bool:
    drains = all(row.state in DRAINING and not is_final(row) and not is_terminal(row) for row in flying)
    return settings.stacking == "Join" and node.unschedulable and drains


def _foreign(situation: NoticeSituation) -> CandidateBlock | None:
    """Return the block if another surface works on the node."""
    assert situation.node is not None
    for hold in situation.view.rows(HOLDS_OF_NODE, situation.node.key, Row):
        if not isinstance(hold, Hold) or hold.surface == SURFACE:
            continue
        if hold.claim.begun and Want.EXCLUSIVE in hold.claim.wants:
            return CandidateBlock("ForeignMaintenance", detail=f"{hold.surface} is working on the node")
    return None


def _refused_by_budgets(situation: NoticeSituation) -> CandidateBlock | None:
    """Return the block if a NodeDisruptionBudget has no place.

    Then the node is not a candidate, and does not take a place that another one could use.
    """
    assert situation.node is not None
    cover = cover_of(situation.node.key, situation.view)
    if cover is None:
        return None
    owner, view, now = situation.row.key, situation.view, situation.now
    held = is_kept_by_others(view, situation.node.key, SURFACE)
    override = passed_override(owner, cover.budgets, view, now)
    needs = cover.needs(SURFACE, held=held, passes=override.limit if override is not None else "")
    full = view.unmet(need.rooms for need in needs) if needs else frozenset()
    name = next((need.ruling.budget.name for need in needs if need.rooms in full), None)
    return CandidateBlock(exhausted_reason(name)) if name is not None else None
