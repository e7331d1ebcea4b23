"""The choice of the candidates that start, made over all of them within the budgets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

from haulout.core.decision import earliest
from haulout.surfaces.notify.options import Options, Scheduler
from haulout.surfaces.notify.scheduler.budgets import budgets_of
from haulout.surfaces.notify.scheduler.fairness import Scored, by_age, in_turn
from haulout.surfaces.notify.scheduler.score import longest_drain, score
from haulout.surfaces.notify.scheduler.standing import Candidate, Flight

UNPLANNED, STARVED, PLANNED = "unplanned", "starved", "planned"
SELECTED, UNLIKELY, BUSY, DRY_RUN = "Selected", "UnlikelyToDrain", "NodeBusy", "DryRun"


class CandidateResult(msgspec.Struct, frozen=True):
    """The result of the choice for one candidate.

    `reason`: `Selected`, or why it was not chosen. `rank`: unplanned, starved or planned.
    """

    candidate: Candidate
    reason: str
    rank: str

    @property
    def chosen(self) -> bool:
        return self.reason == SELECTED


class RoundChoice(msgspec.Struct, frozen=True):
    """The result of the choice for all candidates.

    `used`: how many nodes are out under each budget. `until`: when time alone may change the result.
    """

    outcomes: tuple[CandidateResult, ...]
    used: Mapping[str, int]
    until: datetime | None = None


def exhausted_reason(budget: str) -> str:
    return f"BudgetExhausted({budget})"


class BudgetPlaces:
    """The places that are taken under each budget while the choice is made."""

    def __init__(self, settings: Scheduler, allowed: Mapping[str, int], used: Mapping[str, int]) -> None:
        self._settings = settings
        self._allowed = allowed
        self.used = Counter(used)
        self._domains: Counter[tuple[str, str]] = Counter()
        self._nodes: set[str] = set()
        self._closed: set[str] = set()

    def holds(self, node: str) -> bool:
        return node in self._nodes

    def take(self, standing: Candidate | Flight) -> None:
        """Count a node under its budgets, once for all its maintenances."""
        if standing.node in self._nodes:
            return
        self._nodes.add(standing.node)
        for share in standing.shares:
            self.used[share.budget] += not standing.out
            if share.domain is not None:
                self._domains[share.budget, share.domain] += 1

    def full(self, candidate: Candidate, *, reserved: bool) -> str | None:
        """Return the budget that has no place for a candidate; None if all have one.

        `reserved`: also refuse places that are kept for candidates that come first.
        """
        for share in candidate.shares:
            topology = budgets_of(self._settings)[share.budget][0].per_topology
            over = self.used[share.budget] + (not candidate.out) > self._allowed[share.budget]
            crowded = (
                topology is not None
                and share.domain is not None
                and self._domains[share.budget, share.domain] >= topology.max
            )
            if over or crowded or (reserved and share.budget in self._closed):
                return share.budget
        return None

    def close(self, budget: str) -> None:
        """Keep the next free places of a budget for a waiting candidate that comes first."""
        self._closed.add(budget)


def choose(
    candidates: Iterable[Candidate],
    flights: Iterable[Flight],
    standing: frozenset[str],
    used: Mapping[str, int],
    allowed: Mapping[str, int],
    options: Options,
    now: datetime,
) -> RoundChoice:
    """Choose which candidates start.

    `flights`: the maintenances that keep nodes out of service.
    `standing`: the names of candidates that were chosen before, which stay chosen.
    `used`: how many nodes are out of service under each budget, by their own rows. `allowed`: how many may be.
    """
    settings = options.operators.scheduler
    places = BudgetPlaces(settings, allowed, used)
    in_flight = Counter[str]()
    for flight in flights:
        places.take(flight)
        in_flight[flight.group] += 1
    ranked = [(each, rank_of(each, settings, now)) for each in candidates]
    outcomes: list[CandidateResult] = []
    for candidate, rank in ranked:
        if candidate.place in standing and not places.holds(candidate.node):
            places.take(candidate)
            in_flight[candidate.group] += 1
            outcomes.append(CandidateResult(candidate, SELECTED, rank))
    chosen = {outcome.candidate.place for outcome in outcomes}
    waiting = [(each, rank) for each, rank in ranked if each.place not in chosen]
    for rank in (UNPLANNED, STARVED):
        for candidate in by_age(each for each, found in waiting if found == rank):
            outcomes.append(_first(candidate, rank, places, settings))
    longest = longest_drain(settings.min_likelihood, settings.half_life.total_seconds())

    def take(each: Scored) -> bool:
        outcomes.append(_rest(each, places, longest, settings))
        return outcomes[-1].chosen

    scored: list[Scored] = []
    for candidate in (each for each, rank in waiting if rank == PLANNED):
        # While its budget is full, which is nearly always so, a candidate need not be scored.
        full = None if settings.min_likelihood > 0 else _full(candidate, places, settings, reserved=True)
        if full is not None and not places.holds(candidate.node):
            outcomes.append(CandidateResult(candidate, exhausted_reason(full), PLANNED))
        else:
            scored.append((candidate, score(candidate.estimate, candidate.since, candidate.priority, options, now)))
    for _ in in_turn(scored, in_flight, settings.fairness.weights, take):
        pass
    unlikely = (outcome.candidate for outcome in outcomes if outcome.reason == UNLIKELY)
    until = earliest(*(_likely_at(each, longest, settings, now) for each in unlikely))
    return RoundChoice(tuple(outcomes), dict(places.used), until)


def rank_of(candidate: Candidate, settings: Scheduler, now: datetime) -> str:
    if candidate.unplanned and settings.unplanned.first:
        return UNPLANNED
    return STARVED if now >= candidate.since + settings.starvation_after else PLANNED


def bypasses(candidate: Candidate, settings: Scheduler) -> bool:
    """Whether a candidate needs no place under any budget."""
    return candidate.unplanned and settings.unplanned.bypass_budgets


def _full(candidate: Candidate, places: BudgetPlaces, settings: Scheduler, *, reserved: bool) -> str | None:
    return None if bypasses(candidate, settings) else places.full(candidate, reserved=reserved)


def _first(candidate: Candidate, rank: str, places: BudgetPlaces, settings: Scheduler) -> CandidateResult:
    """Judge an unplanned or starved candidate. A budget that refuses it keeps its next place for it."""
    if places.holds(candidate.node):
        return CandidateResult(candidate, BUSY, rank)
    budget = _full(candidate, places, settings, reserved=False)
    if budget is not None:
        places.close(budget)
        return CandidateResult(candidate, exhausted_reason(budget), rank)
    places.take(candidate)
    return CandidateResult(candidate, SELECTED, rank)


def _rest(each: Scored, places: BudgetPlaces, longest: float, settings: Scheduler) -> CandidateResult:
    candidate, found = each
    if places.holds(candidate.node):
        return CandidateResult(candidate, BUSY, PLANNED)
    # An unplanned maintenance may start even if its node is unlikely to drain soon.
    if found.drain > longest and not candidate.unplanned:
        return CandidateResult(candidate, UNLIKELY, PLANNED)
    budget = _full(candidate, places, settings, reserved=True)
    if budget is not None:
        return CandidateResult(candidate, exhausted_reason(budget), PLANNED)
    places.take(candidate)
    return CandidateResult(candidate, SELECTED, PLANNED)


def _likely_at(candidate: Candidate, longest: float, settings: Scheduler, now: datetime) -> datetime | None:
    """Return when a candidate that is unlikely to drain becomes likely to drain, or starved."""
    falls_at = candidate.estimate.falls_to(longest)
    starves_at = candidate.since + settings.starvation_after
    return earliest(starves_at, falls_at if falls_at is not None and falls_at > now else None)
