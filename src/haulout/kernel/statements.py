"""Events, counters and log lines: made with the write that they describe, or once while a decision repeats them.

See decision 0004.
"""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.key import Key
from haulout.cluster.rows import ObjectRow
from haulout.cluster.store import Store
from haulout.core.action import Edit, Statement, Tell
from haulout.core.edit import changes_nothing
from haulout.kernel.jobs import Batch
from haulout.kernel.outbox import Outbox
from haulout.kernel.requests import Telling
from haulout.kernel.rooms import Subject


class Statements:
    """Makes the statements of decisions.

    Those that describe no write are remembered by subject, so that none is made twice.
    """

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox
        # The statements that each subject has made and still repeats.
        self.standing: dict[Subject, frozenset[Statement]] = {}

    def retract(self, subject: Subject, batches: list[Batch]) -> None:
        """Forget the statements that the subject's new decision does not repeat.

        If they are stated again, they are made again.
        """
        standing = self.standing.pop(subject, None)
        if standing:
            kept = standing & {statement for batch in batches if not batch.jobs for statement in batch.tells}
            if kept:
                self.standing[subject] = kept

    def forget(self, subject: Subject) -> None:
        """Forget the statements of a subject."""
        self.standing.pop(subject, None)

    def tell_news(self, subject: Subject, statements: tuple[Statement, ...]) -> None:
        """Make the statements that the subject has not made yet."""
        if statements:
            known = self.standing.get(subject, frozenset())
            self.standing[subject] = known.union(statements)
            self.tell(statement for statement in statements if statement not in known)

    def tell(self, statements: Iterable[Statement]) -> None:
        """Make statements. An event names the version of its object."""
        for statement in statements:
            if isinstance(statement, Tell):
                row = self._store.row(statement.regarding)
                self._outbox.state(Telling(statement, row if isinstance(row, ObjectRow) else None))
            else:
                self._outbox.state(statement)

    def tell_if_shown(self, target: Key, edits: tuple[Edit, ...], statements: tuple[Statement, ...]) -> None:
        """Make the statements about a write whose answer was lost, if the object shows that it was carried out."""
        if statements and edits and changes_nothing(self._store.row(target), edits):
            self.tell(statements)

    def clear(self) -> None:
        self.standing.clear()

    def size(self) -> int:
        return len(self.standing)
