"""The order in which candidates are considered: by age, or by fair shares of groups and then by score."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime

from haulout.surfaces.notify.options import Scheduler
from haulout.surfaces.notify.scheduler.score import SHOWN_DECIMALS, Score
from haulout.surfaces.notify.scheduler.standing import Candidate
from haulout.surfaces.notify.wire import NoticeRow

Scored = tuple[Candidate, Score]


def group_of(row: NoticeRow, settings: Scheduler) -> str:
    """Return the group of a maintenance, with which its starts are shared out."""
    match settings.fairness.group_by:
        case "maintenanceID":
            return row.maintenance
        case "owner":
            return row.owner
        case "namespace":
            return row.key.namespace
        case _:
            return ""


def by_age(candidates: Iterable[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda each: (each.since, each.place))


def in_turn(
    candidates: Iterable[Scored],
    in_flight: Mapping[str, int],
    weights: Mapping[str, float],
    take: Callable[[Scored], bool],
) -> Iterator[Scored]:
    """Offer candidates one at a time, each from the group with the least in flight for its weight. Yield those taken.

    `take`: starts a candidate if it can, and returns whether it did. A candidate that does not start does not count, so
    that a node that is hard to drain does not hold up the others of its group.
    """
    members: dict[str, list[Scored]] = {}
    for each in sorted(candidates, key=_merit, reverse=True):
        members.setdefault(each[0].group, []).append(each)
    load = {group: float(in_flight.get(group, 0)) for group in members}

    def entry(group: str) -> tuple[float, float, str]:
        return load[group] / weights.get(group, 1.0), -members[group][-1][1].value, group

    queue = [entry(group) for group in members]
    heapq.heapify(queue)
    while queue:
        group = heapq.heappop(queue)[2]
        best = members[group].pop()
        if take(best):
            load[group] += 1
            yield best
        if members[group]:
            heapq.heappush(queue, entry(group))


def _merit(each: Scored) -> tuple[float, float, float, datetime, str]:
    """Return the sort key of a candidate: score, then age, then name. The best candidate has the least.

    Lost work counts in the score only up to a bound. So among candidates whose shown scores are equal, the one with
    less lost work comes first.
    """
    candidate, score = each
    return -round(score.value, SHOWN_DECIMALS), score.lost, -score.value, candidate.since, candidate.place
