"""How well a maintenance fits now: the likelihood that its node drains soon, and the score that orders candidates."""

from __future__ import annotations

import math
from datetime import datetime

import msgspec

from haulout.base.duration import to_text
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.scheduler.estimate import Estimate
from haulout.surfaces.notify.scheduler.seconds import whole

MOST_BLOCKED = 5
MOST_PRIORITY = 100
SHOWN_DECIMALS = 3


class Score(msgspec.Struct, frozen=True):
    """A score with what it is made of. `lost`: the device-seconds that the SLA would cut off, if lost work has a weight."""

    value: float
    likelihood: float
    drain: float
    lost: float = 0.0

    def __str__(self) -> str:
        value, likely = (f"{each:.{SHOWN_DECIMALS}f}" for each in (self.value, self.likelihood))
        return f"score={value} likelihood={likely} drain={to_text(whole(self.drain))}"


def likelihood(drain_seconds: float, half_life: float) -> float:
    """Return 1 for an empty node, and half as much for each half-life that its drain takes."""
    return float(2.0 ** (-drain_seconds / half_life))


def longest_drain(least: float, half_life: float) -> float:
    """Return the seconds that a drain may take for a likelihood of at least this."""
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
