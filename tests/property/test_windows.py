"""Windows against clocks on the wall, around every change of clocks that real zones have made or will make."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.base.windows import Repeated, Windows, window_from_object
from tests.build.examples import examples

# Half an hour, over midnight, backwards winter time, a day left out, and no changes at all.
ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Beirut",
    "Europe/Dublin",
    "Pacific/Apia",
    "Asia/Kolkata",
    "UTC",
)
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)
zones = st.sampled_from(ZONES)
times = st.builds(
    lambda hour, minute: f"{hour:02}:{minute:02}", st.integers(0, 23), st.sampled_from((0, 1, 15, 30, 59))
)
days = st.lists(st.sampled_from(("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")), min_size=1, unique=True)
weekly = st.fixed_dictionaries(
    {"from": times, "to": times, "timeZone": zones, "type": st.sampled_from(("Allow", "Deny"))}, optional={"days": days}
)
cron = st.fixed_dictionaries(
    {
        "schedule": st.sampled_from(
            (
                *("0 2 * * *", "30 2 * * 0", "*/20 1-3 * * *", "15 * * * *", "0 0 1 * 6", "59 23 * * 6", "30 1 29 * *"),
                *("* * * * *", "*/10 0-4 * * *"),
            )
        ),
        "duration": st.sampled_from(("1m", "30m", "90m", "26h", "80h")),
        "timeZone": zones,
        "type": st.sampled_from(("Allow", "Deny")),
    }
)
windows = st.builds(
    lambda objects: Windows(tuple(window_from_object(each, "w") for each in objects)),
    st.lists(weekly | cron, max_size=3),
)


def changes_of_clocks() -> list[datetime]:
    found = []
    for name in ZONES:
        at, there = datetime(2010, 1, 1, tzinfo=UTC), ZoneInfo(name)
        while at.year < 2028:
            if at.astimezone(there).utcoffset() != (at + DAY).astimezone(there).utcoffset():
                found.append(at)
            at += DAY
    return found


CHANGES = changes_of_clocks()
instants = st.builds(
    lambda change, minutes: change + timedelta(minutes=minutes), st.sampled_from(CHANGES), st.integers(-3000, 3000)
)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(windows, instants)
def test_it_stays_as_it_is_until_it_says(of: Windows, now: datetime) -> None:
    state, until = of.is_open(now), of.changes_at(now)
    assert until is None or until > now
    end = min(until or now + 3 * DAY, now + 3 * DAY)
    probes = [now + (end - now) * step / 60 for step in range(60)]
    assert all(of.is_open(at) == state for at in probes)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(windows, instants)
def test_the_next_opening_is_one(of: Windows, now: datetime) -> None:
    at = of.opens_at(now)
    if at is not None and at > now:
        assert of.is_open(at)
        assert not of.is_open(at - timedelta(microseconds=1))


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(cron, instants)
def test_a_window_by_cron_is_open_whenever_one_of_its_times_is_not_over(fields: dict[str, str], now: datetime) -> None:
    of, there = window_from_object(fields, "w"), ZoneInfo(fields["timeZone"])
    assert isinstance(of.pattern, Repeated)
    today, lasts_for = now.astimezone(there).date(), of.pattern.lasts_for
    starts = [at for back in range(-1, 6) for at in of.pattern.cron.instants(today - back * DAY, there)]
    assert of.edge(now).inside == any(start <= now < start + lasts_for for start in starts)


@settings(max_examples=examples(150), deadline=None, derandomize=True)
@given(weekly, st.lists(instants, min_size=5, max_size=20))
def test_a_weekly_window_is_what_a_clock_on_the_wall_shows(fields: dict[str, str], at: list[datetime]) -> None:
    """Wherever no clocks are changed within a day and a half, which is nearly always."""
    of, there = window_from_object(fields, "w"), ZoneInfo(fields["timeZone"])
    for now in at:
        offsets = {(now + hours * timedelta(hours=12)).astimezone(there).utcoffset() for hours in range(-3, 4)}
        if len(offsets) == 1:
            assert of.edge(now).inside == shows(fields, now.astimezone(there)), now


def shows(fields: dict[str, str], wall: datetime) -> bool:
    begin, end, now = fields["from"], fields["to"], f"{wall:%H:%M}"
    chosen = fields.get("days") or ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"]
    today, yesterday = f"{wall:%a}" in chosen, f"{wall - DAY:%a}" in chosen
    if begin < end:
        return today and begin <= now < end
    return (today and begin <= now) or (yesterday and now < end)
