"""waitExclude and timeWindow, compared minute by minute with the plainest reading of their rules."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.cluster.view import View
from haulout.plugins.api import CheckInput
from haulout.plugins.checks.time_window import TimeWindow, time_window
from haulout.plugins.checks.wait_exclude import WaitExclude, counted, wait_exclude
from haulout.surfaces.profiles.counts import InMaintenance, unreadable
from tests.build.checks import configured, fleet
from tests.build.rows import node

NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
MINUTE = timedelta(minutes=1)
TICK = timedelta(milliseconds=1)

minutes = st.integers(0, 24 * 60 - 1)
days = st.sets(st.sampled_from(NAMES), min_size=1)
# The clocks of Berlin are changed on 29 March and 25 October 2026, those of Lord Howe by half an hour on 5 April.
starts = st.sampled_from(
    [datetime(2026, 3, 27, tzinfo=UTC), datetime(2026, 10, 23, tzinfo=UTC), datetime(2026, 4, 3, tzinfo=UTC)]
)
EMPTY = fleet(configured("check", "nodeCount", "{count: 1}"))


def asked(at: datetime, since: datetime) -> CheckInput:
    return CheckInput(
        node=node("n"),
        profile="p",
        state="operational",
        last_transition=since,
        now=at,
        view=View(EMPTY),
        in_maintenance=InMaintenance,
        unreadable=unreadable,
    )


@settings(max_examples=60, deadline=None)
@given(starts, st.integers(0, 3 * 24 * 60), st.integers(0, 9 * 24 * 60), st.sets(st.sampled_from(NAMES), min_size=1))
def test_time_is_counted_on_the_days_that_are_not_excluded(
    start: datetime, offset: int, length: int, exclude: set[str]
) -> None:
    since = start + offset * MINUTE
    included = frozenset(number for number, name in enumerate(NAMES) if name not in exclude)
    naive = sum((since + minute * MINUTE).weekday() in included for minute in range(length))
    assert counted(since, since + length * MINUTE, included) == naive * MINUTE


@settings(max_examples=60, deadline=None)
@given(starts, st.integers(0, 3 * 24 * 60), st.integers(0, 9 * 24 * 60), st.integers(1, 90), days)
def test_until_of_wait_exclude_is_when_it_passes(
    start: datetime, offset: int, waited: int, hours: int, exclude: set[str]
) -> None:
    config = WaitExclude(duration=timedelta(hours=hours), exclude=tuple(exclude))
    since = start + offset * MINUTE
    now = since + waited * MINUTE
    verdict = wait_exclude.judge(config, asked(now, since))
    if verdict.passed:
        return
    if verdict.until is None:
        assert len(exclude) == len(NAMES)
        return
    assert verdict.until >= now
    assert not wait_exclude.judge(config, asked(verdict.until, since)).passed
    assert wait_exclude.judge(config, asked(verdict.until + TICK, since)).passed


@settings(max_examples=25, deadline=None)
@given(
    starts,
    minutes,
    minutes,
    days,
    st.sets(st.dates(date(2026, 3, 26), date(2026, 4, 6)), max_size=3),
    st.sampled_from(["", "Europe/Berlin", "Asia/Tokyo", "Australia/Lord_Howe"]),
)
def test_a_window_is_what_it_is_minute_by_minute_and_says_when_it_changes(
    start: datetime, opens: int, closes: int, weekdays: set[str], exclude: set[date], zone: str
) -> None:
    config = TimeWindow(
        start=f"{opens // 60:02}:{opens % 60:02}",
        end=f"{closes // 60:02}:{closes % 60:02}",
        weekdays=tuple(weekdays),
        exclude=tuple(f"{day:%b} {day.day}" for day in exclude),
        allow_overnight=True,
        timezone=zone,
    )
    config.validate()
    instants = [start + minute * MINUTE + timedelta(seconds=30) for minute in range(0, 4 * 24 * 60, 13)]
    verdicts = [time_window.judge(config, asked(instant, start)) for instant in instants]
    assert [verdict.passed for verdict in verdicts] == [naive(config, instant) for instant in instants]
    differs: datetime | None = None
    for (instant, verdict), (at, after) in reversed([*pairwise(zip(instants, verdicts, strict=True))]):
        differs = at if after.passed != verdict.passed else differs
        assert differs is None or (verdict.until is not None and instant <= verdict.until <= differs)
    for until, passed in {(verdict.until, verdict.passed) for verdict in verdicts}:
        if until is not None and until < instants[-1]:
            assert time_window.judge(config, asked(until + TICK, start)).passed != passed


def naive(config: TimeWindow, at: datetime) -> bool:
    local = at.astimezone(ZoneInfo(config.timezone) if config.timezone else UTC)
    opens, closes = time.fromisoformat(config.start), time.fromisoformat(config.end)

    def allowed(day: date) -> bool:
        return NAMES[day.weekday()] in config.weekdays and f"{day:%b} {day.day}" not in config.exclude

    if opens <= closes:
        return allowed(local.date()) and opens < local.time() < closes
    begun = allowed(local.date()) and local.time() > opens
    return begun or (allowed(local.date() - timedelta(days=1)) and local.time() < closes)
