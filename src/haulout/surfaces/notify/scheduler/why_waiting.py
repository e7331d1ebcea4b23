"""Why the scheduler has not started a maintenance, for people: what it waits for, who can change that, and until when.

Checks that need only API objects are made again. The results of those that depend on pods, alerts and other candidates
come from the condition `schedulerDecision`, which the running scheduler has written.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from haulout.cluster.key import node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Index
from haulout.surfaces.notify.notice.states import has_finalizer, is_final, is_in_flight
from haulout.surfaces.notify.options import Budget, Scheduler
from haulout.surfaces.notify.reasons import TEXTS
from haulout.surfaces.notify.scheduler.budgets import BudgetScope, budgets_of
from haulout.surfaces.notify.scheduler.campaign import FAILED_OF
from haulout.surfaces.notify.scheduler.choose import BUSY, DRY_RUN, UNLIKELY
from haulout.surfaces.notify.scheduler.claims import since_of
from haulout.surfaces.notify.scheduler.eligibility import CandidateBlock, is_flying, lasting_block
from haulout.surfaces.notify.scheduler.show import CONDITION, SELECTED
from haulout.surfaces.notify.scheduler.windows import opening
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import KIND, SCHEDULED, UNPLANNED, NoticeRow

SCHEDULER = "the scheduler of Haulout"
FIT, BUDGET, ALERTS, FAILURES = "DoesNotFit", "BudgetExhausted", "AlertsFiring", "FailureThreshold"
MOST_NAMED = 5
# Only explanations use this index. It is built on first use.
ALL_NOTICES = Index("notices", KIND, lambda row: (KIND,))


class WhyWaiting(msgspec.Struct, frozen=True):
    """Why a maintenance waits.

    `reason`: as in the condition. `actor`: who can change it. `until`: when time alone changes it, if known.
    """

    reason: str
    waits_for: str
    actor: str
    until: datetime | None = None


def why_waiting(situation: NoticeSituation) -> WhyWaiting:
    """Return why the scheduler has not started a maintenance that it is responsible for."""
    block = lasting_block(situation)
    stood = situation.status.condition(CONDITION)
    if block is None and stood is None:
        return WhyWaiting("", "the next choice of the scheduler", SCHEDULER)
    if block is None and stood is not None and stood.status == SELECTED:
        return _selected(situation, stood.reason)
    known = block if block is not None else CandidateBlock(stood.reason if stood is not None else "")
    code = known.reason.partition("(")[0]
    meaning, act = TEXTS.get(code, (f"the scheduler says {known.reason}", ""))
    details = "; ".join(filter(None, (known.detail, *_details(situation, known.reason))))
    actor = f"a person: {act}" if act else SCHEDULER
    text = f"{known.reason}: {meaning}" + (f" ({details})" if details else "")
    return WhyWaiting(known.reason, text, actor, known.until or _until(situation, code))


def _selected(situation: NoticeSituation, reason: str) -> WhyWaiting:
    if reason == DRY_RUN:
        return WhyWaiting(
            reason, "nothing: the scheduler would start it, but dryRun is set", "a person: set dryRun to false"
        )
    return WhyWaiting(reason, "the label and the cordon of its node, for which it was chosen", SCHEDULER)


def _until(situation: NoticeSituation, code: str) -> datetime | None:
    node, settings = situation.node, _settings(situation)
    if code == FIT and node is not None:
        return opening(settings, node.labels, situation.now).closes_at
    return None


def _details(situation: NoticeSituation, reason: str) -> Iterator[str]:
    """Yield details of a reason: names, and what else a person would look up next."""
    code, _, rest = reason.partition("(")
    if code == BUDGET:
        yield from _of_budget(situation, rest.removesuffix(")"))
    elif code == FAILURES:
        failed = situation.view.rows(FAILED_OF, situation.row.maintenance, NoticeRow)
        yield f"failed: {_named(sorted(row.place for row in failed))}"
    elif code == BUSY and situation.node is not None:
        flying = [row.place for row in situation.siblings() if is_flying(row, situation.node)]
        yield f"there: {_named(sorted(flying))}" if flying else ""
    elif code == UNLIKELY:
        yield f"it is started all the same, as starved, at {_starves_at(situation):%Y-%m-%dT%H:%M:%SZ}"
    elif code == ALERTS and (gate := _settings(situation).alert_gate) is not None:
        yield f"query: {gate.query}"


def _of_budget(situation: NoticeSituation, name: str) -> Iterator[str]:
    """Yield which maintenances take the places of a budget, and which come before this one."""
    known = budgets_of(_settings(situation)).get(name)
    if known is None:
        yield f"NodeDisruptionBudget {name}"
        return
    budget, scope = known
    rows = [row for row in situation.view.rows(ALL_NOTICES, KIND, NoticeRow) if row.key != situation.row.key]
    out = [row for row in rows if is_in_flight(row) and _is_under(row, scope, situation)]
    yield f"{_limit(budget)} at most" + (f"; in maintenance: {_named(sorted(row.place for row in out))}" if out else "")
    first = sorted(
        (since_of(row), row.place) for row in rows if _comes_first(row, situation) and _is_under(row, scope, situation)
    )
    if _comes_first(situation.row, situation):
        yield "it is unplanned or starved: places that come free go to such maintenances first, the oldest before the others"
    elif first:
        yield f"the next place is kept for {_named([place for _, place in first])}, unplanned or starved"


def _is_under(row: NoticeRow, scope: BudgetScope, situation: NoticeSituation) -> bool:
    node = situation.view.get(node_key(row.node), NodeRow)
    return node is not None and scope.selects(node.labels)


def _limit(budget: Budget) -> str:
    return (
        f"{budget.max_unavailable} of the nodes {budget.node_selector}"
        if budget.node_selector
        else f"{budget.max_unavailable}"
    )


def _comes_first(row: NoticeRow, situation: NoticeSituation) -> bool:
    """Whether a maintenance that waits is unplanned or starved."""
    if row.state != SCHEDULED or is_final(row) or not has_finalizer(row):
        return False
    settings = _settings(situation)
    is_first = row.type == UNPLANNED and settings.unplanned.first
    return is_first or situation.now >= since_of(row) + settings.starvation_after


def _starves_at(situation: NoticeSituation) -> datetime:
    return since_of(situation.row) + _settings(situation).starvation_after


def _named(places: list[str]) -> str:
    more = len(places) - MOST_NAMED
    return ", ".join(places[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _settings(situation: NoticeSituation) -> Scheduler:
    return situation.options.operators.scheduler
