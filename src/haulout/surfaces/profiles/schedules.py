"""The three schedules of notifications: periodic, scheduled and oneshot."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import msgspec

from haulout.base.clock import after
from haulout.base.weekday import parse_time_of_day, parse_weekday
from haulout.plugins.config import Config, ConfigProblem, GoDuration
from haulout.surfaces.profiles.wire import NEVER, State

_DAY = timedelta(days=1)


class Occasion(msgspec.Struct, frozen=True):
    """The inputs of a schedule.

    `sent_at`: the last delivery through the instance. `transition_at`: the last transition of the profile.
    """

    current: str
    previous: str
    sent_at: datetime
    transition_at: datetime


class Due(msgspec.Struct, frozen=True):
    """The answer of a schedule.

    `is_due`: send the notification now. `until`: time alone does not change the answer before. `reasons`: why not, for
    the log.
    """

    is_due: bool
    until: datetime | None = None
    reasons: tuple[str, ...] = ()


class Periodic(Config, frozen=True, kw_only=True):
    """A schedule that repeats a notification.

    It sends on every change of state, and then once in every interval until the node is operational again.
    """

    interval: GoDuration = timedelta(hours=1)

    def due(self, occasion: Occasion, now: datetime) -> Due:
        if occasion.current != occasion.previous:
            return Due(True)
        reasons = ("NotifyPeriodic: no state change", "NotifyPeriodic: interval not passed or operational")
        if occasion.previous == State.OPERATIONAL:
            return Due(False, reasons=reasons)
        if now - occasion.sent_at >= self.interval:
            return Due(True)
        return Due(False, after(occasion.sent_at, self.interval), reasons)


class Scheduled(Config, frozen=True, kw_only=True):
    """A schedule that sends a notification once a day, whatever the state is.

    It sends from a time of day on, on some weekdays, all in UTC.
    """

    instant: str = ""
    weekdays: tuple[str, ...] = ()

    def validate(self) -> None:
        if not self.weekdays:
            raise ConfigProblem("a notification schedule needs to have weekdays specified")
        try:
            self._instant()
            self._weekdays()
        except ValueError as error:
            raise ConfigProblem(str(error)) from None

    def due(self, occasion: Occasion, now: datetime) -> Due:
        now = now.astimezone(UTC)
        if reason := self._reason(occasion, now):
            return Due(False, self._next(occasion, now), (reason,))
        return Due(True, after(now.replace(hour=0, minute=0, second=0, microsecond=0), _DAY))

    def _reason(self, occasion: Occasion, now: datetime) -> str:
        if now.weekday() not in self._weekdays():
            return "NotifyScheduled: weekday not contained"
        if now.time() < self._instant():
            return "NotifyScheduled: current time is before specified instant"
        if occasion.sent_at.astimezone(UTC).date() == now.date():
            return "NotifyScheduled: already triggered today"
        return ""

    def _next(self, occasion: Occasion, now: datetime) -> datetime | None:
        at = datetime.combine(now.date(), self._instant(), UTC)
        # Fifteen days are enough: every weekday occurs twice, and the day of the last delivery is skipped at most once.
        for _ in range(15):
            is_sent = occasion.sent_at.astimezone(UTC).date() == at.date()
            if at > now and at.weekday() in self._weekdays() and not is_sent:
                return at
            following = after(at, _DAY)
            if following is None:
                break
            at = following
        return None

    def _instant(self) -> time:
        return parse_time_of_day(self.instant)

    def _weekdays(self) -> frozenset[int]:
        return frozenset(map(parse_weekday, self.weekdays))


class Oneshot(Config, frozen=True, kw_only=True):
    """A schedule that sends a notification once for each state.

    It sends when `delay` has passed since the state was entered.
    """

    delay: GoDuration = timedelta(minutes=1)

    def due(self, occasion: Occasion, now: datetime) -> Due:
        if occasion.transition_at == NEVER.at:
            return Due(False, reasons=("NotifyOneshot: StateChange is zero",))
        if occasion.sent_at > occasion.transition_at:
            return Due(False, reasons=("NotifyOneshot: already notified",))
        if now - occasion.transition_at >= self.delay:
            return Due(True)
        return Due(False, after(occasion.transition_at, self.delay))


Schedule = Periodic | Scheduled | Oneshot

SCHEDULES: dict[str, type[Periodic | Scheduled | Oneshot]] = {
    "periodic": Periodic,
    "scheduled": Scheduled,
    "oneshot": Oneshot,
}
"""The schedules by name in lower case. A configuration may spell the names in any case."""
