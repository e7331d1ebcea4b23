"""The kernel as a whole: store, loop and actor, driven from outside with events, answers and the time.

See decision 0001.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from haulout.cluster.store import Store
from haulout.core.decision import Decider, earliest
from haulout.kernel.actor import Actor
from haulout.kernel.cordons import Cordons
from haulout.kernel.loop import Loop
from haulout.kernel.pauses import Pauses
from haulout.kernel.requests import Answer, Request
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports


class Kernel:
    """Store, loop and actor together: from watch events to requests, without I/O.

    It does not ask the clock, either: its driver feeds the store, sends the requests and hands in the time.
    `keeps_ledger`: surfaces share nodes, so that a ledger on each cordoned node remembers its state from before.
    `pauses`: what is paused is not disrupted. None: no pause is obeyed.
    """

    def __init__(
        self,
        deciders: Sequence[Decider],
        reports: Reports | None = None,
        on_failure: Callable[[Subject, Exception], None] = lambda subject, error: None,
        *,
        keeps_ledger: bool = True,
        pauses: Pauses | None = None,
    ) -> None:
        pauses = pauses or Pauses()
        self.obeys_pauses = pauses.is_obeyed
        self.store = Store()
        self.actor = Actor(self.store, reports, deciders, pauses)
        self.loop = Loop(self.store, deciders, self.actor, on_failure, Cordons(keeps_ledger=keeps_ledger), pauses)
        self.actor.loop = self.loop
        self.leading = True

    def run(self, now: datetime, enough: Callable[[], bool] | None = None) -> bool:
        """Run the decisions that are due.

        Return True once none is left; `take_requests` then returns what is to be sent.
        """
        if not self.leading:
            return self.loop.follow()
        self.actor.tick(now)
        return self.loop.run(now, enough)

    def take_requests(self) -> list[Request]:
        return self.actor.take_requests()

    def on_answer(self, request: int, answer: Answer, now: datetime) -> None:
        self.actor.on_answer(request, answer, now)

    def lead(self) -> None:
        """Begin as the leader, like a process that starts."""
        self.leading = True
        self.actor.restart()
        self.loop.restart()

    def follow(self) -> None:
        """Stop deciding and sending after leadership was lost. Answers to requests under way are dropped."""
        self.leading = False
        self.actor.restart()

    def next_instant(self) -> datetime | None:
        """Return the next instant at which time alone makes something happen; None while another replica leads."""
        if not self.leading:
            return None
        return earliest(self.store.next_instant(), self.loop.next_instant(), self.actor.next_instant())

    def size(self) -> int:
        return self.store.size() + self.loop.size() + self.actor.size()
