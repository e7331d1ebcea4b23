"""Cron expressions with five fields, read as the CronJobs of Kubernetes read them."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator
from datetime import date, datetime, time, tzinfo

import msgspec

from haulout.base.zones import first, occurrences

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_A_LEAP_YEAR = 2000


class CronError(ValueError):
    """A text is not a valid cron expression. The message says why."""


class Cron(msgspec.Struct, frozen=True, cache_hash=True):
    """A parsed cron expression: the minutes, hours, days, months and weekdays that match.

    `weekdays`: Monday is 0.
    `either`: both days of the month and weekdays are restricted. Then a day matches if one of them does.
    `every_hour`: the hours are not restricted.
    """

    times: tuple[time, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    either: bool
    every_hour: bool

    def matches(self, day: date) -> bool:
        if day.month not in self.months:
            return False
        by_date, by_weekday = day.day in self.days, day.weekday() in self.weekdays
        return by_date or by_weekday if self.either else by_date and by_weekday

    def instants(self, day: date, there: tzinfo) -> Iterator[datetime]:
        """Yield the instants of a day, in order.

        When clocks are changed, an expression for certain hours gives each time once: its first occurrence if the clock
        shows it twice, and the instant of the change if the clock skips it. An expression for every hour gives each
        time as often as the clock shows it.
        """
        walls = [datetime.combine(day, at) for at in self.times] if self.matches(day) else []
        if self.every_hour:
            yield from sorted({at for wall in walls for at in occurrences(wall, there)})
        else:
            yield from sorted({first(wall, there) for wall in walls})


def parse_cron(text: str) -> Cron:
    fields = text.split()
    if len(fields) != 5:
        raise CronError(f'"{text}" has {len(fields)} fields (minute, hour, day of month, month and weekday: 5)')
    minutes, hours = _numbers(fields[0], "minute", 0, 59), _numbers(fields[1], "hour", 0, 23)
    days, months = _numbers(fields[2], "day of month", 1, 31), _numbers(fields[3], "month", 1, 12, _MONTHS)
    sundays = _numbers(fields[4], "weekday", 0, 7, _WEEKDAYS)
    either = not _is_any(fields[2]) and not _is_any(fields[4])
    if not either and min(days) > max(monthrange(_A_LEAP_YEAR, month)[1] for month in months):
        raise CronError(f'"{text}" names a day that no year has')
    return Cron(
        times=tuple(time(hour, minute) for hour in sorted(hours) for minute in sorted(minutes)),
        days=days,
        months=months,
        weekdays=frozenset((number - 1) % 7 for number in sundays),
        either=either,
        every_hour=_is_any(fields[1]),
    )


def _is_any(field: str) -> bool:
    """Whether a field is not restricted: one of its parts is a star without a step, or with the step 1.

    CronJobs keep `*/1` and lists with a star apart from numbers in the same way (robfig/cron, `getRange`).
    """
    parts = (part.partition("/") for part in field.split(","))
    return any(_is_star(span) and (not slash or int(step) == 1) for span, slash, step in parts)


def _is_star(span: str) -> bool:
    return span in {"*", "?"}


def _numbers(field: str, what: str, least: int, most: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, slash, step = part.partition("/")
        low, dash, high = span.partition("-")
        # Only where it is written does 7 stand for Sunday, which is 0 already.
        last = min(most, 6) if what == "weekday" else most
        if _is_star(span):
            begin, end = least, last
        else:
            begin = _number(low, what, least, most, names)
            end = _number(high, what, least, most, names) if dash else (last if slash else begin)
        if begin > end:
            raise CronError(f'{what} "{part}" begins after its end')
        if slash and not (step.isascii() and step.isdecimal() and len(step) < 4 and int(step)):
            raise CronError(f'{what} "{part}" has no step that is a number of at least 1')
        found.update(range(begin, end + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(text: str, what: str, least: int, most: int, names: tuple[str, ...]) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + least
    if text.isascii() and text.isdecimal() and len(text) < 4 and least <= int(text) <= most:
        return int(text)
    raise CronError(f'{what} "{text}" is not one of {least} to {most}')
