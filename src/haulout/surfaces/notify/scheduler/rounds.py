"""The choice among all candidates. It is made once for the fleet, soon after something that it depends on has changed.

Candidates publish what it reads as rows, and it publishes a verdict for each. So a place that comes free costs one look at
the candidates, and wakes the one that is chosen.
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
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.scheduler.budgets import Unavailable, allowed_by, budgets_of, limits_of
from haulout.surfaces.notify.scheduler.choose import DRY_RUN, Choice, Outcome, bypasses, choose
from haulout.surfaces.notify.scheduler.standing import (
    CANDIDATE,
    IN_FLIGHT,
    ROUND_KEY,
    STANDINGS,
    VERDICT,
    Candidate,
    Flight,
    Round,
    Verdict,
)
from haulout.surfaces.notify.states import is_final
from haulout.surfaces.notify.wire import KIND, SURFACE, NoticeRow

# What changes together is judged together.
SETTLING_FOR = timedelta(seconds=1)
# So long after a maintenance another may follow: people create many of them one after the other.
ARRIVING_FOR = timedelta(seconds=2)
# After a start, everything that stands has to be seen first.
AFTER_START_FOR = timedelta(seconds=2)
# At most so long maintenances that were just created keep the choice waiting.
UNJUDGED_FOR = timedelta(seconds=10)


class Unjudged(Count, frozen=True):
    """Maintenances that were just created and have no status yet."""

    @property
    def kind(self) -> str:
        return KIND

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NoticeRow) and not row.state and not is_final(row) and row.created_at is not None:
            yield Membership((), row.created_at + UNJUDGED_FOR)


UNJUDGED = Unjudged()


def rank(key: Key, store: Store) -> Rank:
    """Order the choice after all that it reads of the same instant."""
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
    """Choose, unless more may be about to change: then the last choice stands for a moment."""
    last = view.recall(ROUND_KEY, Round)
    standing = view.recall_rows(STANDINGS, VERDICT, Verdict)
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
    """Return when those that are being created one after the other have all come, as far as one waits for that."""
    newest = max((each.since for each in candidates), default=due_at - ARRIVING_FOR)
    return min(newest + ARRIVING_FOR, due_at - SETTLING_FOR + UNJUDGED_FOR)


def _published(choice: Choice, allowed: dict[str, int], options: Options) -> Decision:
    verdicts = tuple(_verdict(outcome, allowed, options) for outcome in choice.outcomes)
    done = Round(
        key=ROUND_KEY,
        until=choice.until,
        used=tuple(sorted(choice.used.items())),
        allowed=tuple(sorted(allowed.items())),
    )
    return Decision(marks=(done, *verdicts), until=choice.until)


def _verdict(outcome: Outcome, allowed: dict[str, int], options: Options) -> Verdict:
    candidate, settings = outcome.candidate, options.operators.scheduler
    key = Key("", MARK, VERDICT, candidate.place)
    if not outcome.chosen:
        return Verdict(key=key, reason=outcome.reason, rank=outcome.rank)
    free = bypasses(candidate, settings)
    limits = () if free else tuple(limits_of(settings, candidate.shares, allowed, out=candidate.out))
    # The gauge of candidates tells a dry run from a start that is under way.
    reason = DRY_RUN if settings.dry_run else outcome.reason
    return Verdict(key=key, chosen=True, reason=reason, rank=outcome.rank, limits=limits)
