"""The requests of a kernel: those that wait to be sent, and those whose answer is awaited."""

from __future__ import annotations

from typing import NamedTuple

from haulout.core.action import Measure, Say
from haulout.kernel.jobs import Job
from haulout.kernel.requests import Body, Request, Telling
from haulout.kernel.work import Work


class Sent(NamedTuple):
    """A request whose answer is awaited, with the write that it belongs to. Looks, lists and messages have none."""

    body: Body
    work: Work | None = None
    job: Job | None = None


class Outbox:
    """Numbers the requests, hands them out, and keeps for each number what the answer is for."""

    def __init__(self) -> None:
        self._waiting: list[Request] = []
        self.sent: dict[int, Sent] = {}
        self._number = 0

    def send(self, body: Body, work: Work | None = None, job: Job | None = None) -> int:
        """Hand out a request that will be answered. Return its number."""
        self._number += 1
        self.sent[self._number] = Sent(body, work, job)
        self._waiting.append(Request(self._number, body, continues=work is not None and work.has_answers))
        return self._number

    def state(self, statement: Telling | Measure | Say) -> None:
        """Hand out a statement, which nothing answers."""
        self._waiting.append(Request(0, statement))

    def take(self) -> list[Request]:
        """Take out the requests that have not been taken yet."""
        waiting, self._waiting = self._waiting, []
        return waiting
