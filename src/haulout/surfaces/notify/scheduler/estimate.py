"""The estimate of how long a node takes to drain, from its pods.

An estimate consists of instants and spans that do not move with the clock, so it changes only when a pod does. Its
value in seconds is computed for the instant of the question.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

import msgspec

from haulout.base.duration import DurationError, parse
from haulout.base.number import digits
from haulout.cluster.rows import PodRow
from haulout.core.decision import earliest
from haulout.core.drain.options import Act
from haulout.surfaces.notify.config_file.rules import moment
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.scheduler.history import MIN_SAMPLES, Samples

EXPECTED_END = "haulout.dev/expected-end"
EXPECTED_DURATION = "haulout.dev/expected-duration"
POD_ANNOTATIONS = frozenset({EXPECTED_END, EXPECTED_DURATION})

DEFAULT_GRACE = 30
BUDGET_DELAY = 600
# A pod that has run longer than expected is expected to run for this share of its age again.
OVERRUN = 0.1


class PodWork(msgspec.Struct, frozen=True):
    """A finite pod that is waited for.

    `started_at`, `ends_at`: since when it runs, and until when it is expected to. `weight`: its number of devices.
    `overruns`: its end is only assumed, and moves on if the pod runs longer.
    """

    started_at: datetime
    ends_at: datetime
    weight: int = 1
    overruns: bool = False

    def seconds(self, now: datetime) -> float:
        remaining = (self.ends_at - now).total_seconds()
        return (
            max(remaining, OVERRUN * (now - self.started_at).total_seconds()) if self.overruns else max(0.0, remaining)
        )


class Estimate(msgspec.Struct, frozen=True):
    """How long a node takes to drain.

    `ends_at`: the last end that was announced for a pod.
    `constant`: the seconds of the slowest pod that ends only when it is evicted.
    `works`: the finite pods that are waited for.
    `blocked`: how many pods are blocked by their budgets.
    `most`: the seconds after which pods are removed by force; None: never.
    `changes_at`: when time alone changes the estimate.
    """

    ends_at: datetime | None = None
    constant: float = 0.0
    works: tuple[PodWork, ...] = ()
    blocked: int = 0
    most: float | None = None
    changes_at: datetime | None = None

    def drain_seconds(self, now: datetime) -> float:
        remaining = max(0.0, (self.ends_at - now).total_seconds()) if self.ends_at is not None else 0.0
        seconds = max(remaining, self.constant, *(work.seconds(now) for work in self.works)) if self.works else None
        found = max(remaining, self.constant) if seconds is None else seconds
        return found if self.most is None else min(found, self.most)

    def lost_seconds(self, now: datetime, sla_for: timedelta) -> float:
        """Return the device-seconds of work that would be lost when the SLA expires."""
        limit = sla_for.total_seconds()
        cut = (work for work in self.works if self._capped(work.seconds(now)) > limit)
        return sum(max(0.0, (now - work.started_at).total_seconds()) * work.weight for work in cut)

    def _capped(self, seconds: float) -> float:
        return seconds if self.most is None else min(seconds, self.most)

    def falls_to(self, seconds: float) -> datetime | None:
        """Return when the estimate falls to so many seconds as time passes; None if it never does."""
        ends = [work.ends_at for work in self.works] + ([self.ends_at] if self.ends_at is not None else [])
        if self.constant > seconds or not ends:
            return None
        return max(ends) - timedelta(seconds=seconds)


class PodContext(msgspec.Struct, frozen=True):
    """What an estimate needs of a pod beside its row.

    `act`: what a drain does with it. `blocked`: its budget blocks it. `samples`: how long pods of its workload ran.
    """

    act: Act
    blocked: bool = False
    samples: Samples = ()


class _Part(msgspec.Struct, frozen=True):
    ends_at: datetime | None = None
    constant: float = 0.0
    work: PodWork | None = None
    changes_at: datetime | None = None


def estimate(
    pods: Iterable[PodRow], context: Callable[[PodRow], PodContext], options: Options, now: datetime
) -> Estimate:
    """Return the estimate for a node with these pods."""
    contexts = [(pod, context(pod)) for pod in pods]
    blocking = [(pod, known) for pod, known in contexts if known.act is not Act.IGNORE]
    parts = [_part(pod, known, options, now) for pod, known in blocking]
    return Estimate(
        ends_at=max((part.ends_at for part in parts if part.ends_at is not None), default=None),
        constant=max((part.constant for part in parts), default=0.0),
        works=tuple(part.work for part in parts if part.work is not None),
        blocked=sum(known.blocked for _, known in blocking),
        most=_most(options),
        changes_at=earliest(*(part.changes_at for part in parts)),
    )


def _most(options: Options) -> float | None:
    drainer = options.operators.drainer
    forces = drainer.enabled and drainer.after_sla == "Force" and drainer.pdb_timeout >= timedelta()
    return (options.sla_for + drainer.pdb_timeout).total_seconds() if forces else None


def _part(pod: PodRow, known: PodContext, options: Options, now: datetime) -> _Part:
    if pod.deleting_at is not None:
        return _Part(ends_at=pod.deleting_at)
    started_at = _started_at(pod, now)
    announced = _announced(pod, started_at)
    if known.act is Act.WAIT:
        return _finite(pod, known, options, started_at, announced, now)
    if announced is not None:
        return _Part(ends_at=announced)
    if known.act is Act.BLOCK:
        return _Part(constant=options.sla_for.total_seconds())
    grace = DEFAULT_GRACE if pod.spec.grace_for is None else pod.spec.grace_for
    return _Part(constant=grace + (BUDGET_DELAY if known.blocked else 0))


def _started_at(pod: PodRow, now: datetime) -> datetime:
    started_at = pod.details.started_at if pod.details is not None else None
    return started_at or pod.created_at or now


def _announced(pod: PodRow, started_at: datetime) -> datetime | None:
    """Return the end that the owner of a pod has announced; None if there is none or it cannot be read."""
    at = moment(pod.annotations.get(EXPECTED_END, ""))
    if at is not None:
        return at
    try:
        return started_at + parse(pod.annotations[EXPECTED_DURATION])
    except (KeyError, DurationError, OverflowError):
        return None


def _finite(
    pod: PodRow, known: PodContext, options: Options, started_at: datetime, announced: datetime | None, now: datetime
) -> _Part:
    weight = _weight(pod, options.operators.scheduler.gpu_resources)
    if announced is not None:
        return _Part(work=PodWork(started_at, announced, weight))
    age = (now - started_at).total_seconds()
    longer = sorted(seconds for seconds in known.samples if seconds > age)
    if len(longer) >= MIN_SAMPLES:
        ends_at = started_at + timedelta(seconds=_median(longer))
        # At this instant the pod outruns its next sample, and the median changes.
        return _Part(work=PodWork(started_at, ends_at, weight), changes_at=started_at + timedelta(seconds=longer[0]))
    deadline_for = pod.details.deadline_for if pod.details is not None else None
    if deadline_for is not None:
        return _Part(work=PodWork(started_at, started_at + timedelta(seconds=deadline_for), weight))
    ends_at = started_at + options.operators.scheduler.default_run_to_completion
    return _Part(work=PodWork(started_at, ends_at, weight, overruns=True))


def _weight(pod: PodRow, resources: Iterable[str]) -> int:
    limits = pod.details.limits if pod.details is not None else {}
    amounts = (limits.get(name, "0") for name in resources)
    return max(1, sum(digits(amount) or 0 for amount in amounts))


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
