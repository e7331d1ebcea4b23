"""K11: the steps of a decision run one after the other: one write at a time for an object, none on changed rows.

Each step is a batch of writes that do not depend on each other. When all are answered, the batch's statements and
messages follow, and the next batch begins. A refusal withholds the later batches; nothing is repeated from memory.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.store import Store
from haulout.core.action import Send
from haulout.core.edit import changes_nothing
from haulout.core.holds import Grant
from haulout.kernel.delays import Delays
from haulout.kernel.edit_rates import EditRates
from haulout.kernel.effects import Effects
from haulout.kernel.jobs import Batch, Job, request_body
from haulout.kernel.outbox import Outbox
from haulout.kernel.outcomes import Outcomes
from haulout.kernel.pauses import Pauses
from haulout.kernel.proofs import Proofs
from haulout.kernel.rooms import Subject
from haulout.kernel.statements import Statements
from haulout.kernel.timers import Timers
from haulout.kernel.wakes import Reports, Wakes
from haulout.kernel.work import Work


class BusyObjects:
    """The objects with a write under way, each with the writes that wait for it."""

    def __init__(self) -> None:
        self.waiting: dict[Key, deque[tuple[Work, Job]]] = {}

    def __contains__(self, target: Key) -> bool:
        return target in self.waiting

    def drop_waiting(self) -> None:
        for waiting in self.waiting.values():
            waiting.clear()


class Steps:
    """Carries decisions out, step by step."""

    def __init__(
        self,
        store: Store,
        loop: Wakes,
        reports: Reports,
        *,
        outbox: Outbox,
        timers: Timers,
        busy: BusyObjects,
        delays: Delays,
        edit_rates: EditRates,
        effects: Effects,
        proofs: Proofs,
        statements: Statements,
        outcomes: Outcomes,
        pauses: Pauses,
    ) -> None:
        self._store = store
        self._loop = loop
        self._reports = reports
        self._outbox = outbox
        self._timers = timers
        self._busy = busy
        self._delays = delays
        self._edit_rates = edit_rates
        self._effects = effects
        self._proofs = proofs
        self._statements = statements
        self._outcomes = outcomes
        self._pauses = pauses

    def begin(self, work: Work, now: datetime) -> bool:
        """Begin to carry a decision out. Return whether something of it is under way."""
        self._advance(work, now)
        self._pass_grants_on(work)
        return work.is_under_way

    def on_answer(self, work: Work, job: Job, request: int, now: datetime) -> None:
        """Go on after a write was answered, with the writes that wait for its object and with the rest of the decision."""
        work.sent.discard(request)
        work.has_answers = True
        self._free(job.target, now)
        self._go_on(work, now)

    def delay(self, work: Work, until: datetime) -> None:
        """Withhold the rest of a decision, and ask its subject again at this instant."""
        work.is_refused = True
        work.paused_until = min(until, work.paused_until or until)
        self._timers.at(until, work.subject)

    def is_as_decided(self, work: Work, job: Job) -> bool:
        """Whether the subject, the object and the grants are as the decision has read them, and no pause has begun since."""
        for grant in work.grants:
            if not self.is_granted(grant):
                return False
        row = self._store.row
        subject, target = work.subject.key, job.target
        if row(target) is not work.basis[target] or (subject != target and row(subject) is not work.basis[subject]):
            return False
        return not self._pauses.holds_back(work.subject, job, work.claims, self._store)

    def may_be_sent(self, work: Work, message: Send) -> bool:
        """Whether no pause holds a message back."""
        return not self._pauses.holds_message_back(work.subject, message, work.claims, self._store)

    def is_granted(self, key: Key) -> bool:
        grant = self._store.row(key)
        return isinstance(grant, Grant) and grant.granted

    def awaits(self, subject: Subject) -> bool:
        """Whether the effect of a write that the subject wants, or a proof that it reads, is not known yet."""
        return self._effects.awaits(subject) or self._proofs.awaits(subject)

    def _go_on(self, work: Work, now: datetime) -> None:
        self._advance(work, now)
        self._pass_grants_on(work)
        if not work.is_under_way and not work.is_dropped:
            self._loop.on_end(work.subject)

    def _pass_grants_on(self, work: Work) -> None:
        """Pass the grants of a delayed decision on, but not while a write of it may still have an effect."""
        if work.paused_until is None or work.is_under_way or work.is_dropped:
            return
        if not self.awaits(work.subject):
            self._loop.pause(work.subject, work.paused_until)

    def _advance(self, work: Work, now: datetime) -> None:
        while work.batches and not work.is_under_way and not work.is_refused:
            batch = work.batches[0]
            if work.is_started:
                work.batches.pop(0)
                work.is_started = False
                if work.is_told:
                    self._end_batch(work, batch, now)
            else:
                self._start_batch(work, batch, now)

    def _start_batch(self, work: Work, batch: Batch, now: datetime) -> None:
        work.is_started = True
        needed = [job for job in batch.jobs if not self._is_needless(job)]
        work.is_told = bool(needed) or not batch.jobs
        for job in needed:
            self._try(work, job, now)

    def _end_batch(self, work: Work, batch: Batch, now: datetime) -> None:
        if batch.jobs:
            self._statements.tell(batch.tells)
        else:
            self._statements.tell_news(work.subject, batch.tells)
        sends = [message for message in batch.sends if self.may_be_sent(work, message)]
        if len(sends) < len(batch.sends):
            work.is_refused = True
            self._loop.wake(work.subject)
        self._outcomes.send(sends, now, work)

    def _is_needless(self, job: Job) -> bool:
        return bool(job.edits) and changes_nothing(self._store.row(job.target), job.edits)

    def _try(self, work: Work, job: Job, now: datetime) -> None:
        """Send a write, or let it wait for its busy object, or withhold the rest of the decision."""
        if job.target in self._busy:
            self._busy.waiting[job.target].append((work, job))
            work.queued += 1
        elif not self.is_as_decided(work, job):
            work.is_refused = True
            self._loop.wake(work.subject)
        elif (until := self._delayed_until(work.subject, job, now)) is not None:
            self.delay(work, until)
        elif self._effects.share(work.subject, job):
            work.is_refused = True
        else:
            self._dispatch(work, job, now)

    def _delayed_until(self, subject: Subject, job: Job, now: datetime) -> datetime | None:
        until = self._delays.until(subject, job, now)
        if until is None and job.edits:
            until = self._edit_rates.restless_until(subject, job.target, job.subresource, now)
            if until is not None:
                self._reports.on_restless(subject, job.target)
        return until

    def _dispatch(self, work: Work, job: Job, now: datetime) -> None:
        row = self._store.row(job.target)
        self._effects.expect(job, row)
        self._busy.waiting[job.target] = deque()
        self._store.hold_open(job.target)
        work.sent.add(self._outbox.send(request_body(job, row), work, job))
        if job.edits:
            self._edit_rates.record(work.subject, job.target, job.subresource, now)

    def _free(self, target: Key, now: datetime) -> None:
        """Try the writes that wait for an object, in order, until one of them makes it busy again."""
        waiting = self._busy.waiting.pop(target)
        while waiting:
            work, job = waiting.popleft()
            work.queued -= 1
            self._try(work, job, now)
            if target in self._busy:
                self._busy.waiting[target].extend(waiting)
                waiting.clear()
            if not work.is_under_way:
                self._go_on(work, now)
