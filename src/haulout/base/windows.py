"""Time windows that begin by a cron expression or on days of the week, in a time zone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from haulout.base.cron import Cron, CronError, parse_cron
from haulout.base.duration import DurationError, parse
from haulout.base.weekday import parse_time_of_day, parse_weekday
from haulout.base.zones import even_midnight, first, last, zone

_DAY = timedelta(days=1)
LONGEST_FOR = 31 * _DAY
# How many days ahead the next start is searched: more than eight years, the time between two leap days around 2100.
_HORIZON_DAYS = 9 * 366
# Limits of one search. At a limit it returns an instant before which the answer does not change, and the caller has to
# ask again then.
_MOST_JOINED = 50
_JOINED_FOR = 2 * _DAY
_MOST_STEPS = 200
_SEARCHED_FOR = 400 * _DAY
_FIELDS = frozenset({"type", "schedule", "duration", "days", "from", "to", "timeZone"})


At = TypeVar("At", datetime, timedelta)


class WindowError(ValueError):
    """A window is not valid. The message has the path to the field."""


class Span(NamedTuple):
    """A span of time. It includes its start, but not its end."""

    start: datetime
    end: datetime


class Edge(NamedTuple):
    """The answer of a window about one instant.

    `inside`: whether the instant lies in the window.
    `until`: the instant before which that does not change; None where it never does.
    """

    inside: bool
    until: datetime | None


class Repeated(msgspec.Struct, frozen=True, cache_hash=True):
    """The pattern of a window that begins at each instant of a cron expression and lasts for a fixed time.

    A change to or from daylight saving time does not change how long it lasts.
    """

    cron: Cron
    lasts_for: timedelta


class Weekly(msgspec.Struct, frozen=True, cache_hash=True):
    """The pattern of a window that begins on some weekdays and lies between two times of day.

    `days`: the weekdays on which it begins (Monday is 0).
    `end`: where it is not later than `start`, the window ends on the next day.
    """

    days: frozenset[int]
    start: time
    end: time


class Window(msgspec.Struct, frozen=True, cache_hash=True):
    """A recurring span of time in which something is allowed or denied.

    If one window allows and another denies, the denial wins.
    """

    pattern: Repeated | Weekly
    zone: str = ""
    denies: bool = False

    def edge(self, at: datetime) -> Edge:
        """Return whether an instant lies in the window, and until when that does not change."""
        latest = self._latest(at)
        if latest is None or latest.end <= at:
            return Edge(False, self._next_start(at))
        end = latest.end
        for _ in range(_MOST_JOINED):
            following = self._latest(end)
            if following is None or following.end <= end or end - at > _JOINED_FOR:
                break
            end = following.end
        return Edge(True, end)

    def _latest(self, at: datetime) -> Span | None:
        """Return the last opening that began by then. No earlier opening ends later."""
        today = at.astimezone(zone(self.zone)).date()
        reach = self.pattern.lasts_for.days + 2 if isinstance(self.pattern, Repeated) else 3
        for back in range(-1, reach):
            begun = [span for span in _begun_on(self, today - back * _DAY) if span.start <= at]
            if begun:
                return begun[-1]
        return None

    def _next_start(self, at: datetime) -> datetime | None:
        today = at.astimezone(zone(self.zone)).date()
        for ahead in range(-1, _HORIZON_DAYS):
            for span in _begun_on(self, today + ahead * _DAY):
                if span.start > at:
                    return span.start
        return None


# Cached because decisions ask for the same days again and again.
@lru_cache(maxsize=1024)
def _begun_on(window: Window, day: date) -> tuple[Span, ...]:
    """Return the openings that begin on a day in the window's time zone, in order. Openings that touch are merged."""
    there, pattern = zone(window.zone), window.pattern
    if isinstance(pattern, Repeated):
        midnight = even_midnight(day, there)
        # On days without a change of clocks, all openings have the same times of day, which are computed once.
        # Computing every minute of a day takes some milliseconds, and a search may go through a year.
        if midnight is not None and pattern.cron.matches(day):
            return tuple(Span(midnight + start, midnight + end) for start, end in _on_the_wall(pattern))
        return tuple(Span(*each) for each in _joined(pattern.cron.instants(day, there), pattern.lasts_for))
    if day.weekday() not in pattern.days:
        return ()
    start = first(datetime.combine(day, pattern.start), there)
    wall = datetime.combine(day if pattern.end > pattern.start else day + _DAY, pattern.end)
    # If the clock shows the end twice, the safe choice is the longer denial and the shorter permission.
    end = last(wall, there) if window.denies else first(wall, there)
    return (Span(start, end),) if start < end else ()


@lru_cache(maxsize=128)
def _on_the_wall(pattern: Repeated) -> tuple[tuple[timedelta, timedelta], ...]:
    """Return the starts and ends of the openings, counted from midnight, on a day without a change of clocks."""
    starts = (timedelta(hours=at.hour, minutes=at.minute) for at in pattern.cron.times)
    return tuple(_joined(sorted(starts), pattern.lasts_for))


def _joined(starts: Iterable[At], lasts_for: timedelta) -> list[tuple[At, At]]:
    found: list[tuple[At, At]] = []
    for start in starts:
        begun = found.pop()[0] if found and start <= found[-1][1] else start
        found.append((begun, start + lasts_for))
    return found


