"""A stand-in for the loop that only records the calls of the actor."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import node_key
from haulout.kernel.rooms import Subject

A, B = node_key("a"), node_key("b")


def subject(name: str = "a", decider: str = "one") -> Subject:
    return Subject(decider, node_key(name))


class NotedWakes:
    def __init__(self) -> None:
        self.woken: list[Subject] = []
        self.has_ended: list[Subject] = []
        self.paused: dict[Subject, datetime] = {}

    def wake(self, subject: Subject) -> None:
        self.woken.append(subject)

    def on_end(self, subject: Subject) -> None:
        self.has_ended.append(subject)

    def pause(self, subject: Subject, until: datetime) -> None:
        self.paused[subject] = until
