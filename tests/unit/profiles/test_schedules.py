"""The schedules of notifications: periodic, scheduled and oneshot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from haulout.plugins.config import Config, ConfigProblem
from haulout.plugins.document import read_file
from haulout.surfaces.profiles.schedules import SCHEDULES, Due, Occasion, Oneshot, Periodic, Schedule, Scheduled
from haulout.surfaces.profiles.wire import NEVER, State

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
MOMENT = timedelta(microseconds=1)


def occasion(
    current: str = State.REQUIRED,
    previous: str = State.REQUIRED,
    *,
    sent_at: datetime = NEVER.at,
    transition_at: datetime = MONDAY,
) -> Occasion:
    return Occasion(current, previous, sent_at, transition_at)


def answer(due: Due) -> tuple[bool, datetime | None]:
    return due.is_due, due.until


@pytest.mark.parametrize(
    ("given", "now", "wanted"),
    [
        pytest.param(occasion(State.REQUIRED, State.OPERATIONAL, sent_at=MONDAY), MONDAY, (True, None), id="change"),
        pytest.param(occasion(State.OPERATIONAL, State.REQUIRED, sent_at=MONDAY), MONDAY, (True, None), id="way back"),
        pytest.param(occasion(State.OPERATIONAL, State.OPERATIONAL), MONDAY, (False, None), id="silent in operation"),
        pytest.param(occasion(sent_at=MONDAY), MONDAY + 3 * HOUR - MOMENT, (False, MONDAY + 3 * HOUR), id="not yet"),
        pytest.param(occasion(sent_at=MONDAY), MONDAY + 3 * HOUR, (True, None), id="interval over"),
        pytest.param(occasion(), MONDAY, (True, None), id="never sent"),
        pytest.param(occasion(sent_at=datetime.max.replace(tzinfo=UTC)), MONDAY, (False, None), id="end of time"),
    ],
)
def test_periodic(given: Occasion, now: datetime, wanted: tuple[bool, datetime | None]) -> None:
    assert answer(Periodic(interval=3 * HOUR).due(given, now)) == wanted


NINE = MONDAY + 9 * HOUR


@pytest.mark.parametrize(
    ("sent_at", "now", "wanted"),
    [
        pytest.param(NEVER.at, NINE - MOMENT, (False, NINE), id="before the instant"),
        pytest.param(NEVER.at, NINE, (True, MONDAY + DAY), id="at the instant"),
        pytest.param(NEVER.at, MONDAY + DAY - MOMENT, (True, MONDAY + DAY), id="until midnight"),
        pytest.param(NEVER.at, NINE + DAY, (False, NINE + 2 * DAY), id="another weekday"),
        pytest.param(NINE, NINE + HOUR, (False, NINE + 2 * DAY), id="sent today"),
        pytest.param(MONDAY, NINE, (False, NINE + 2 * DAY), id="sent today, before the instant"),
        pytest.param(MONDAY - 28 * DAY, NINE, (True, MONDAY + DAY), id="same day of another month"),
        pytest.param(NINE, NINE + 2 * DAY, (True, MONDAY + 3 * DAY), id="two days later"),
        pytest.param(NINE + 2 * DAY, NINE + DAY, (False, NINE + 7 * DAY), id="sent in what is now the future"),
        pytest.param(NEVER.at, MONDAY + 4 * DAY, (False, NINE + 7 * DAY), id="over the weekend"),
    ],
)
def test_scheduled(sent_at: datetime, now: datetime, wanted: tuple[bool, datetime | None]) -> None:
    schedule = Scheduled(instant="9:00", weekdays=("mon", "Wednesday"))
    given = occasion(State.OPERATIONAL, State.OPERATIONAL, sent_at=sent_at)
    assert answer(schedule.due(given, now)) == wanted


def test_scheduled_on_the_first_of_a_month() -> None:
    first = datetime(2026, 3, 1, 10, tzinfo=UTC)
    assert Scheduled(instant="09:00", weekdays=("sun",)).due(occasion(), first).is_due


@pytest.mark.parametrize(
    ("given", "now", "wanted"),
    [
        pytest.param(occasion(), MONDAY + HOUR - MOMENT, (False, MONDAY + HOUR), id="not yet"),
        pytest.param(occasion(), MONDAY + HOUR, (True, None), id="delay over"),
        pytest.param(occasion(sent_at=MONDAY), MONDAY + HOUR, (True, None), id="sent at the transition itself"),
        pytest.param(occasion(sent_at=MONDAY + MOMENT), MONDAY + HOUR, (False, None), id="sent since"),
        pytest.param(occasion(transition_at=NEVER.at), MONDAY, (False, None), id="no transition"),
        pytest.param(occasion(State.OPERATIONAL, State.OPERATIONAL), MONDAY + HOUR, (True, None), id="in operation"),
    ],
)
def test_oneshot(given: Occasion, now: datetime, wanted: tuple[bool, datetime | None]) -> None:
    assert answer(Oneshot(delay=HOUR).due(given, now)) == wanted


@pytest.mark.parametrize(
    ("schedule", "given", "now", "reasons"),
    [
        pytest.param(
            Periodic(),
            occasion(sent_at=MONDAY),
            MONDAY,
            ("NotifyPeriodic: no state change", "NotifyPeriodic: interval not passed or operational"),
            id="periodic",
        ),
        pytest.param(
            Scheduled(instant="9:00", weekdays=("tue",)),
            occasion(),
            NINE,
            ("NotifyScheduled: weekday not contained",),
            id="weekday",
        ),
        pytest.param(
            Scheduled(instant="9:01", weekdays=("mon",)),
            occasion(),
            NINE,
            ("NotifyScheduled: current time is before specified instant",),
            id="instant",
        ),
        pytest.param(
            Scheduled(instant="9:00", weekdays=("mon",)),
            occasion(sent_at=MONDAY),
            NINE,
            ("NotifyScheduled: already triggered today",),
            id="today",
        ),
        pytest.param(
            Oneshot(), occasion(sent_at=NINE), NINE, ("NotifyOneshot: already notified",), id="oneshot"
        ),
    ],
)  # fmt: skip
def test_reasons(schedule: Schedule, given: Occasion, now: datetime, reasons: tuple[str, ...]) -> None:
    assert schedule.due(given, now).reasons == reasons


def read(kind: str, text: str) -> Config:
    return read_file(SCHEDULES[kind], text, source="", environment={})


@pytest.mark.parametrize(
    ("kind", "text", "wanted"),
    [
        pytest.param("periodic", "{}", Periodic(interval=HOUR), id="periodic"),
        pytest.param("periodic", "interval: 60", Periodic(interval=timedelta(seconds=60)), id="seconds"),
        pytest.param("oneshot", "{}", Oneshot(delay=timedelta(minutes=1)), id="oneshot"),
        pytest.param(
            "scheduled",
            "{instant: 9:00, weekdays: mon}",
            Scheduled(instant="9:00", weekdays=("mon",)),
            id="scheduled",
        ),
    ],
)
def test_configurations(kind: str, text: str, wanted: Config) -> None:
    assert read(kind, text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("instant: 9:00", "a notification schedule needs to have weekdays specified", id="no weekdays"),
        pytest.param("{instant: 9:00, weekdays: [mon, someday]}", "'someday' is not a known weekday", id="weekday"),
        pytest.param("weekdays: [mon]", 'parsing time "" as "15:04": cannot parse "" as "15"', id="no instant"),
        pytest.param("{instant: 24:00, weekdays: [x]}", 'parsing time "24:00": hour out of range', id="instant first"),
    ],
)
def test_scheduled_refuses(text: str, message: str) -> None:
    with pytest.raises(ConfigProblem) as caught:
        read("scheduled", text)
    assert caught.value.text == message
