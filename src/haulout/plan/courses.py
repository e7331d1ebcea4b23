"""The result of a plan, as data: the way of each node, what it waited for, and what was guessed."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta

import msgspec

from haulout.core.planned import OPERATIONAL, REQUIRED, Pick, PodRun


class Span(msgspec.Struct, frozen=True):
    """A stretch of time in a plan during which a node was in one state.

    `ends_at` None: it still was when the plan ended.
    """

    state: str
    begins_at: datetime
    ends_at: datetime | None = None


class Course(msgspec.Struct, frozen=True):
    """The way of one node through a plan.

    `waits_for`: where it does not get back, what it last waited for. `cordons`: when it was cordoned.
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
        """When something is first done to it; None: it only waits, or never left."""
        begun = (span.begins_at for span in self.spans if span.state not in (OPERATIONAL, REQUIRED))
        return next(begun, None)

    @property
    def returns_at(self) -> datetime | None:
        """When it is back in service for good; None: it is not, or never left."""
        last = self.spans[-1] if self.spans else None
        return last.begins_at if self.goes and last is not None and last.state == OPERATIONAL else None


class Choice(msgspec.Struct, frozen=True):
    """One choice of a surface in a plan: which object was to go next, of which node, and why."""

    at: datetime
    object: str
    node: str
    pick: Pick


class Timetable(msgspec.Struct, frozen=True):
    """When one schedule is open during a plan. `name`: who keeps to it."""

    name: str
    openings: tuple[Span, ...] = ()


class Forecast(msgspec.Struct, frozen=True):
    """The result of a plan: when each node goes and comes back, and what it waits for.

    `kept`: how long nodes waited together for what, the longest first. `choices`: in their order in time.
    `runs`: how long the pods of surfaces ran. `timetables`: when schedules that surfaces and budgets keep to are open.
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
        """The runs whose time was not seen on any node."""
        return tuple(run for run in self.runs if not run.count)

    @property
    def most_cordoned(self) -> int:
        """How many nodes are cordoned at once at most."""
        spans = [span for course in self.courses for span in course.cordons]
        # At one instant, a node that is released makes room for another.
        steps = [(span.begins_at, 1) for span in spans] + [(span.ends_at, -1) for span in spans if span.ends_at]
        return max(itertools.accumulate(step for _, step in sorted(steps)), default=0)

    @property
    def cordoned_for(self) -> timedelta:
        """How long nodes are cordoned, all together."""
        spans = (span for course in self.courses for span in course.cordons)
        return sum(((span.ends_at or self.ends_at) - span.begins_at for span in spans), timedelta())

    @property
    def finished_at(self) -> datetime | None:
        """When the last node is back; None: one is not, or none went."""
        going = [course for course in self.courses if course.goes]
        times = [course.returns_at for course in going]
        return max((at for at in times if at is not None), default=None) if None not in times else None
