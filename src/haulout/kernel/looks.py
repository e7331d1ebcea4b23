"""Looks: GETs that correct our picture of an object wherever it may be wrong."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.store import Store
from haulout.kernel.outbox import Outbox
from haulout.kernel.requests import Answer, Done, Look, Refused


class Looks:
    """The looks that are under way, each with the version that was known of its object when it was sent."""

    def __init__(self, store: Store, outbox: Outbox) -> None:
        self._store = store
        self._outbox = outbox
        self._known: dict[int, int] = {}

    def send(self, target: Key) -> None:
        """Look at an object."""
        row = self._store.row(target)
        self._store.hold_open(target)
        self._known[self._outbox.send(Look(target))] = row.version if row else -1

    def on_answer(self, target: Key, request: int, answer: Answer) -> bool:
        """Take in what a look has shown. Return False if it has shown nothing and must be repeated."""
        known = self._known.pop(request)
        match answer:
            case Done(row=seen):
                if seen is not None:
                    self._store.answer(seen)
            case Refused(code=404):
                # A row that has come in since the look was sent is newer than its answer.
                self._store.remove(target, known)
            case _:
                return False
        return True
