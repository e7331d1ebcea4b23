"""timeWindow: passes between two times of day on some weekdays, some dates excluded."""

from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache, lru_cache
from zoneinfo import ZoneInfo

from haulout.base.weekday import MonthDay, parse_month_day, parse_time_of_day, parse_weekday
from haulout.plugins.api import CheckInput, Config, Verdict, check
from haulout.plugins.config import ConfigProblem

_DAY = timedelta(days=1)
_INSTANT = timedelta(microseconds=1)
# How many days ahead the next change is searched. If it is farther away, the check just runs once more before it.
_LOOK_AHEAD_DAYS = 15
EXCLUDED = "day/month forbidden"


class TimeWindow(Config, frozen=True, kw_only=True):
    """The settings of a `timeWindow` check.

    - `start`, `end`: times of day, as `15:04`.
    - `weekdays`: on which days the window opens, as `mon`.
    - `exclude`: dates on which it stays closed, as `Dec 24`.
    - `allowOvernight`: `end` may be before `start`; the window then ends on the next day.
    - `timezone`: a name such as `Europe/Berlin`; UTC where it is empty.

    - {type: timeWindow, name: night,
      config: {start: "22:00", end: "04:00", allowOvernight: true, weekdays: [mon, tue], timezone: Europe/Berlin}}
    """

    start: str = ""
    end: str = ""
    weekdays: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_overnight: bool = False
    timezone: str = ""

    def validate(self) -> None:
        if not self.weekdays:
            raise ConfigProblem("a timewindow needs to have weekdays specified")
        try:
            start, end = self.times()
            if start > end and not self.allow_overnight:
                wrong = f"the end time '{_time_text(end)}' should be after the start time '{_time_text(start)}'"
                raise ConfigProblem(wrong, right="allowOvernight: true, for a window over midnight")
            self.days()
            self.excluded()
        except ValueError as error:
            raise ConfigProblem(str(error)) from None
        try:
            _zone(self.timezone)
        except (KeyError, OSError, ValueError):
            raise ConfigProblem(f"unknown time zone {self.timezone}", right="a name such as Europe/Berlin") from None

    def times(self) -> tuple[time, time]:
        return parse_time_of_day(self.start), parse_time_of_day(self.end)

    def days(self) -> frozenset[int]:
        return frozenset(map(parse_weekday, self.weekdays))

    def excluded(self) -> frozenset[MonthDay]:
        return frozenset(map(parse_month_day, self.exclude))


@check("timeWindow", TimeWindow)
def time_window(config: TimeWindow, inputs: CheckInput) -> Verdict:
    return _judged(config, inputs.now)


# Cached because the verdict is the same for all nodes, and all nodes that wait for the window ask at the same instant.
@lru_cache(maxsize=16)
def _judged(config: TimeWindow, now: datetime) -> Verdict:
    window = window_of(config)
    passed = window.is_open(now)
    reason = "" if passed else window.reason(now)
    until = window.changes_at(now)
    name = f"the time window {config.start}-{config.end} {config.timezone or 'UTC'} on {', '.join(config.weekdays)}"
    if until is None:
        finding, act = f"{name} never opens: it ends when it begins", "set another `start` or `end` in the check"
    else:
        excluded = ", because this day is excluded" if reason == EXCLUDED else ""
        finding, act = f"{name} is open" if passed else f"{name} is closed{excluded}", ""
    return Verdict(passed=passed, until=until, info={"reason": reason} if reason else {}, finding=finding, act=act)


class Window:
    """The times at which a `timeWindow` check passes. The boundaries of the last day are cached."""

    def __init__(self, config: TimeWindow) -> None:
        self._start, self._end = config.times()
        self._days = config.days()
        self._excluded = config.excluded()
        self._zone = _zone(config.timezone)
        self._day: date | None = None
        self._ahead: list[datetime] = []

    def is_open(self, at: datetime) -> bool:
        local = at.astimezone(self._zone)
        now = local.time()
        if self._start <= self._end:
            return self._start < now < self._end and not self._objection(local.date())
        begun_today = now > self._start and not self._objection(local.date())
        return begun_today or (now < self._end and not self._objection(local.date() - _DAY))

    def reason(self, at: datetime) -> str:
        """Return why no window begins on this day; empty if one does, and only the time of day is outside of it."""
        return self._objection(at.astimezone(self._zone).date())

    def changes_at(self, now: datetime) -> datetime | None:
        """Return when the window opens or closes next; None if it never opens."""
        if self._start == self._end:
            return None
        is_open = self.is_open(now)
        last: datetime | None = None
        for at in self._boundaries(now.astimezone(self._zone).date()):
            if at < now:
                continue
            # At a boundary itself the window is closed. So an instant right after it shows whether it opens or closes.
            if self.is_open(at + _INSTANT) != is_open:
                return at
            last = at
        return last

    def _objection(self, day: date) -> str:
        if day.weekday() not in self._days:
            return "current day of week forbidden"
        return EXCLUDED if MonthDay(day.month, day.day) in self._excluded else ""

    def _boundaries(self, today: date) -> list[datetime]:
        """Return the instants from a day on at which the window may open or close, in order."""
        if self._day == today:
            return self._ahead
        found: set[datetime] = set()
        for ahead in range(_LOOK_AHEAD_DAYS):
            midnight = datetime.combine(today + ahead * _DAY, time(), self._zone)
            times = (midnight, *(midnight.replace(hour=at.hour, minute=at.minute) for at in (self._start, self._end)))
            found |= {at.replace(fold=fold).astimezone(UTC) for at in times for fold in (0, 1)}
            found |= self._jumps(midnight.astimezone(UTC))
        self._day, self._ahead = today, sorted(found)
        return self._ahead

    def _jumps(self, start: datetime) -> set[datetime]:
        """Return the instant at which clocks change within two days. If they skip a boundary, it is crossed then."""
        low, high = start, start + 2 * _DAY
        before = self._offset(low)
        if self._offset(high) == before:
            return set()
        while high - low > timedelta(seconds=1):
            middle = (low + (high - low) / 2).replace(microsecond=0)
            low, high = (middle, high) if self._offset(middle) == before else (low, middle)
        return {high}

    def _offset(self, at: datetime) -> timedelta | None:
        return at.astimezone(self._zone).utcoffset()


@lru_cache(maxsize=64)
def window_of(config: TimeWindow) -> Window:
    return Window(config)


@cache
def _zone(name: str) -> tzinfo:
    return ZoneInfo(name) if name else UTC


def _time_text(at: time) -> str:
    """Return a time of day as Go prints a time that was parsed without a date."""
    return f"0000-01-01 {at:%H:%M:%S} +0000 UTC"
