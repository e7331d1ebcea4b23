"""What the answer to a write changes: the row, the expectation, the delays, and what later steps rely upon."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.rows import ObjectRow, PodRow, Row
from haulout.cluster.store import Store
from haulout.core.action import Evict
from haulout.core.logbook.notes import MovedPods, note_key
from haulout.kernel.delays import CONFLICT_FOR, Delays
from haulout.kernel.effects import Effects
from haulout.kernel.jobs import Job
from haulout.kernel.looks import Looks
from haulout.kernel.outcomes import Outcomes
from haulout.kernel.requests import Answer, Body, Change, Done, Lost, Refused, Withdrawn
from haulout.kernel.statements import Statements
from haulout.kernel.steps import Steps
from haulout.kernel.timers import Timers
from haulout.kernel.wakes import Reports, Wakes
from haulout.kernel.work import Work

# The fields of a row that an answer with metadata alone brings.
METADATA = ("version", "labels", "annotations", "finalizers", "deleting_at")


class Answers:
    """Takes in the answers to writes."""

    def __init__(
        self,
        store: Store,
        loop: Wakes,
        reports: Reports,
        *,
        timers: Timers,
        steps: Steps,
        delays: Delays,
        effects: Effects,
        looks: Looks,
        statements: Statements,
        outcomes: Outcomes,
    ) -> None:
        self._store = store
        self._loop = loop
        self._reports = reports
        self._timers = timers
        self._steps = steps
        self._delays = delays
        self._effects = effects
        self._looks = looks
        self._statements = statements
        self._outcomes = outcomes

    def take(self, work: Work, job: Job, body: Body, answer: Answer, now: datetime) -> None:
        """Take in the answer to a write, or the fact that none came."""
        match answer:
            case Done():
                self._done(work, job, body, answer, now)
            case Lost():
                self._lost(work, job, body, now)
            case Withdrawn():
                work.is_refused = True
                self._effects.unexpect(job.target)
                self._loop.wake(work.subject)
            case Refused():
                self._effects.unexpect(job.target)
                self._refused(work, job, body, answer, now)

    def _done(self, work: Work, job: Job, body: Body, answer: Done, now: datetime) -> None:
        self._delays.on_success(work.subject, job)
        count_moved_pod(self._store, job, work.basis[job.target])
        self._take_row(work, job, answer)
        if job.ends or (answer.row is None and answer.metadata is None):
            self._effects.await_seen(work.subject, job, body, now)
        self._effects.unexpect(job.target)

    def _take_row(self, work: Work, job: Job, answer: Done) -> None:
        """Make the answer the new row. The later steps of the decision may rely on it."""
        decided, answered = work.basis[job.target], answer.row
        if answered is not None:
            self._store.answer(answered)
        elif answer.metadata is not None and isinstance(decided, ObjectRow) and decided.uid == answer.metadata.uid:
            # No other client wrote between the version that the patch named and this answer, so the other fields are as
            # in our row.
            answered = _with_metadata(decided, answer.metadata)
            row = self._store.row(job.target)
            # Removing the last finalizer deletes the object, and the answer has the version from before.
            if row is not None and (row is decided or (row.uid == answered.uid and row.version < answered.version)):
                self._store.answer(answered)
        row = self._store.row(job.target)
        # If another client has written since, the decision has not read that row, and its later steps must not rely on
        # it.
        if answered is None or job.ends or (row is not None and _are_alike(row, answered)):
            work.basis[job.target] = row

    def _lost(self, work: Work, job: Job, body: Body, now: datetime) -> None:
        statements = work.statements_of(job)
        work.is_refused = True
        self._reports.on_lost_answer(work.subject)
        if not self._effects.await_seen(work.subject, job, body, now, statements):
            self._statements.tell_if_shown(job.target, job.edits, statements)
            self._effects.unexpect(job.target)
            self._loop.wake(work.subject)

    def _refused(self, work: Work, job: Job, body: Body, answer: Refused, now: datetime) -> None:
        work.is_refused = True
        if not work.is_dropped and self._store.row(work.subject.key) is not None:
            self._outcomes.on_refusal(job, answer, now)
        self._reports.on_refusal(work.subject, body, answer)
        if work.is_dropped:
            return
        self._loop.wake(work.subject)
        row = self._store.row(job.target)
        if answer.code == 409 and isinstance(body, Change) and row is not None and row.version != body.version:
            # Another client wrote, and its version has already arrived.
            return
        if answer.code == 409:
            self._timers.at(now + CONFLICT_FOR, job.target)
        elif answer.code == 404:
            self._looks.send(job.target)
        self._steps.delay(work, self._delays.on_refusal(work.subject, job, answer, row, now))


def _with_metadata(row: ObjectRow, metadata: ObjectRow) -> ObjectRow:
    changes: dict[str, Any] = {part: getattr(metadata, part) for part in METADATA}
    return msgspec.structs.replace(row, **changes)


def _are_alike(row: Row, other: Row) -> bool:
    """Whether two rows are equal in every field that a decision can read."""
    return row is other or msgspec.structs.replace(other, version=row.version) == row


def count_moved_pod(store: Store, job: Job, row: Row | None) -> None:
    """Count an eviction or deletion that the API server has accepted. No decision reads the number until the record is closed."""
    if not job.ends or not isinstance(row, PodRow):
        return
    counts = store.row(note_key("moved", row.node, row.key.cluster))
    if isinstance(counts, MovedPods):
        field = "evicted" if isinstance(job.other, Evict) else "deleted"
        store.write(msgspec.structs.replace(counts, **{field: getattr(counts, field) + 1}))
