"""Windows: over midnight, on days when clocks are changed, several at once, and texts that are no windows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any

import pytest

from haulout.base.cron import Cron, CronError, parse_cron
from haulout.base.windows import WindowError, Windows, window_from_object

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def windows(*objects: dict[str, Any]) -> Windows:
    return Windows(tuple(window_from_object(each, f"windows[{number}]") for number, each in enumerate(objects)))


def edges(of: Windows, begin: str, end: str) -> list[str]:
    """Return every instant at which a window opens (+) or closes (-) between two others, in UTC."""
    at, found = instant(begin), []
    while (change := of.changes_at(at)) is not None and change < instant(end):
        found.append(f"{'+' if of.is_open(change) else '-'}{change:%m-%d %H:%M}")
        at = change
    return found


NIGHTS = {"days": ["Mon", "friday"], "from": "22:00", "to": "06:00"}


@pytest.mark.parametrize(
    ("objects", "begin", "end", "expected"),
    [
        pytest.param(
            [{"from": "08:00", "to": "17:30"}],
            "2026-03-02",
            "2026-03-04",
            ["+03-02 08:00", "-03-02 17:30", "+03-03 08:00", "-03-03 17:30"],
            id="every day",
        ),
        pytest.param(
            [NIGHTS],
            "2026-03-02",
            "2026-03-09",
            ["+03-02 22:00", "-03-03 06:00", "+03-06 22:00", "-03-07 06:00"],
            id="over midnight, named after the day on which it begins",
        ),
        pytest.param(
            [{"days": ["Sat", "Sun"]}], "2026-03-02", "2026-03-15", ["+03-07 00:00", "-03-09 00:00", "+03-14 00:00"],
            id="whole days that touch are one window",
        ),
        pytest.param(
            [{"days": ["Sat"], "from": "20:00", "to": "24:00"}], "2026-03-02", "2026-03-09",
            ["+03-07 20:00", "-03-08 00:00"], id="until the end of the day",
        ),
        pytest.param(
            [{"days": ["Sat"], "from": "20:00", "to": "20:00"}], "2026-03-02", "2026-03-09",
            ["+03-07 20:00", "-03-08 20:00"], id="the same time is a day later",
        ),
        pytest.param(
            [{"schedule": "30 22 * * 1-5", "duration": "2h"}], "2026-03-06T01:00", "2026-03-10",
            ["+03-06 22:30", "-03-07 00:30", "+03-09 22:30"], id="cron",
        ),
        pytest.param(
            [{"schedule": "0 0 1,15 * mon", "duration": "1h"}], "2026-03-01", "2026-03-10",
            ["-03-01 01:00", "+03-02 00:00", "-03-02 01:00", "+03-09 00:00", "-03-09 01:00"],
            id="either kind of day, where both are named",
        ),
        pytest.param(
            [{"schedule": "0 0 29 2 *", "duration": "24h"}], "2025-01-01", "2029-01-01",
            ["+02-29 00:00", "-03-01 00:00"], id="once in four years",
        ),
        pytest.param(
            [{"from": "00:00", "to": "12:00"}, {"type": "Deny", "from": "06:00", "to": "08:00"}],
            "2026-03-02T01:00", "2026-03-03", ["-03-02 06:00", "+03-02 08:00", "-03-02 12:00"],
            id="a denial wins",
        ),
        pytest.param(
            [{"type": "Deny", "days": ["Fri"], "from": "12:00", "to": "24:00"}], "2026-03-02", "2026-03-08",
            ["-03-06 12:00", "+03-07 00:00"], id="a denial alone leaves the rest open",
        ),
        pytest.param(
            [{"from": "22:00", "to": "23:00", "timeZone": BERLIN}, {"from": "22:00", "to": "23:00", "timeZone": NEW_YORK}],
            "2026-01-10", "2026-01-11T12:00",
            ["+01-10 03:00", "-01-10 04:00", "+01-10 21:00", "-01-10 22:00", "+01-11 03:00", "-01-11 04:00"],
            id="each in its zone",
        ),
        pytest.param(
            [{"from": "02:30", "to": "05:00", "timeZone": BERLIN}], "2026-03-28", "2026-03-30",
            ["+03-28 01:30", "-03-28 04:00", "+03-29 01:00", "-03-29 03:00"],
            id="clocks jump over the beginning: as soon as they have",
        ),
        pytest.param(
            [{"from": "01:00", "to": "02:30", "timeZone": BERLIN}], "2026-03-28T12:00", "2026-03-30T01:00",
            ["+03-29 00:00", "-03-29 01:00", "+03-29 23:00", "-03-30 00:30"], id="clocks jump over the end",
        ),
        pytest.param(
            [{"from": "02:10", "to": "02:50", "timeZone": BERLIN}], "2026-03-29", "2026-03-30T12:00",
            ["+03-30 00:10", "-03-30 00:50"], id="clocks jump over all of it",
        ),
        pytest.param(
            [{"from": "02:30", "to": "05:00", "timeZone": BERLIN}], "2026-10-25", "2026-10-26",
            ["+10-25 00:30", "-10-25 04:00"], id="the beginning comes twice: the first",
        ),
        pytest.param(
            [{"from": "01:00", "to": "02:30", "timeZone": BERLIN}], "2026-10-24T12:00", "2026-10-25T12:00",
            ["+10-24 23:00", "-10-25 00:30"], id="the end of a permission comes twice: the first",
        ),
        pytest.param(
            [{"type": "Deny", "from": "01:00", "to": "02:30", "timeZone": BERLIN}], "2026-10-24T12:00", "2026-10-25T12:00",
            ["-10-24 23:00", "+10-25 01:30"], id="the end of a denial comes twice: the second",
        ),
        pytest.param(
            [{"schedule": "30 2 * * *", "duration": "1h", "timeZone": NEW_YORK}], "2026-03-07T12:00", "2026-03-09T12:00",
            ["+03-08 07:00", "-03-08 08:00", "+03-09 06:30", "-03-09 07:30"],
            id="cron in the hour that is skipped: as soon as it has been",
        ),
        pytest.param(
            [{"schedule": "30 1 * * *", "duration": "1h", "timeZone": NEW_YORK}], "2026-11-01", "2026-11-02",
            ["+11-01 05:30", "-11-01 06:30"], id="cron in the hour that comes twice: once",
        ),
        pytest.param(
            [{"schedule": "30 * * * *", "duration": "10m", "timeZone": NEW_YORK}], "2026-11-01T05:00", "2026-11-01T07:00",
            ["+11-01 05:30", "-11-01 05:40", "+11-01 06:30", "-11-01 06:40"], id="every hour, also the one that is doubled",
        ),
        pytest.param(
            [{"schedule": "30 * * * *", "duration": "10m", "timeZone": NEW_YORK}], "2026-03-08T06:00", "2026-03-08T08:00",
            ["+03-08 06:30", "-03-08 06:40", "+03-08 07:30", "-03-08 07:40"], id="every hour, but none that is not there",
        ),
        pytest.param([], "2026-03-02", "2026-03-09", [], id="none: always open"),
    ],
)  # fmt: skip
def test_when_it_opens_and_closes(objects: list[dict[str, Any]], begin: str, end: str, expected: list[str]) -> None:
    assert edges(windows(*objects), begin, end) == expected


@pytest.mark.parametrize(
    "value", [{"schedule": "0 * * * *", "duration": "1h"}, {"from": "06:00", "to": "06:00"}], ids=["cron", "weekly"]
)
def test_windows_that_touch_are_always_open(value: dict[str, Any]) -> None:
    always, now = windows(value), instant("2026-03-28")
    later = always.changes_at(now)
    assert later is not None
    assert later - now > timedelta(days=1)
    assert always.is_open(now)
    assert always.is_open(later)


def test_the_next_opening() -> None:
    of = windows({"from": "08:00", "to": "10:00"}, {"type": "Deny", "days": ["Mon"]})
    assert of.opens_at(instant("2026-03-02T01:00")) == instant("2026-03-03T08:00")
    never = windows({"from": "08:00", "to": "10:00"}, {"type": "Deny", "from": "07:00", "to": "11:00"})
    assert never.opens_at(instant("2026-03-02T01:00")) is None
    assert not never.is_open(instant("2026-03-02T09:00"))


def test_what_never_opens_is_not_looked_for_minute_by_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    """A year of minutes would keep everything else waiting for seconds."""
    looked_at: list[date] = []
    minutes = Cron.instants

    def instants(cron: Cron, day: date, there: tzinfo) -> Iterator[datetime]:
        looked_at.append(day)
        return minutes(cron, day, there)

    monkeypatch.setattr(Cron, "instants", instants)
    never = windows({"type": "Deny", "schedule": "* * * * *", "duration": "2h", "timeZone": NEW_YORK})
    assert never.opens_at(instant("2026-05-01")) is None
    assert looked_at == [date(2026, 11, 1), date(2027, 3, 14)], "the days on which clocks are changed"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param("nights", "must be an object", id="no object"),
        pytest.param({}, "has no times", id="empty"),
        pytest.param({"timeZone": BERLIN}, "has no times", id="a zone alone"),
        pytest.param({**NIGHTS, "till": "x"}, ".till: there is no such field", id="an unknown field"),
        pytest.param({**NIGHTS, "type": "allow"}, ".type: allow is not known (Allow or Deny)", id="type"),
        pytest.param({**NIGHTS, "timeZone": "Mars/Olympus"}, "unknown time zone Mars/Olympus", id="zone"),
        pytest.param({**NIGHTS, "timeZone": "Europe"}, "unknown time zone Europe", id="half a zone"),
        pytest.param({**NIGHTS, "timeZone": "/etc/passwd"}, "unknown time zone /etc/passwd", id="a path"),
        pytest.param({**NIGHTS, "timeZone": 1}, ".timeZone: must be a string", id="a number as zone"),
        pytest.param({**NIGHTS, "schedule": "0 0 * * *"}, "has a schedule and days, from, to", id="both"),
        pytest.param({**NIGHTS, "duration": "1h"}, ".duration: goes with a schedule", id="a duration alone"),
        pytest.param({"days": []}, ".days: must not be empty", id="no days"),
        pytest.param({"days": "Mon"}, ".days: must be a list", id="days as text"),
        pytest.param({"days": ["Mo"]}, ".days: 'Mo' is not a known weekday", id="a day"),
        pytest.param({"from": "24:00"}, ".from: ", id="from 24:00"),
        pytest.param({"to": "25:00"}, ".to: ", id="to 25:00"),
        pytest.param({"schedule": "0 0 * * *"}, ".duration: ", id="no duration"),
        pytest.param(
            {"schedule": "0 0 * * *", "duration": "10s"}, ".duration: must be between 1m and 744h", id="short"
        ),
        pytest.param({"schedule": "0 0 * * *", "duration": "745h"}, ".duration: must be between", id="long"),
        pytest.param({"schedule": "daily", "duration": "1h"}, '.schedule: "daily" has 1 fields', id="cron"),
    ],
)
def test_what_is_no_window(value: object, said: str) -> None:
    with pytest.raises(WindowError) as caught:
        window_from_object(value, "windows[0]")
    assert str(caught.value).startswith("windows[0]")
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("60 * * * *", 'minute "60" is not one of 0 to 59'),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "weekday"),
        ("* * * foo *", "month"),
        ("5-1 * * * *", "begins after its end"),
        ("*/0 * * * *", "step"),
        ("1/x * * * *", "step"),
        ("1,,2 * * * *", "minute"),
        ("٣ * * * *", "minute"),
        ("0 0 30 feb *", "names a day that no year has"),
        ("0 0 * * 7/2", "begins after its end"),
        ("* * * *", "4 fields"),
        ("* * * * * *", "6 fields"),
    ],
)
def test_what_is_no_cron(text: str, said: str) -> None:
    with pytest.raises(CronError, match=said):
        parse_cron(text)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("0 0 * * sun", "0 0 * * 0"),
        ("0 0 * * 7", "0 0 * * 0"),
        ("0 0 * * FRI-7", "0 0 * * 5,6,0"),
        ("*/20 * * * *", "0,20,40 * * * *"),
        ("10/20 * * * *", "10,30,50 * * * *"),
        ("0 8-18/5 * jan-mar ?", "0 8,13,18 * 1,2,3 *"),
        ("0 0 */1 * 1", "0 0 * * 1"),
        ("0 0 ?/1 * 1", "0 0 * * 1"),
        ("0 0 1,* * 1", "0 0 * * 1"),
        ("0 0 13 * */1", "0 0 13 * *"),
        ("0 0 13 * 5,*", "0 0 13 * *"),
        ("30 */1 * * *", "30 * * * *"),
        ("30 *,4 * * *", "30 * * * *"),
        ("0 0 * * 1/2", "0 0 * * 1,3,5"),
        ("0 0 * * sun/6", "0 0 * * 0,6"),
    ],
)
def test_two_ways_to_say_it(text: str, same: str) -> None:
    assert parse_cron(text) == parse_cron(same)


MONDAY, FRIDAY = 0, 4


@pytest.mark.parametrize(
    ("text", "is_due"),
    [
        ("0 0 * * 1", lambda at: at.weekday() == MONDAY),
        ("0 0 */1 * 1", lambda at: at.weekday() == MONDAY),
        ("0 0 *,15 * mon", lambda at: at.weekday() == MONDAY),
        # A step of more than 1 restricts the field, so that either kind of day matches.
        ("0 0 */2 * 1", lambda at: at.day % 2 == 1 or at.weekday() == MONDAY),
        ("0 0 1-31 * 1", lambda at: True),
        ("0 0 13 * 5", lambda at: at.day == 13 or at.weekday() == FRIDAY),
        ("0 0 13 * */1", lambda at: at.day == 13),
        ("0 0 13 * */3", lambda at: at.day == 13 or at.isoweekday() % 7 in (0, 3, 6)),
        ("0 0 * * 1/2", lambda at: at.isoweekday() in (1, 3, 5)),
        ("0 0 * * 2/2", lambda at: at.isoweekday() in (2, 4, 6)),
        ("0 0 * * 5-7", lambda at: at.isoweekday() in (5, 6, 7)),
        ("0 0 10/10 3/3 *", lambda at: at.day in (10, 20, 30) and at.month in (3, 6, 9, 12)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_days_of_a_year_on_which_a_cron_expression_is_due(text: str, is_due: Callable[[date], bool]) -> None:
    cron, days = parse_cron(text), [date(2026, 1, 1) + timedelta(days=number) for number in range(365)]
    assert [day for day in days if cron.matches(day)] == [day for day in days if is_due(day)]


def test_the_instants_of_a_year_at_which_a_cron_expression_is_due() -> None:
    cron, begin = parse_cron("*/20 8-18/5,23 */1 */6 1/2"), datetime(2026, 1, 1, tzinfo=UTC)
    minutes = (begin + timedelta(minutes=number) for number in range(365 * 24 * 60))
    expected = [
        at
        for at in minutes
        if at.minute in (0, 20, 40)
        and at.hour in (8, 13, 18, 23)
        and at.month in (1, 7)
        and at.isoweekday() in (1, 3, 5)
    ]
    days = (begin.date() + timedelta(days=number) for number in range(365))
    assert [at for day in days for at in cron.instants(day, UTC)] == expected
