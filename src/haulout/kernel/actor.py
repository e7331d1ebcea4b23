"""Carries out what decisions want, step by step, and never on knowledge that has meanwhile changed.

It does no I/O itself: it hands out requests and is told what became of them. Nothing is ever replayed from memory:
after a refusal the key is asked again.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import ObjectRow, Row, Value
from haulout.cluster.store import Store, TableName
from haulout.cluster.view import OUTCOME, PROOF
from haulout.core.action import Edit, Refusal, Send, Statement, Tell
from haulout.core.decision import Decision
from haulout.core.edit import apply_all, changes_nothing
from haulout.core.holds import Grant, grant_key, hold_key
from haulout.kernel.jobs import Batch, Job, is_ending, plan, request_body, signature
from haulout.kernel.proofs import Proofs
from haulout.kernel.requests import (
    Answer,
    Body,
    Change,
    Done,
    ListPods,
    Look,
    Lost,
    Refused,
    Request,
    Telling,
    Withdrawn,
)
from haulout.kernel.rooms import Subject

LOOK_AFTER_FOR = timedelta(seconds=5)
CONFLICT_FOR = timedelta(seconds=1)
# Who evicts paces itself by the budget; this only keeps one that does not from hammering it.
BUDGET_RETRY_FOR = timedelta(seconds=1)
# The longest that a server is obeyed when it asks for a pause: a wrong header must not stop all work.
LONGEST_PAUSE_FOR = timedelta(minutes=5)
# A key that edits one object this often within the window is chasing its own tail (K9).
RESTLESS_EDITS = 20
RESTLESS_FOR = timedelta(seconds=10)


class Spans(msgspec.Struct, frozen=True):
    """How long a write that failed is put off: doubling with each failure in a row."""

    first: timedelta
    longest: timedelta

    def after(self, failures: int) -> timedelta:
        return min(self.first * 2.0 ** min(failures - 1, 10), self.longest)


HOME = Spans(timedelta(seconds=1), timedelta(minutes=1))
# Another cluster may have trouble of its own for long: it is not pressed. Once it is reached anew, nothing waits.
AWAY = Spans(timedelta(seconds=5), timedelta(minutes=5))


class Wakes(Protocol):
    """What the actor needs of the loop."""

    def wake(self, subject: Subject) -> None: ...

    def ended(self, subject: Subject) -> None: ...

    def pause(self, subject: Subject, until: datetime) -> None: ...


class Reports:
    """The receiver of the actor's reports about writes that did not succeed.

    This base class ignores them; a subclass overrides what it wants to know.
    """

    def refused(self, subject: Subject, body: Body, answer: Refused) -> None: ...

    def lost(self, subject: Subject) -> None:
        """No answer came to a write."""

    def restless(self, subject: Subject, target: Key) -> None: ...


class Work:
    """One decision being carried out."""

    def __init__(self, subject: Subject, batches: list[Batch], basis: dict[Key, Row | None], grants: list[Key]) -> None:
        self.subject = subject
        self.batches = batches
        # The rows as decided; only our own answers may change them meanwhile.
        self.basis = basis
        self.grants = grants
        self.sent: set[int] = set()
        self.queued = 0
        self.started = False
        self.told = True
        self.refused = False
        # Its wish is put off until then, and what it was granted for it passes on.
        self.paused_until: datetime | None = None
        # Leadership has changed hands since: nobody waits for it any more.
        self.dropped = False

    @property
    def under_way(self) -> bool:
        return bool(self.sent or self.queued)


class Pending(msgspec.Struct, frozen=True):
    """A write whose effect has not been seen yet; after a while a look settles it, and who wants it is asked again.

    `tells` are told if the object then shows the `edits`: no answer came, but they were carried out.
    """

    subjects: set[Subject]
    uid: str
    look_at: datetime
    ends: bool
    edits: tuple[Edit, ...] = ()
    tells: tuple[Statement, ...] = ()


class Backoff(msgspec.Struct, frozen=True):
    """The delay before an action that was refused is sent again.

    The same action is not sent before this; after a conflict a newer `version` of its target ends the wait.
    """

    failures: int
    not_before: datetime
    target: Key
    version: int | None = None


class Edits(msgspec.Struct, frozen=True):
    """When a subject last edited an object. `row`: its own object as it was then, where that is another one."""

    row: Row | None
    times: tuple[datetime, ...]

    def are_restless(self, now: datetime) -> bool:
        return len(self.times) == RESTLESS_EDITS and self.times[0] + RESTLESS_FOR > now


class Actor:
    """Turns decisions into requests, step by step, and takes in the answers.

    It keeps what is under way, what is put off after a refusal, and which effects are not seen yet (K11, K12, K13).
    """

    loop: Wakes

    def __init__(self, store: Store, reports: Reports | None = None) -> None:
        self._store = store
        self._reports = reports or Reports()
        self.may_write: Callable[[], bool] = lambda: True
        self._out: list[Request] = []
        self._sent: dict[int, tuple[Work | None, Job | None, Body]] = {}
        self._busy: dict[Key, deque[tuple[Work, Job]]] = {}
        self._pending: dict[Key, dict[Hashable, Pending]] = {}
        # What was known of the objects looked at when the looks were sent.
        self._known: dict[int, int] = {}
        self._backoff: dict[Subject, dict[Hashable, Backoff]] = {}
        self._conflicts: dict[Key, set[Subject]] = {}
        self._edits: dict[tuple[Subject, Key], Edits] = {}
        self._said: dict[Subject, frozenset[Statement]] = {}
        self._throttled: dict[str, datetime] = {}
        self._timers: list[tuple[datetime, int, Subject | Key]] = []
        self._next_id = 0
        self._proofs = Proofs(store, self._emit, self._at, self._wake, _delay)
        store.on_version = self._moved
        store.on_replaced = self._replaced
        store.on_listed = self._listed

    # For the loop

    def submit(self, subject: Subject, decision: Decision, now: datetime) -> bool:
        """Begins to carry a decision out. True: something is under way, and the subject is not asked meanwhile."""
        if not self.may_write():
            return False
        batches = plan(decision.actions)
        for batch in batches:
            for job in batch.jobs:
                # What cannot be told apart raises here, in the asking, and not in the middle of a later step.
                hash(signature(job))
        targets = {job.target for batch in batches for job in batch.jobs} | {subject.key}
        grants = [grant_key(hold_key(subject.decider, claim)) for claim in decision.holds if not claim.begun]
        basis = {target: self._store.row(target) for target in targets}
        work = Work(subject, batches, basis, [grant for grant in grants if self._is_granted(grant)])
        self._retract(subject, batches)
        self._advance(work, now)
        self._pass_on(work)
        return work.under_way

    def awaits(self, subject: Subject) -> bool:
        """Whether the effect of a write that the subject has sent, or a proof that it reads, is not known yet."""
        if self._proofs.awaits(subject):
            return True
        return any(subject in each.subjects for standing in self._pending.values() for each in standing.values())

    def prove(self, proof: Key, subject: Subject) -> None:
        self._proofs.want(proof, subject)

    def forget_proof(self, proof: Key) -> None:
        self._proofs.forget(proof)

    def _retract(self, subject: Subject, batches: list[Batch]) -> None:
        """What is no longer stated is said anew when it is stated again."""
        stated = frozenset(told for batch in batches if not batch.jobs for told in batch.tells)
        standing = self._said.pop(subject, frozenset()) & stated
        if standing:
            self._said[subject] = standing

    def _news(self, subject: Subject, stated: Sequence[Statement]) -> list[Statement]:
        """What of it has not been said yet. Steps that are withheld have said nothing."""
        said = self._said.get(subject, frozenset())
        if stated:
            self._said[subject] = said | frozenset(stated)
        return [told for told in stated if told not in said]

    def rest(self, subject: Subject, now: datetime) -> None:
        """The subject wants nothing now; a back-off that is long over is of no more use."""
        self._said.pop(subject, None)
        waits = self._backoff.get(subject)
        if waits and all(wait.not_before + _spans(wait.target).longest < now for wait in waits.values()):
            del self._backoff[subject]

    def forget(self, subject: Subject) -> None:
        self._backoff.pop(subject, None)
        self._said.pop(subject, None)
        for known in [known for known in self._edits if known[0] == subject]:
            del self._edits[known]

    # For the shell

    def reconnected(self, cluster: str) -> None:
        """Whatever was put off because the cluster could not be reached, or not with those credentials, is tried anew."""
        self._throttled.pop(cluster, None)
        for subject, waits in list(self._backoff.items()):
            for what in [what for what, wait in waits.items() if wait.target.cluster == cluster]:
                self._drop_backoff(subject, what)
                self.loop.wake(subject)

    def is_current(self, request: int) -> bool:
        """Just before a write is sent: whether everything is still as it was decided upon."""
        work, job, _ = self._sent.get(request, (None, None, None))
        return work is None or job is None or (bool(work.batches) and self._as_decided(work, job))

    def take_requests(self) -> list[Request]:
        out, self._out = self._out, []
        return out

    def answered(self, request: int, answer: Answer, now: datetime) -> None:
        work, job, body = self._sent.pop(request)
        match body:
            case Send():
                self._delivered(body, answer, now)
                return
            case Look():
                self._looked(body.target, answer, self._known.pop(request), now)
                self._store.let_go(body.target)
                return
            case ListPods():
                self._proofs.answered(body, request, answer, now)
                return
        assert work is not None
        assert job is not None
        self._written(work, job, body, answer, now)
        self._store.let_go(job.target)
        work.sent.discard(request)
        self._free(job.target, now)
        self._go_on(work, now)

    def tick(self, now: datetime) -> None:
        """Looks that are due, and subjects whose back-off has ended."""
        self._forget_edits(now)
        for cluster in [cluster for cluster, until in self._throttled.items() if until <= now]:
            del self._throttled[cluster]
        while self._timers and self._timers[0][0] <= now:
            _, _, what = heapq.heappop(self._timers)
            if isinstance(what, Subject):
                self.loop.wake(what)
            elif what.kind == PROOF:
                self._proofs.due(what, now)
            else:
                self._look_if_due(what, now)

    def next_instant(self) -> datetime | None:
        return self._timers[0][0] if self._timers else None

    def restart(self) -> None:
        """Leadership gained: what an earlier term wanted is nobody's wish any more."""
        for work, _, _ in self._sent.values():
            if work is not None:
                work.batches.clear()
                work.dropped = True
        for waiting in self._busy.values():
            waiting.clear()
        for target in self._pending.keys() - self._busy.keys():
            self._store.settle(target)
        for part in (self._pending, self._backoff, self._conflicts, self._edits, self._said, self._throttled):
            part.clear()
        self._timers.clear()

    def size(self) -> int:
        """Everything remembered: after any churn as much as before."""
        parts = (self._sent, self._busy, self._pending, self._backoff, self._conflicts, self._edits, self._said)
        return sum(len(part) for part in parts) + self._proofs.size()

    # Going on with a decision

    def _go_on(self, work: Work, now: datetime) -> None:
        self._advance(work, now)
        self._pass_on(work)
        if not work.under_way and not work.dropped:
            self.loop.ended(work.subject)

    def _pass_on(self, work: Work) -> None:
        """A grant is not taken from a write under way, nor while what became of one is not known."""
        if work.paused_until is not None and not work.under_way and not work.dropped and not self.awaits(work.subject):
            self.loop.pause(work.subject, work.paused_until)

    def _advance(self, work: Work, now: datetime) -> None:
        while work.batches and not work.under_way and not work.refused:
            batch = work.batches[0]
            if not work.started:
                work.started = True
                needed = [job for job in batch.jobs if not self._is_needless(job)]
                work.told = bool(needed) or not batch.jobs
                for job in needed:
                    self._try(work, job, now)
            else:
                work.batches.pop(0)
                work.started = False
                if work.told:
                    self._tell(batch.tells if batch.jobs else self._news(work.subject, batch.tells))
                    self._send_messages(batch.sends, work.subject, now)

    def _try(self, work: Work, job: Job, now: datetime) -> None:
        """Sends a job, lets it wait for its object, or drops the rest because the world has moved on."""
        if job.target in self._busy:
            self._busy[job.target].append((work, job))
            work.queued += 1
            return
        if not self._as_decided(work, job):
            work.refused = True
            self.loop.wake(work.subject)
            return
        wait = self._wait(work.subject, job, now)
        if wait is not None:
            self._put_off(work, wait)
        elif self._stands(work.subject, job):
            work.refused = True
        else:
            self._dispatch(work, job, now)

    def _put_off(self, work: Work, until: datetime) -> None:
        work.refused = True
        work.paused_until = min(until, work.paused_until or until)
        self._at(until, work.subject)

    def _dispatch(self, work: Work, job: Job, now: datetime) -> None:
        row = self._store.row(job.target)
        # What a write whose effect is unknown may have taken stays taken.
        standing = self._store.expects(job.target) if self._is_uncertain(job.target) else None
        expected = apply_all(standing or row, job.edits) if job.edits else None
        if expected is not None:
            self._store.expect(expected)
        self._busy[job.target] = deque()
        self._store.hold_open(job.target)
        work.sent.add(self._emit(request_body(job, row), work, job))
        if job.edits:
            # In the order of the last edit, so that what is over is found at the front.
            known = self._edits.pop((work.subject, job.target), None)
            row = self._own_row(work.subject, job)
            times = known.times if known is not None and known.row is row else ()
            self._edits[work.subject, job.target] = Edits(row, (*times, now)[-RESTLESS_EDITS:])

    def _own_row(self, subject: Subject, job: Job) -> Row | None:
        """The object that the decision is about, where it edits another. A change of it is a reason to edit again."""
        return self._store.row(subject.key) if subject.key != job.target else None

    def _forget_edits(self, now: datetime) -> None:
        while self._edits:
            known, edits = next(iter(self._edits.items()))
            if edits.times[-1] + RESTLESS_FOR > now:
                break
            del self._edits[known]

    def _emit(self, body: Body, work: Work | None = None, job: Job | None = None) -> int:
        self._next_id += 1
        self._sent[self._next_id] = (work, job, body)
        self._out.append(Request(self._next_id, body))
        return self._next_id

    def _free(self, target: Key, now: datetime) -> None:
        """The object is free: the next one that waits for it goes, if the world is still as it was decided upon."""
        waiting = self._busy.pop(target)
        while waiting:
            work, job = waiting.popleft()
            work.queued -= 1
            self._try(work, job, now)
            if target in self._busy:
                self._busy[target].extend(waiting)
                waiting.clear()
            if not work.under_way:
                self._go_on(work, now)

    def _as_decided(self, work: Work, job: Job) -> bool:
        if not self.may_write() or not all(self._is_granted(grant) for grant in work.grants):
            return False
        return all(self._store.row(key) is work.basis[key] for key in (work.subject.key, job.target))

    def _is_granted(self, key: Key) -> bool:
        grant = self._store.row(key)
        return isinstance(grant, Grant) and grant.granted

    def _is_needless(self, job: Job) -> bool:
        return bool(job.edits) and changes_nothing(self._store.row(job.target), job.edits)

    def _stands(self, subject: Subject, job: Job) -> bool:
        """The same write has been sent and its effect is not known yet; once it is, the subject is asked again."""
        pending = self._pending.get(job.target, {}).get(signature(job))
        if pending is not None:
            pending.subjects.add(subject)
        return pending is not None

    def _is_uncertain(self, target: Key) -> bool:
        """An edit has been sent and its effect is not known yet."""
        return any(not pending.ends for pending in self._pending.get(target, {}).values())

    def _wait(self, subject: Subject, job: Job, now: datetime) -> datetime | None:
        """Until when the same action is put off, if it is."""
        throttled = self._throttled.get(job.target.cluster)
        if throttled is not None and throttled > now:
            return throttled
        backoff = self._backoff.get(subject, {}).get(signature(job))
        if backoff is not None and backoff.not_before > now:
            return backoff.not_before
        if backoff is not None and backoff.version is not None and job.target in self._conflicts:
            # A look is under way: until it is answered, the same write would conflict again.
            return now + CONFLICT_FOR
        edits = self._edits.get((subject, job.target))
        if job.edits and edits is not None and edits.row is self._own_row(subject, job) and edits.are_restless(now):
            self._reports.restless(subject, job.target)
            return edits.times[0] + RESTLESS_FOR
        return None

    def _at(self, instant: datetime, what: Subject | Key) -> None:
        self._next_id += 1
        heapq.heappush(self._timers, (instant, self._next_id, what))

    # Answers

    def _written(self, work: Work, job: Job, body: Body, answer: Answer, now: datetime) -> None:
        subject, target = work.subject, job.target
        match answer:
            case Done():
                self._drop_backoff(subject, signature(job))
                self._take_answer(work, job, answer)
                if job.ends or (answer.row is None and answer.metadata is None):
                    self._await_effect(subject, job, body, now)
                self._unexpect(target)
            case Lost():
                work.refused = True
                self._reports.lost(subject)
                if not self._await_effect(subject, job, body, now, _riding(work, job)):
                    self._tell_if_shown(target, job.edits, _riding(work, job))
                    self._unexpect(target)
                    self.loop.wake(subject)
            case Withdrawn():
                work.refused = True
                self._unexpect(target)
                self.loop.wake(subject)
            case Refused():
                self._unexpect(target)
                self._note(work, job, answer, now)
                self._refused(work, job, body, answer, now)

    def _note(self, work: Work, job: Job, answer: Refused, now: datetime) -> None:
        """A refusal that somebody may want to know of, as long as there is somebody to ask."""
        asked_for = not work.dropped and self._store.row(work.subject.key) is not None
        if job.outcome and asked_for:
            key = Key("", OUTCOME, "", job.outcome)
            known = self._store.row(key)
            failures = known.failures + 1 if isinstance(known, Value) else 1
            refusal = Refusal(answer.code, answer.message, answer.cause, now)
            self._store.write(Value(key=key, state="failed", value=refusal, error=answer.message, failures=failures))

    def _take_answer(self, work: Work, job: Job, answer: Done) -> None:
        """The answer becomes the row, and what the later steps of the decision rely upon."""
        decided, row = work.basis[job.target], self._store.row(job.target)
        answered, metadata = answer.row, answer.metadata
        if answered is not None:
            self._store.answer(answered)
        elif metadata is not None and isinstance(decided, ObjectRow) and decided.uid == metadata.uid:
            # Nobody wrote between the version that we named and this answer, so the rest is as we know it.
            parts = ("version", "labels", "annotations", "finalizers", "deleting_at")
            changes: dict[str, Any] = {part: getattr(metadata, part) for part in parts}
            answered = msgspec.structs.replace(decided, **changes)
            # The last finalizer's removal ends the object and is answered with the version that it had.
            if row is not None and (row is decided or (row.uid == metadata.uid and row.version < metadata.version)):
                self._store.answer(answered)
        row = self._store.row(job.target)
        # What somebody else wrote since then was not decided upon.
        if answered is None or job.ends or (row is not None and _are_alike(row, answered)):
            work.basis[job.target] = row

    def _unexpect(self, target: Key) -> None:
        if not self._is_uncertain(target):
            self._store.settle(target)

    def _await_effect(
        self, subject: Subject, job: Job, body: Body, now: datetime, tells: tuple[Statement, ...] = ()
    ) -> bool:
        """False if the effect has been seen already."""
        row = self._store.row(job.target)
        if _is_seen(job, body, row):
            return False
        uid = row.uid if row else ""
        pending = Pending({subject}, uid, now + LOOK_AFTER_FOR, job.ends, job.edits, tells)
        self._pending.setdefault(job.target, {})[signature(job)] = pending
        self._at(pending.look_at, job.target)
        return True

    def _refused(self, work: Work, job: Job, body: Body, answer: Refused, now: datetime) -> None:
        subject, row = work.subject, self._store.row(job.target)
        work.refused = True
        self._reports.refused(subject, body, answer)
        if work.dropped:
            return
        self.loop.wake(subject)
        if answer.code == 409 and isinstance(body, Change) and row is not None and row.version != body.version:
            # Somebody else wrote, and their version has arrived already.
            return
        waits = self._backoff.setdefault(subject, {})
        known = waits.get(signature(job))
        failures = known.failures + 1 if known else 1
        delay = _spans(job.target).after(failures)
        version = None
        match answer.code:
            case 409:
                # Somebody else wrote: wait for their version to arrive; if it does not, look.
                delay, failures, version = CONFLICT_FOR, failures - 1, row.version if row else None
                self._conflicts.setdefault(job.target, set()).add(subject)
                self._at(now + delay, job.target)
            case 404:
                self._look(job.target)
            case 429 if answer.by_budget:
                delay = BUDGET_RETRY_FOR
            case 429 if answer.throttles:
                delay = timedelta(seconds=min(answer.retry_after or 1, LONGEST_PAUSE_FOR.total_seconds()))
                cluster = job.target.cluster
                self._throttled[cluster] = max(now + delay, self._throttled.get(cluster, now))
        waits[signature(job)] = Backoff(failures, now + delay, job.target, version)
        self._put_off(work, now + delay)

    def _drop_backoff(self, subject: Subject, what: Hashable) -> None:
        waits = self._backoff.get(subject)
        if waits and waits.pop(what, None) and not waits:
            del self._backoff[subject]

    # Telling and sending

    def _tell(self, tells: Iterable[Statement]) -> None:
        for told in tells:
            if isinstance(told, Tell):
                row = self._store.row(told.regarding)
                self._out.append(Request(0, Telling(told, row if isinstance(row, ObjectRow) else None)))
            else:
                self._out.append(Request(0, told))

    def _tell_if_shown(self, target: Key, edits: tuple[Edit, ...], tells: tuple[Statement, ...]) -> None:
        if tells and edits and changes_nothing(self._store.row(target), edits):
            self._tell(tells)

    def _send_messages(self, sends: Iterable[Send], subject: Subject, now: datetime) -> None:
        for send in sends:
            key = Key("", OUTCOME, "", send.outcome)
            standing = self._store.row(key)
            known = standing if isinstance(standing, Value) else Value(key=key)
            if known.state == "pending":
                continue
            # Why the last attempt failed stands until this one has an end.
            pending = Value(key=key, state="pending", value=now, error=known.error, failures=known.failures)
            self._store.write(pending)
            self._emit(send)

    def _delivered(self, send: Send, answer: Answer, now: datetime) -> None:
        key = Key("", OUTCOME, "", send.outcome)
        known = self._store.row(key)
        if not isinstance(known, Value):
            return
        if isinstance(answer, Done):
            self._store.write(Value(key=key, state="done", value=now))
        else:
            error = answer.message if isinstance(answer, Refused | Lost) else "withdrawn"
            failures = known.failures + 1
            failed = Value(key=key, state="failed", value=now, error=error, failures=failures, settings=send.settings)
            self._store.write(failed)

    # Looking

    def _look_if_due(self, target: Key, now: datetime) -> None:
        standing = self._pending.get(target, {})
        if any(pending.look_at <= now for pending in standing.values()) or target in self._conflicts:
            self._look(target)

    def _look(self, target: Key) -> None:
        row = self._store.row(target)
        self._store.hold_open(target)
        self._known[self._emit(Look(target))] = row.version if row else -1

    def _looked(self, target: Key, answer: Answer, known: int, now: datetime) -> None:
        match answer:
            case Done(row=seen) if seen is not None:
                self._store.answer(seen)
            case Refused(code=404):
                # What has come since the look was sent is newer than its answer.
                self._store.remove(target, known)
            case Done():
                pass
            case Refused() | Lost() | Withdrawn():
                self._look_again(target, now)
                return
        self._settle(target)
        self._end_conflict(target)

    def _look_again(self, target: Key, now: datetime) -> None:
        standing = self._pending.get(target, {})
        for what, pending in standing.items():
            standing[what] = msgspec.structs.replace(pending, look_at=now + LOOK_AFTER_FOR)
        if standing:
            self._at(now + LOOK_AFTER_FOR, target)
        if target in self._conflicts:
            self._at(now + CONFLICT_FOR, target)

    def _settle(self, target: Key, only: Iterable[Hashable] | None = None) -> None:
        """The effect is known, of all writes on the object or of some."""
        standing = self._pending.get(target)
        if standing is None:
            return
        for what in list(standing if only is None else only):
            pending = standing.pop(what)
            self._tell_if_shown(target, pending.edits, pending.tells)
            for subject in pending.subjects:
                self.loop.wake(subject)
        if not standing:
            del self._pending[target]
        if target not in self._busy:
            self._unexpect(target)

    def _end_conflict(self, target: Key) -> None:
        for subject in self._conflicts.pop(target, ()):
            for what, wait in list(self._backoff.get(subject, {}).items()):
                if wait.target == target and wait.version is not None:
                    self._drop_backoff(subject, what)
            self.loop.wake(subject)

    # For the store

    def _moved(self, key: Key) -> None:
        """A newer version of the object has come in."""
        row, standing = self._store.row(key), self._pending.get(key)
        if row is not None and standing is not None:
            # A patch names the version that it was made for: once another is known, a late one can have no effect.
            self._settle(key, [what for what, each in standing.items() if not each.ends or is_ending(row, each.uid)])
        if key in self._conflicts:
            self._end_conflict(key)
        self._proofs.node_changed(key)

    def _wake(self, subject: Subject) -> None:
        self.loop.wake(subject)

    def _listed(self, table: TableName) -> None:
        if table.kind == "Node":
            self._proofs.nodes_listed(table.cluster)

    def _replaced(self, key: Key) -> None:
        """The object is gone, or another has its name."""
        self._proofs.node_changed(key)
        self._settle(key)
        self._end_conflict(key)


def _spans(target: Key) -> Spans:
    return AWAY if target.cluster else HOME


def _delay(target: Key, failures: int) -> timedelta:
    return _spans(target).after(failures)


def _are_alike(row: Row, other: Row) -> bool:
    """Alike in all that can be decided upon."""
    return msgspec.structs.replace(other, version=row.version) == row


def _riding(work: Work, job: Job) -> tuple[Statement, ...]:
    """What is to be told of this write alone."""
    batch = work.batches[0] if work.batches else Batch()
    return batch.tells if batch.jobs == (job,) else ()


def _is_seen(job: Job, body: Body, row: Row | None) -> bool:
    """Whether the row shows what became of a write, answered or not."""
    if job.ends:
        return row is None or is_ending(row, job.uid)
    if isinstance(body, Change):
        return body.version is not None and (row is None or row.version > body.version)
    return row is not None
