"""The round: one choice among all candidates of the fleet, made soon after its inputs have changed.

Candidates publish its inputs as rows, and the round publishes a verdict row for each. So a free place costs one look at
the candidates, and wakes only those whose verdict changes.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Membership
from haulout.cluster.rows import Row
from haulout.cluster.store import Store
from haulout.cluster.view import MARK, View
from haulout.core.decision import NOTHING, Decision
from haulout.core.holds import MOST_PRIORITY, Rank
from haulout.surfaces.notify.notice.states import is_final
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.scheduler.budgets import Unavailable, allowed_by, budgets_of, limits_of
from haulout.surfaces.notify.scheduler.choose import DRY_RUN, CandidateResult, RoundChoice, bypasses, choose
from haulout.surfaces.notify.scheduler.standing import (
    CANDIDATE,
    IN_FLIGHT,
    ROUND_KEY,
    STANDINGS,
    VERDICT,
    Candidate,
    Flight,
    Round,
    RoundVerdict,
)
from haulout.surfaces.notify.wire import KIND, SURFACE, NoticeRow

# The choice waits this long, so that changes that happen together are judged together.
SETTLING_FOR = timedelta(seconds=1)
# After a new maintenance the choice waits this long for more, because people create many of them one after the other.
ARRIVING_FOR = timedelta(seconds=2)
# After a start of the process the choice waits this long, until all existing maintenances have been read.
AFTER_START_FOR = timedelta(seconds=2)
# New maintenances without a status delay the choice by at most this long.
UNJUDGED_FOR = timedelta(seconds=10)


class Unjudged(Count, frozen=True):
    """The count of new maintenances that have no status yet."""

    @property
    def kind(self) -> str:
        return KIND

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NoticeRow) and not row.state and not is_final(row) and row.created_at is not None:
            yield Membership((), row.created_at + UNJUDGED_FOR)


UNJUDGED = Unjudged()


def rank(key: Key, store: Store) -> Rank:
    """Return the rank that puts the choice after everything that it reads and that is due at the same instant."""
    return Rank(MOST_PRIORITY)


def decide(key: Key, view: View, now: datetime) -> Decision:
    if key.name != SURFACE:
        return NOTHING
    setting = view.config(SURFACE)
    if setting is None:
        return NOTHING
    assert isinstance(setting.value, Options)
    if not setting.value.operators.scheduler.enabled:
        return NOTHING
    return _settled(setting.value, view, now)


def _settled(options: Options, view: View, now: datetime) -> Decision:
    """Choose, unless more changes may follow soon. Until then the last choice stays in force."""
    last = view.recall(ROUND_KEY, Round)
    standing = view.recall_rows(STANDINGS, VERDICT, RoundVerdict)
    candidates = view.rows(STANDINGS, CANDIDATE, Candidate)
    flights = view.rows(STANDINGS, IN_FLIGHT, Flight)
    settings = options.operators.scheduler
    allowed = {name: allowed_by(budget, scope, view) for name, (budget, scope) in budgets_of(settings).items()}
    used = {name: view.count(Unavailable(scope, name), ()) for name, (_, scope) in budgets_of(settings).items()}
    unjudged = view.at_least(UNJUDGED, (), 1)
    if last is None:
        due_at: datetime | None = now + AFTER_START_FOR
        return Decision(marks=(Round(key=ROUND_KEY, due_at=due_at),), until=due_at)
    due_at = last.due_at or now + SETTLING_FOR
    chosen_at = max(due_at, _arrived_at(candidates, due_at))
    if unjudged or now < chosen_at:
        kept = Round(key=ROUND_KEY, due_at=due_at, used=last.used, allowed=last.allowed)
        return Decision(marks=(kept, *standing), until=None if unjudged and now >= chosen_at else chosen_at)
    chosen = frozenset(row.key.name for row in standing if row.chosen)
    choice = choose(candidates, flights, chosen, used, allowed, options, now)
    return _published(choice, allowed, options)


def _arrived_at(candidates: Iterable[Candidate], due_at: datetime) -> datetime:
    """Return when maintenances that are created one after the other will all have arrived, within a limit."""
    newest = max((each.since for each in candidates), default=due_at - ARRIVING_FOR)
    return min(newest + ARRIVING_FOR, due_at - SETTLING_FOR + UNJUDGED_FOR)


def _published(choice: RoundChoice, allowed: dict[str, int], options: Options) -> Decision:
    verdicts = tuple(_verdict(outcome, allowed, options) for outcome in choice.outcomes)
    done = Round(
        key=ROUND_KEY,
        until=choice.until,
        used=tuple(sorted(choice.used.items())),
        allowed=tuple(sorted(allowed.items())),
    )
    return Decision(marks=(done, *verdicts), until=choice.until)


def _verdict(outcome: CandidateResult, allowed: dict[str, int], options: Options) -> RoundVerdict:
    candidate, settings = outcome.candidate, options.operators.scheduler
    key = Key("", MARK, VERDICT, candidate.place)
    if not outcome.chosen:
        return RoundVerdict(key=key, reason=outcome.reason, rank=outcome.rank)
    free = bypasses(candidate, settings)
    limits = () if free else tuple(limits_of(settings, candidate.shares, allowed, out=candidate.out))
    # The gauge of candidates shows the reason, so that a dry run can be told from a start.
    reason = DRY_RUN if settings.dry_run else outcome.reason
    return RoundVerdict(key=key, chosen=True, reason=reason, rank=outcome.rank, limits=limits)
