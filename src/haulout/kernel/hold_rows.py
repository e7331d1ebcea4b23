"""The hold rows that stand for claims: paused after a refused write, declined while a grant is not used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

import msgspec

from haulout.cluster.store import Store
from haulout.core.holds import Claim, Grant, Hold, grant_key, hold_key
from haulout.kernel.askings import Asked, Askings
from haulout.kernel.rooms import Subject


class HoldRows:
    """The hold rows of all subjects.

    The grants of a paused or a declined hold pass on to other subjects. `surfaces`: the surface of each decision function.
    """

    def __init__(self, store: Store, askings: Askings, surfaces: Mapping[str, str]) -> None:
        self._store = store
        self._askings = askings
        self._surfaces = surfaces
        # Until when the holds of a subject are paused.
        self.paused: dict[Subject, datetime] = {}
        # For each subject whose holds are declined, the asking that did not use the grants: what it read is what kept the
        # subject from using them.
        self.declined: dict[Subject, Asked] = {}

    def __len__(self) -> int:
        return len(self.paused) + len(self.declined)

    def of_claims(self, subject: Subject, claims: Iterable[Claim], now: datetime) -> list[Hold]:
        """Return the rows of a subject's claims. A pause that has ended by now is removed."""
        paused = self.paused.get(subject)
        if paused is not None and paused <= now:
            del self.paused[subject]
            paused = None
        declined, surface = subject in self.declined, self._surfaces[subject.decider]
        return [
            Hold(
                key=hold_key(subject.decider, claim),
                surface=surface,
                claim=claim,
                paused_until=None if claim.begun else paused,
                declined=declined and not claim.begun,
            )
            for claim in claims
        ]

    def pause(self, subject: Subject, until: datetime) -> None:
        """Pause the holds of a subject whose write was refused."""
        self.paused[subject] = until
        asked = self._askings.asked.get(subject)
        for hold in self._waiting(asked) if asked else ():
            self._store.write(msgspec.structs.replace(hold, paused_until=until))

    def decline(self, subject: Subject, asked: Asked, awaits: Callable[[Subject], bool]) -> None:
        """Give back the grants of a subject that did not use them in this asking, unless it awaits an effect or a proof.

        The subject is considered again when a topic that it has read since then changes.
        """
        holds = self._waiting(asked)
        if not holds or subject in self.paused or not any(map(self._is_granted, holds)) or awaits(subject):
            return
        if not all(self._store.row(grant_key(hold.key)) for hold in holds):
            # Claims on several nodes are answered one by one, and may be of use only together.
            return
        self.declined[subject] = asked
        for hold in holds:
            self._store.write(msgspec.structs.replace(hold, declined=True))

    def reconsider(self, subject: Subject) -> None:
        """Note that a subject may use its grants at its next asking."""
        self.declined.pop(subject, None)

    def forget(self, subject: Subject) -> None:
        self.paused.pop(subject, None)
        self.declined.pop(subject, None)

    def clear(self) -> None:
        self.paused.clear()
        self.declined.clear()

    def _is_granted(self, hold: Hold) -> bool:
        grant = self._store.row(grant_key(hold.key))
        return isinstance(grant, Grant) and grant.granted

    def _waiting(self, asked: Asked) -> list[Hold]:
        rows = [self._store.row(key) for key in asked.made]
        return [row for row in rows if isinstance(row, Hold) and not row.claim.begun]
