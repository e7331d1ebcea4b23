"""The result of a plan, as data: the states of each node over time, what it waited for, and what was guessed."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import msgspec

from haulout.core.planned import OPERATIONAL, REQUIRED, Pick, PodRun


class Span(msgspec.Struct, frozen=True):
    """A stretch of time in a plan during which a node was in one state.

    `ends_at` None: the node was still in it when the plan ended.
    """

    state: str
    begins_at: datetime
    ends_at: datetime | None = None


class Course(msgspec.Struct, frozen=True):
    """The states of one node over the time of a plan.

    `waits_for`: what a node that does not return to service last waited for. `cordons`: when it was cordoned.
    """

    node: str
    spans: tuple[Span, ...]
    waits_for: str = ""
    cordons: tuple[Span, ...] = ()

    @property
    def goes(self) -> bool:
        return any(span.state != OPERATIONAL for span in self.spans)

    @property
    def begins_at(self) -> datetime | None:
        """When work on the node begins; None if it only waits or never leaves service."""
        begun = (span.begins_at for span in self.spans if span.state not in (OPERATIONAL, REQUIRED))
        return next(begun, None)

    @property
    def returns_at(self) -> datetime | None:
        """When the node is back in service for good; None if it does not return or never leaves."""
        last = self.spans[-1] if self.spans else None
        return last.begins_at if self.goes and last is not None and last.state == OPERATIONAL else None


class Choice(msgspec.Struct, frozen=True):
    """One choice that a surface made in a plan: the object that is next, its node, and why."""

    at: datetime
    object: str
    node: str
    pick: Pick


class Timetable(msgspec.Struct, frozen=True):
    """The times at which one schedule is open during a plan. `name`: the budget, check or scheduler that keeps to it."""

    name: str
    openings: tuple[Span, ...] = ()


class Forecast(msgspec.Struct, frozen=True):
    """The result of a plan: when each node leaves service and returns, and what it waits for.

    `kept`: each cause with the time that nodes waited for it, summed over all nodes, the longest first.
    `choices`: the choices of schedulers, in the order of time. `runs`: how long the pods of surfaces ran.
    `timetables`: when the schedules of surfaces and budgets are open.
    """

    begins_at: datetime
    ends_at: datetime
    courses: tuple[Course, ...]
    kept: tuple[tuple[str, timedelta], ...] = ()
    choices: tuple[Choice, ...] = ()
    runs: tuple[PodRun, ...] = ()
    timetables: tuple[Timetable, ...] = ()

    @property
    def guesses(self) -> tuple[PodRun, ...]:
        """The runs whose duration is assumed, because no node has recorded one."""
        return tuple(run for run in self.runs if not run.count)

    @property
    def most_cordoned(self) -> int:
        """The largest number of nodes that are cordoned at the same time."""
        spans = [span for course in self.courses for span in course.cordons]
        # The end of a span sorts before a beginning at the same instant: the released node made room for the other.
        steps = [(span.begins_at, 1) for span in spans] + [(span.ends_at, -1) for span in spans if span.ends_at]
        return max(itertools.accumulate(step for _, step in sorted(steps)), default=0)

    @property
    def cordoned_for(self) -> timedelta:
        """How long nodes are cordoned, summed over all nodes."""
        spans = (span for course in self.courses for span in course.cordons)
        return sum(((span.ends_at or self.ends_at) - span.begins_at for span in spans), timedelta())

    @property
    def finished_at(self) -> datetime | None:
        """When the last node is back in service; None if one does not return, or if none leaves."""
        going = [course for course in self.courses if course.goes]
        times = [course.returns_at for course in going]
        return max((at for at in times if at is not None), default=None) if None not in times else None
