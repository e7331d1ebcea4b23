"""The score of a candidate, and the likelihood that its node drains soon."""

from __future__ import annotations

import math
from datetime import datetime, timedelta

import msgspec

from haulout.base.duration import to_text
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.scheduler.estimate import Estimate

MOST_BLOCKED = 5
MOST_PRIORITY = 100
SHOWN_DECIMALS = 3


class Score(msgspec.Struct, frozen=True):
    """The score of a candidate, and its parts.

    `drain`: the estimated seconds of its drain. `lost`: the device-seconds of work that would be lost when the SLA
    expires; 0 if lost work has no weight.
    """

    value: float
    likelihood: float
    drain: float
    lost: float = 0.0

    def __str__(self) -> str:
        value, likely = (f"{each:.{SHOWN_DECIMALS}f}" for each in (self.value, self.likelihood))
        return f"score={value} likelihood={likely} drain={to_text(timedelta(seconds=round(self.drain)))}"


def likelihood(drain_seconds: float, half_life: float) -> float:
    """Return 1 for an empty node. It halves with each half-life that the drain takes."""
    return float(2.0 ** (-drain_seconds / half_life))


def longest_drain(least: float, half_life: float) -> float:
    """Return how many seconds a drain may take to have at least this likelihood."""
    return half_life * math.log2(1 / least) if least > 0 else math.inf


def score(estimate: Estimate, since: datetime, priority: int, options: Options, now: datetime) -> Score:
    settings = options.operators.scheduler
    weights = settings.weights
    drain = estimate.drain_seconds(now)
    likely = likelihood(drain, settings.half_life.total_seconds())
    lost = estimate.lost_seconds(now, options.sla_for)
    share = lost / settings.lost_work_scale.total_seconds()
    starving = settings.starvation_after.total_seconds()
    waited = (now - since).total_seconds() / starving if starving > 0 else 1.0
    value = (
        weights.drain * likely
        - weights.pdb * min(1.0, estimate.blocked / MOST_BLOCKED)
        - weights.lost_work * min(1.0, share)
        + weights.age * min(1.0, max(0.0, waited))
        + weights.priority * bounded(priority) / MOST_PRIORITY
    )
    return Score(value, likely, drain, lost if weights.lost_work > 0 else 0.0)


def bounded(priority: int) -> int:
    return min(max(priority, -MOST_PRIORITY), MOST_PRIORITY)
