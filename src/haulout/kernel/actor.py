"""Carries out what decisions want: the actor's rules together, between the loop and the shell.

It does no I/O itself: it hands out requests and is given what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.store import Store
from haulout.cluster.topics import TableName
from haulout.cluster.view import PROOF
from haulout.core.action import Send
from haulout.core.decision import Decider, Decision
from haulout.core.holds import grant_key, hold_key
from haulout.kernel.answers import Answers
from haulout.kernel.delays import CONFLICT_FOR, Delays, spans_of
from haulout.kernel.early_uncordons import uncordons_too_early
from haulout.kernel.edit_rates import EditRates
from haulout.kernel.effects import Effects
from haulout.kernel.jobs import plan, signature
from haulout.kernel.looks import Looks
from haulout.kernel.outbox import Outbox
from haulout.kernel.outcomes import Outcomes
from haulout.kernel.pauses import Pauses
from haulout.kernel.proofs import Proofs
from haulout.kernel.requests import Answer, ListPods, Look, Request
from haulout.kernel.rooms import Subject
from haulout.kernel.statements import Statements
from haulout.kernel.steps import BusyObjects, Steps
from haulout.kernel.timers import Timers
from haulout.kernel.wakes import Reports, Wakes
from haulout.kernel.work import Work


class Actor:
    """Turns decisions into requests and takes in the answers.

    `may_write`: whether this replica leads. It is asked once for a decision; the driver asks again for each write.
    """

    loop: Wakes

    def __init__(
        self,
        store: Store,
        reports: Reports | None = None,
        deciders: Iterable[Decider] = (),
        pauses: Pauses | None = None,
    ) -> None:
        reports = reports or Reports()
        self._store = store
        self.may_write: Callable[[], bool] = lambda: True
        self._outbox = Outbox()
        self._timers = Timers()
        self._busy = BusyObjects()
        self._statements = Statements(store, self._outbox)
        self._outcomes = Outcomes(store, self._outbox)
        self._looks = Looks(store, self._outbox)
        self._edit_rates = EditRates(store, {decider.name: decider.edits for decider in deciders})
        self._delays = Delays(self)
        self._effects = Effects(store, self._timers, self._statements, self, self._busy.__contains__)
        self._proofs = Proofs(store, self._outbox.send, self._timers.at, self.wake, _delay)
        self._steps = Steps(
            store,
            self,
            reports,
            outbox=self._outbox,
            timers=self._timers,
            busy=self._busy,
            delays=self._delays,
            edit_rates=self._edit_rates,
            effects=self._effects,
            proofs=self._proofs,
            statements=self._statements,
            outcomes=self._outcomes,
            pauses=pauses or Pauses(),
        )
        self._answers = Answers(
            store,
            self,
            reports,
            timers=self._timers,
            steps=self._steps,
            delays=self._delays,
            effects=self._effects,
            looks=self._looks,
            statements=self._statements,
            outcomes=self._outcomes,
        )
        store.on_version = self._version_changed
        store.on_replaced = self._replaced
        store.on_listed = self._listed

    def submit(self, subject: Subject, decision: Decision, now: datetime) -> bool:
        """Begin to carry a decision out.

        Return True if something of it is under way. The subject is then not asked again until that has ended.
        """
        if not self.may_write() or uncordons_too_early(self._store, subject, decision):
            return False
        batches = plan(decision.actions)
        targets = {subject.key}
        for batch in batches:
            for job in batch.jobs:
                # A plugin's action that cannot be hashed fails here, where only its own decision fails with it.
                hash(signature(job))
                targets.add(job.target)
        grants = [grant_key(hold_key(subject.decider, claim)) for claim in decision.claims if not claim.begun]
        basis = {target: self._store.row(target) for target in targets}
        self._statements.retract(subject, batches)
        used = [grant for grant in grants if self._steps.is_granted(grant)]
        work = Work(subject, batches, basis, used, decision.claims)
        return self._steps.begin(work, now)

    def rest(self, subject: Subject, now: datetime) -> None:
        """Note that the subject was asked and wants nothing done."""
        if self._statements.standing:
            self._statements.forget(subject)
        if self._delays.backoffs:
            self._delays.rest(subject, now)

    def forget(self, subject: Subject) -> None:
        """Forget a subject that is gone."""
        self._statements.forget(subject)
        self._delays.forget(subject)
        self._edit_rates.forget(subject)

    def awaits(self, subject: Subject) -> bool:
        """Whether the effect of a write that the subject wants, or a proof that it reads, is not known yet."""
        return self._steps.awaits(subject)

    def prove(self, proof: Key, subject: Subject) -> None:
        self._proofs.want(proof, subject)

    def forget_proof(self, proof: Key) -> None:
        self._proofs.forget(proof)

    def wake(self, subject: Subject) -> None:
        self.loop.wake(subject)

    def on_end(self, subject: Subject) -> None:
        self.loop.on_end(subject)

    def pause(self, subject: Subject, until: datetime) -> None:
        self.loop.pause(subject, until)

    def take_requests(self) -> list[Request]:
        return self._outbox.take()

    def is_current(self, request: int) -> bool:
        """Whether a request may still be sent: the rows are as its decision has read them, and nothing pauses it."""
        sent = self._outbox.sent.get(request)
        if sent is None:
            return True
        if isinstance(sent.body, Send):
            return sent.work is None or self._steps.may_be_sent(sent.work, sent.body)
        if isinstance(sent.body, Look | ListPods):
            return not self._delays.is_paused(sent.body.target.cluster)
        assert sent.work is not None
        assert sent.job is not None
        if not sent.work.batches or self._delays.is_paused(sent.job.target.cluster):
            return False
        return self._steps.is_as_decided(sent.work, sent.job)

    def on_answer(self, request: int, answer: Answer, now: datetime) -> None:
        """Take in the answer to a request."""
        sent = self._outbox.sent.pop(request)
        match sent.body:
            case Send() as message:
                self._outcomes.on_delivery(message, answer, now)
                return
            case Look(target=target):
                self._delays.note_pause(target.cluster, answer, now)
                self._looked(target, request, answer, now)
                return
            case ListPods() as pods:
                self._delays.note_pause(pods.target.cluster, answer, now)
                self._proofs.on_answer(pods, request, answer, now)
                return
        assert sent.work is not None
        assert sent.job is not None
        self._delays.note_pause(sent.job.target.cluster, answer, now)
        self._answers.take(sent.work, sent.job, sent.body, answer, now)
        self._store.let_go(sent.job.target)
        self._steps.on_answer(sent.work, sent.job, request, now)

    def on_reconnect(self, cluster: str) -> None:
        """Send the delayed writes of a cluster that has been reached again, or with other credentials."""
        self._delays.on_reconnect(cluster)

    def tick(self, now: datetime) -> None:
        """Send the looks that are due, and ask the subjects again whose delay has ended."""
        self._edit_rates.forget_old(now)
        self._delays.tick(now)
        while (what := self._timers.take_due(now)) is not None:
            if isinstance(what, Subject):
                self.loop.wake(what)
            elif what.kind == PROOF:
                self._proofs.due(what, now)
            elif self._effects.is_look_due(what, now) or self._delays.has_conflict(what):
                self._looks.send(what)

    def next_instant(self) -> datetime | None:
        return self._timers.next_instant()

    def restart(self) -> None:
        """Forget everything that decisions of an earlier term of leadership wanted."""
        for sent in self._outbox.sent.values():
            if sent.work is not None:
                sent.work.drop()
        self._busy.drop_waiting()
        for part in (self._effects, self._delays, self._edit_rates, self._statements, self._timers):
            part.clear()

    def size(self) -> int:
        """Return how many entries are remembered; tests compare it before and after churn."""
        parts = (self._effects, self._delays, self._edit_rates, self._statements, self._proofs)
        return len(self._outbox.sent) + len(self._busy.waiting) + sum(part.size() for part in parts)

    def _version_changed(self, key: Key) -> None:
        if self._effects.pending:
            self._effects.version_changed(key)
        if self._delays.conflicts:
            self._delays.end_conflict(key)
        self._proofs.node_changed(key)

    def _replaced(self, key: Key) -> None:
        """Settle the writes on an object that is gone, or whose name another object now has."""
        self._proofs.node_changed(key)
        if self._effects.pending:
            self._effects.settle(key)
        if self._delays.conflicts:
            self._delays.end_conflict(key)

    def _listed(self, table: TableName) -> None:
        if table.kind == "Node":
            self._proofs.nodes_listed(table.cluster)

    def _looked(self, target: Key, request: int, answer: Answer, now: datetime) -> None:
        if self._looks.on_answer(target, request, answer):
            self._effects.settle(target)
            self._delays.end_conflict(target)
        else:
            self._effects.look_later(target, now)
            if self._delays.has_conflict(target):
                self._timers.at(now + CONFLICT_FOR, target)
        self._store.let_go(target)


def _delay(target: Key, failures: int) -> timedelta:
    return spans_of(target).after(failures)
