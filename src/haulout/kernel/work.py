"""The state of one decision that is being carried out."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.core.action import Statement
from haulout.core.holds import Claim
from haulout.kernel.jobs import Batch, Job
from haulout.kernel.rooms import Subject


class Work(msgspec.Struct, eq=False):
    """A decision that is being carried out, one batch of writes after the other.

    `basis`: the rows that the decision has read; only the answers to its own writes may replace them.
    `grants`: the grants that the decision uses. `claims`: what it claims.
    `sent`: the numbers of its requests that are under way. `has_answers`: whether any of them has been answered.
    `queued`: how many of its writes wait for a busy object.
    `is_started`: whether the writes of the first batch have been sent. `is_told`: whether its statements are made.
    `is_refused`: whether the rest is withheld.
    `paused_until`: until when one of its writes is delayed; its grants pass on meanwhile.
    `is_dropped`: whether leadership has changed since, so that no subject waits for the end.
    """

    subject: Subject
    batches: list[Batch]
    basis: dict[Key, Row | None]
    grants: list[Key]
    claims: tuple[Claim, ...] = ()
    sent: set[int] = msgspec.field(default_factory=set)
    has_answers: bool = False
    queued: int = 0
    is_started: bool = False
    is_told: bool = True
    is_refused: bool = False
    paused_until: datetime | None = None
    is_dropped: bool = False

    @property
    def is_under_way(self) -> bool:
        return bool(self.sent or self.queued)

    def statements_of(self, job: Job) -> tuple[Statement, ...]:
        """Return the statements that describe this write alone."""
        batch = self.batches[0] if self.batches else Batch()
        return batch.tells if batch.jobs == (job,) else ()

    def drop(self) -> None:
        """Withhold the rest, and report the end to no subject: leadership has changed."""
        self.batches.clear()
        self.is_dropped = True
