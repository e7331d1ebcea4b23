"""K9: a subject that keeps editing one object without an outside cause is slowed down and reported.

An object and its status are written apart, so that one change of state may need an edit of each. They are counted
apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row
from haulout.cluster.store import Store
from haulout.core.decision import USUAL_EDITS
from haulout.kernel.rooms import Subject

RESTLESS_FOR = timedelta(seconds=10)


class Edits(msgspec.Struct, frozen=True):
    """The instants at which a subject last edited an object.

    `row`: the subject's own object as it was then, where it edits another one.
    """

    row: Row | None
    times: tuple[datetime, ...]

    def are_restless(self, now: datetime, most: int) -> bool:
        return len(self.times) == most and self.times[0] + RESTLESS_FOR > now


class EditRates:
    """How often each subject has edited each object, or a subresource of it, lately.

    `most`: by decider, how often a subject of it may edit one object within the window.
    """

    def __init__(self, store: Store, most: Mapping[str, int]) -> None:
        self._store = store
        self._most = most
        # In the order of the last edit, so that expired entries are at the front.
        self._edits: dict[tuple[Subject, Key, str], Edits] = {}

    def record(self, subject: Subject, target: Key, subresource: str, now: datetime) -> None:
        """Note an edit that is being sent."""
        known = self._edits.pop((subject, target, subresource), None)
        row = self._own_row(subject, target)
        times = known.times if known is not None and known.row is row else ()
        self._edits[subject, target, subresource] = Edits(row, (*times, now)[-self._most_of(subject) :])

    def restless_until(self, subject: Subject, target: Key, subresource: str, now: datetime) -> datetime | None:
        """Return when the subject may edit the object again, or None if it may do so now."""
        edits = self._edits.get((subject, target, subresource))
        if (
            edits is None
            or edits.row is not self._own_row(subject, target)
            or not edits.are_restless(now, self._most_of(subject))
        ):
            return None
        return edits.times[0] + RESTLESS_FOR

    def forget_old(self, now: datetime) -> None:
        """Forget the edits that are too old to count."""
        while self._edits:
            known, edits = next(iter(self._edits.items()))
            if edits.times[-1] + RESTLESS_FOR > now:
                break
            del self._edits[known]

    def forget(self, subject: Subject) -> None:
        """Forget the edits of a subject that is gone."""
        for known in [known for known in self._edits if known[0] == subject]:
            del self._edits[known]

    def clear(self) -> None:
        self._edits.clear()

    def size(self) -> int:
        return len(self._edits)

    def _most_of(self, subject: Subject) -> int:
        return self._most.get(subject.decider, USUAL_EDITS)

    def _own_row(self, subject: Subject, target: Key) -> Row | None:
        """Return the object that the decision is about, where it edits another one; a change of it justifies new edits."""
        return self._store.row(subject.key) if subject.key != target else None
