"""The gauges of the scheduler, from the marks of its decisions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from haulout.cluster.rows import Row
from haulout.surfaces.notify.scheduler.standing import BlockedCandidate, Round, RoundVerdict

Sample = tuple[str, tuple[tuple[str, str], ...], float]
CANDIDATES = "nm_scheduler_candidates"
USED, LIMIT = "nm_scheduler_budget_used", "nm_scheduler_budget_limit"


def samples(rows: Iterable[Row]) -> Iterator[Sample]:
    """Yield how many maintenances wait for each reason, and how full each budget is."""
    reasons: Counter[str] = Counter()
    for row in rows:
        match row:
            case BlockedCandidate() | RoundVerdict():
                reasons[row.reason.partition("(")[0]] += 1
            case Round():
                yield from ((USED, (("budget", name),), float(used)) for name, used in row.used)
                yield from ((LIMIT, (("budget", name),), float(allowed)) for name, allowed in row.allowed)
    for reason, count in sorted(reasons.items()):
        yield CANDIDATES, (("reason", reason),), float(count)
