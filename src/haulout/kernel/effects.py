"""K12: where an answer does not show the effect of a write, the expectation stays until the effect is seen.

That is so for evictions and deletions, and for writes whose answer was lost. If nothing is seen for 5 s, a look at the
object settles it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.store import Store
from haulout.core.action import Edit, Statement
from haulout.core.edit import apply_all
from haulout.kernel.jobs import Job, is_ending, signature
from haulout.kernel.requests import Body, Change
from haulout.kernel.rooms import Subject
from haulout.kernel.statements import Statements
from haulout.kernel.timers import Timers
from haulout.kernel.wakes import Wakes

LOOK_AFTER_FOR = timedelta(seconds=5)


class Pending(msgspec.Struct, frozen=True):
    """A write whose effect has not been seen yet.

    `subjects`: the subjects that want it. They are asked again once the effect is seen.
    `uid`: the UID of the object when the write was sent. `ends`: the write deletes the object.
    `statements`: made if the object turns out to show the `edits`, so that the write was carried out without an answer.
    """

    subjects: set[Subject]
    uid: str
    look_at: datetime
    ends: bool
    edits: tuple[Edit, ...] = ()
    statements: tuple[Statement, ...] = ()


class Effects:
    """The writes whose effect has not been seen yet, by object. `is_busy`: whether a write on an object is under way."""

    def __init__(
        self, store: Store, timers: Timers, statements: Statements, loop: Wakes, is_busy: Callable[[Key], bool]
    ) -> None:
        self._store = store
        self._timers = timers
        self._statements = statements
        self._loop = loop
        self._is_busy = is_busy
        # The writes on each object whose effect has not been seen yet.
        self.pending: dict[Key, dict[Hashable, Pending]] = {}
        self._awaited: Counter[Subject] = Counter()

    def awaits(self, subject: Subject) -> bool:
        """Whether the effect of a write that the subject wants is not known yet."""
        return subject in self._awaited

    def expect(self, job: Job, row: Row | None) -> None:
        """Count an object against limits as if the edits had been carried out."""
        if job.edits:
            # An earlier write may have taken these places. Until its effect is known they stay taken.
            standing = self._store.expects(job.target) if self._is_uncertain(job.target) else None
            expected = apply_all(standing or row, job.edits)
            if expected is not None:
                self._store.expect(expected)

    def unexpect(self, target: Key) -> None:
        """Count an object as its stored row says again, unless the effect of an edit of it is not known yet."""
        if not self._is_uncertain(target):
            self._store.settle(target)

    def await_seen(
        self, subject: Subject, job: Job, body: Body, now: datetime, statements: tuple[Statement, ...] = ()
    ) -> bool:
        """Wait until the effect of a write is seen. Return False if it has been seen already."""
        row = self._store.row(job.target)
        if _is_seen(job, body, row):
            return False
        pending = Pending({subject}, row.uid if row else "", now + LOOK_AFTER_FOR, job.ends, job.edits, statements)
        standing = self.pending.setdefault(job.target, {})
        known = standing.get(signature(job))
        if known is not None:
            self._forget_subjects(known)
        standing[signature(job)] = pending
        self._awaited[subject] += 1
        self._timers.at(pending.look_at, job.target)
        return True

    def share(self, subject: Subject, job: Job) -> bool:
        """Whether the same write has been sent and its effect is not known yet. If so, the subject waits for it too."""
        standing = self.pending.get(job.target)
        pending = standing.get(signature(job)) if standing else None
        if pending is None:
            return False
        if subject not in pending.subjects:
            pending.subjects.add(subject)
            self._awaited[subject] += 1
        return True

    def is_look_due(self, target: Key, now: datetime) -> bool:
        """Whether the effect of a write on the object should have been seen by now."""
        return any(pending.look_at <= now for pending in self.pending.get(target, {}).values())

    def look_later(self, target: Key, now: datetime) -> None:
        """Plan the next look at an object after one that has shown nothing."""
        standing = self.pending.get(target, {})
        for what, pending in standing.items():
            standing[what] = msgspec.structs.replace(pending, look_at=now + LOOK_AFTER_FOR)
        if standing:
            self._timers.at(now + LOOK_AFTER_FOR, target)

    def settle(self, target: Key, only: Iterable[Hashable] | None = None) -> None:
        """Run the decisions again that wait for the effect of writes on the object: of these writes, or of all."""
        standing = self.pending.get(target)
        if standing is None:
            return
        for what in list(standing if only is None else only):
            pending = standing.pop(what)
            self._statements.tell_if_shown(target, pending.edits, pending.statements)
            self._forget_subjects(pending)
            for subject in pending.subjects:
                self._loop.wake(subject)
        if not standing:
            del self.pending[target]
        if not self._is_busy(target):
            self.unexpect(target)

    def version_changed(self, target: Key) -> None:
        """Settle the writes whose effect the object's newer version shows.

        Edits are always settled: a patch names the version that it was made for, so the server now refuses one that is
        late.
        """
        standing = self.pending.get(target)
        row = self._store.row(target) if standing is not None else None
        if standing is not None and row is not None:
            seen = [what for what, each in standing.items() if not each.ends or is_ending(row, each.uid)]
            self.settle(target, seen)

    def clear(self) -> None:
        for target in self.pending:
            if not self._is_busy(target):
                self._store.settle(target)
        self.pending.clear()
        self._awaited.clear()

    def size(self) -> int:
        return len(self.pending) + len(self._awaited)

    def _is_uncertain(self, target: Key) -> bool:
        """Whether an edit has been sent whose effect is not known yet."""
        standing = self.pending.get(target)
        return standing is not None and any(not pending.ends for pending in standing.values())

    def _forget_subjects(self, pending: Pending) -> None:
        for subject in pending.subjects:
            self._awaited[subject] -= 1
            if not self._awaited[subject]:
                del self._awaited[subject]


def _is_seen(job: Job, body: Body, row: Row | None) -> bool:
    """Whether the row shows whether a write was carried out."""
    if job.ends:
        return row is None or is_ending(row, job.uid)
    if isinstance(body, Change):
        return body.version is not None and (row is None or row.version > body.version)
    return row is not None
