"""K13: a write that was refused is delayed, and so is every write to a server that asks for a pause (decision 0050).

Only the same write of the same subject waits. The decision runs as before, and may want something else meanwhile.
"""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.kernel.jobs import Job, signature
from haulout.kernel.requests import Answer, Refused
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Wakes

CONFLICT_FOR = timedelta(seconds=1)
# Evictions are paced by the status of the disruption budget. This delay keeps a decision that asks at every look from
# overloading the server.
BUDGET_RETRY_FOR = timedelta(seconds=1)
# The longest pause that a server may ask for: a wrong header must not stop all work.
LONGEST_PAUSE_FOR = timedelta(minutes=5)


class Spans(msgspec.Struct, frozen=True):
    """The delays after failures in a row: the first, then doubling up to the longest."""

    first: timedelta
    longest: timedelta

    def after(self, failures: int) -> timedelta:
        return min(self.first * 2.0 ** min(failures - 1, 10), self.longest)


HOME = Spans(timedelta(seconds=1), timedelta(minutes=1))
# A workload cluster may be unreachable for long, so it is asked less often. Once it is reached again, all delays end.
AWAY = Spans(timedelta(seconds=5), timedelta(minutes=5))


def spans_of(target: Key) -> Spans:
    return AWAY if target.cluster else HOME


class Backoff(msgspec.Struct, frozen=True):
    """The delay of one write that was refused.

    `version`: after a conflict, the version of the target that the server no longer has; a newer one ends the delay.
    """

    failures: int
    not_before: datetime
    target: Key
    version: int | None = None


class Delays:
    """Which writes are delayed until when: by their own refusals, by conflicts, by the pause of a whole server."""

    def __init__(self, loop: Wakes) -> None:
        self._loop = loop
        # The delays of each subject's writes that were refused.
        self.backoffs: dict[Subject, dict[Hashable, Backoff]] = {}
        # The objects of which the server has a version that has not arrived yet, with the subjects whose writes conflicted.
        self.conflicts: dict[Key, set[Subject]] = {}
        self._pauses: dict[str, datetime] = {}

    def until(self, subject: Subject, job: Job, now: datetime) -> datetime | None:
        """Return until when the write is delayed, or None if it may be sent."""
        pause = self._pauses.get(job.target.cluster)
        if pause is not None and pause > now:
            return pause
        waits = self.backoffs.get(subject)
        backoff = waits.get(signature(job)) if waits else None
        if backoff is None:
            return None
        if backoff.not_before > now:
            return backoff.not_before
        if backoff.version is not None and job.target in self.conflicts:
            # A look is under way. Until it is answered, the same write would conflict again.
            return now + CONFLICT_FOR
        return None

    def on_refusal(self, subject: Subject, job: Job, answer: Refused, row: Row | None, now: datetime) -> datetime:
        """Delay a write that the server has refused. Return until when."""
        what = signature(job)
        known = self.backoffs.get(subject, {}).get(what)
        failures = known.failures + 1 if known else 1
        delay, version = spans_of(job.target).after(failures), None
        match answer.code:
            case 409:
                # Another client wrote: wait until its version arrives. If it does not, a look brings it.
                delay, failures, version = CONFLICT_FOR, failures - 1, row.version if row else None
                self.conflicts.setdefault(job.target, set()).add(subject)
            case 429 if answer.by_budget:
                delay = BUDGET_RETRY_FOR
            case 429 if answer.throttles:
                delay = _pause_of(answer)
        until = now + delay
        self.backoffs.setdefault(subject, {})[what] = Backoff(failures, until, job.target, version)
        return until

    def on_success(self, subject: Subject, job: Job) -> None:
        """End the delay of a write that the server has carried out."""
        if subject in self.backoffs:
            self._drop(subject, signature(job))

    def note_pause(self, cluster: str, answer: Answer, now: datetime) -> None:
        """Delay every request to a server whose answer asks for less traffic."""
        if isinstance(answer, Refused) and answer.throttles:
            self._pauses[cluster] = max(now + _pause_of(answer), self._pauses.get(cluster, now))

    def is_paused(self, cluster: str) -> bool:
        """Whether the server has asked for a pause that was not over at the last `tick`."""
        return cluster in self._pauses

    def tick(self, now: datetime) -> None:
        if self._pauses:
            for cluster in [cluster for cluster, until in self._pauses.items() if until <= now]:
                del self._pauses[cluster]

    def has_conflict(self, target: Key) -> bool:
        """Whether a write on the object was refused because the server has a version that has not arrived yet."""
        return target in self.conflicts

    def end_conflict(self, target: Key) -> None:
        """Run the decisions again whose writes conflicted: the object's newer version has arrived."""
        for subject in self.conflicts.pop(target, ()):
            for what, wait in list(self.backoffs.get(subject, {}).items()):
                if wait.target == target and wait.version is not None:
                    self._drop(subject, what)
            self._loop.wake(subject)

    def on_reconnect(self, cluster: str) -> None:
        """End all delays of a cluster that has been reached again, or with other credentials."""
        self._pauses.pop(cluster, None)
        for subject, waits in list(self.backoffs.items()):
            for what in [what for what, wait in waits.items() if wait.target.cluster == cluster]:
                self._drop(subject, what)
                self._loop.wake(subject)

    def rest(self, subject: Subject, now: datetime) -> None:
        """Forget the delays of a subject that wants nothing now, if all of them are long over."""
        waits = self.backoffs.get(subject)
        if waits and all(wait.not_before + spans_of(wait.target).longest < now for wait in waits.values()):
            del self.backoffs[subject]

    def forget(self, subject: Subject) -> None:
        """Forget the delays of a subject that is gone."""
        self.backoffs.pop(subject, None)

    def clear(self) -> None:
        for part in (self.backoffs, self.conflicts, self._pauses):
            part.clear()

    def size(self) -> int:
        return len(self.backoffs) + len(self.conflicts)

    def _drop(self, subject: Subject, what: Hashable) -> None:
        waits = self.backoffs.get(subject)
        if waits and waits.pop(what, None) and not waits:
            del self.backoffs[subject]


def _pause_of(answer: Refused) -> timedelta:
    return timedelta(seconds=min(answer.retry_after or 1, LONGEST_PAUSE_FOR.total_seconds()))