class Windows(msgspec.Struct, frozen=True, cache_hash=True):
    """All windows of one budget together.

    They are open while no window denies and at least one allows. If no window is of the type Allow, they are open
    while none denies.
    """

    all: tuple[Window, ...] = ()

    @property
    def zone(self) -> str:
        """The time zone of all windows; empty if it is UTC, or if they have several."""
        zones = {window.zone for window in self.all}
        return zones.pop() if len(zones) == 1 else ""

    def is_open(self, at: datetime) -> bool:
        return self._edge(at).inside

    def changes_at(self, now: datetime) -> datetime | None:
        """Return the instant before which `is_open` does not change; None if it never changes."""
        edge = self._edge(now)
        return edge.until if edge.inside else self._search(now)

    def opens_at(self, now: datetime) -> datetime | None:
        """Return when closed windows open next; None if that is never, or too far away to be found."""
        at = self._search(now)
        return at if at is not None and self.is_open(at) else None

    def _search(self, now: datetime) -> datetime | None:
        """Return the next instant at which the windows are open, or at which the search reached a limit."""
        at: datetime | None = now
        for _ in range(_MOST_STEPS):
            if at is None or (edge := self._edge(at)).inside or at - now > _SEARCHED_FOR:
                break
            at = edge.until
        return at

    def _edge(self, at: datetime) -> Edge:
        denials = [window.edge(at) for window in self.all if window.denies]
        if standing := [edge for edge in denials if edge.inside]:
            # The windows cannot open before the last of these denials has ended.
            return Edge(False, _latest(standing))
        permits = [window.edge(at) for window in self.all if not window.denies]
        inner = [edge for edge in permits if edge.inside]
        if permits and not inner:
            return Edge(False, _earliest(permits))
        return Edge(True, _earliest([*denials, *([Edge(True, _latest(inner))] if inner else [])]))


def _earliest(edges: Iterable[Edge]) -> datetime | None:
    return min((edge.until for edge in edges if edge.until is not None), default=None)


def _latest(edges: Iterable[Edge]) -> datetime | None:
    return max((edge.until for edge in edges if edge.until is not None), default=None)


def window_from_object(value: Any, path: str) -> Window:
    """Read a window: `type`, `timeZone`, and `schedule` with `duration` or any of `days`, `from` and `to`."""
    if not isinstance(value, Mapping):
        raise WindowError(f"{path}: must be an object")
    fields = {name: field for name, field in value.items() if field is not None}
    if unknown := sorted(fields.keys() - _FIELDS):
        raise WindowError(f"{path}.{unknown[0]}: there is no such field")
    kind = fields.get("type", "Allow")
    if kind not in ("Allow", "Deny"):
        raise WindowError(f"{path}.type: {kind} is not known (Allow or Deny)")
    name = _text(fields, "timeZone", path)
    try:
        zone(name)
    except ValueError as error:
        raise WindowError(f"{path}.timeZone: {error}") from None
    weekly = fields.keys() & {"days", "from", "to"}
    if "schedule" in fields and weekly:
        raise WindowError(f"{path}: has a schedule and {', '.join(sorted(weekly))} (one or the other)")
    if "schedule" not in fields and not weekly:
        raise WindowError(f"{path}: has no times (schedule and duration, or days, from and to)")
    pattern = _repeated(fields, path) if "schedule" in fields else _weekly(fields, path)
    return Window(pattern, name, denies=kind == "Deny")


def _repeated(fields: Mapping[str, Any], path: str) -> Repeated:
    try:
        cron = parse_cron(_text(fields, "schedule", path))
    except CronError as error:
        raise WindowError(f"{path}.schedule: {error}") from None
    try:
        lasts_for = parse(_text(fields, "duration", path))
    except DurationError as error:
        raise WindowError(f"{path}.duration: {error} (such as 4h or 90m)") from None
    if not timedelta(minutes=1) <= lasts_for <= LONGEST_FOR:
        raise WindowError(f"{path}.duration: must be between 1m and {LONGEST_FOR.days * 24}h")
    return Repeated(cron, lasts_for)


def _weekly(fields: Mapping[str, Any], path: str) -> Weekly:
    if "duration" in fields:
        raise WindowError(f"{path}.duration: goes with a schedule, and there is none")
    days = fields.get("days", [])
    if not isinstance(days, list | tuple) or not all(isinstance(day, str) for day in days):
        raise WindowError(f"{path}.days: must be a list of weekdays (such as Mon)")
    try:
        chosen = frozenset(map(parse_weekday, days))
    except ValueError as error:
        raise WindowError(f"{path}.days: {error}") from None
    if "days" in fields and not days:
        raise WindowError(f"{path}.days: must not be empty (leave it out for every day)")
    return Weekly(chosen or frozenset(range(7)), _time(fields, "from", path), _time(fields, "to", path))


def _time(fields: Mapping[str, Any], name: str, path: str) -> time:
    """Return a time of day. A missing one is midnight, and so is an end of 24:00."""
    text = _text(fields, name, path)
    if not text or (name == "to" and text == "24:00"):
        return time()
    try:
        return parse_time_of_day(text)
    except ValueError as error:
        raise WindowError(f"{path}.{name}: {error}") from None


def _text(fields: Mapping[str, Any], name: str, path: str) -> str:
    text = fields.get(name, "")
    if not isinstance(text, str):
        raise WindowError(f"{path}.{name}: must be a string")
    return text
