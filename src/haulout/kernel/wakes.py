"""The protocols by which the actor wakes the loop and reports writes that did not succeed."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from haulout.cluster.key import Key
from haulout.kernel.requests import Body, Refused
from haulout.kernel.rooms import Subject


class Wakes(Protocol):
    """The part of the loop that the actor calls."""

    def wake(self, subject: Subject) -> None:
        """Run the subject's decision again."""
        ...

    def on_end(self, subject: Subject) -> None:
        """Note that nothing of the subject's last decision is under way any more."""
        ...

    def pause(self, subject: Subject, until: datetime) -> None:
        """Pass the subject's grants on to others until this instant, because its write is delayed for so long."""
        ...


class Reports:
    """The receiver of the actor's reports about writes that did not succeed.

    This base class ignores them; a subclass overrides what it wants to know.
    """

    def on_refusal(self, subject: Subject, body: Body, answer: Refused) -> None:
        """Note that the server refused a write."""

    def on_lost_answer(self, subject: Subject) -> None:
        """Note that no answer came to a write."""

    def on_restless(self, subject: Subject, target: Key) -> None:
        """Note that a subject edits an object so often that it is slowed down (K9)."""
