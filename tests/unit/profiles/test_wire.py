"""The annotation with the data of profiles: reading, writing, and migrating older formats."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from haulout.surfaces.profiles.wire import (
    NEVER,
    DataError,
    Entry,
    MaintenanceData,
    Stamp,
    State,
    attached_profiles,
    is_canonical,
    known_state,
    parse_data,
    stamp,
    write_data,
)

EXAMPLE = (
    '{"Profiles":{"kernel":{"Transition":"2026-03-01T10:00:00.123456789Z","Current":"maintenance-required",'
    '"Previous":"operational"}},"Notifications":{"ops":"2026-03-01T10:00:01Z"}}'
)


def at(*numbers: int) -> datetime:
    return datetime(*numbers, tzinfo=UTC)  # type: ignore[arg-type,misc]


def entry(transition: str, current: str = "operational", previous: str = "operational") -> str:
    return f'{{"Profiles":{{"p":{{"Transition":"{transition}","Current":"{current}","Previous":"{previous}"}}}}}}'


def test_the_example() -> None:
    data = parse_data(EXAMPLE)
    assert data.profiles["kernel"].transition.at == at(2026, 3, 1, 10, 0, 0, 123456)
    assert data.profiles["kernel"].current == State.REQUIRED
    assert data.profiles["kernel"].previous == State.OPERATIONAL
    assert data.notifications["ops"].at == at(2026, 3, 1, 10, 0, 1)
    assert write_data(data) == EXAMPLE


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(None, id="absent"),
        pytest.param("", id="empty"),
        pytest.param("{}", id="empty object"),
        pytest.param("null", id="null"),
        pytest.param('{"Profiles":null,"Notifications":null}', id="null maps"),
        pytest.param('{"Profiles":{"p":null}}', id="null entry"),
        pytest.param('{"Profiles":{}} and more', id="text behind it"),
        pytest.param('\n {"Notifications":{}}}', id="a brace too many"),
    ],
)
def test_nothing_known(text: str | None) -> None:
    assert parse_data(text) == MaintenanceData()
    assert write_data(parse_data(text)) == '{"Profiles":{},"Notifications":{}}'


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        pytest.param("2026-03-01T10:00:00Z", at(2026, 3, 1, 10), id="UTC"),
        pytest.param("2026-03-01T10:00:00+02:00", at(2026, 3, 1, 8), id="east"),
        pytest.param("2026-03-01T10:00:00-11:30", at(2026, 3, 1, 21, 30), id="west"),
        pytest.param("2026-03-01T10:00:00.999999999Z", at(2026, 3, 1, 10, 0, 0, 999999), id="cut off, not rounded"),
        pytest.param("2026-03-01T10:00:00.5Z", at(2026, 3, 1, 10, 0, 0, 500000), id="short fraction"),
        pytest.param("0001-01-01T00:00:00Z", at(1, 1, 1), id="zero time"),
        pytest.param("0001-01-01T00:00:00+05:00", at(1, 1, 1), id="before the first instant"),
        pytest.param("0000-06-01T00:00:00Z", at(1, 6, 1), id="the year 0"),
        pytest.param("9999-12-31T23:59:59-10:00", at(9999, 12, 31, 23, 59, 59, 999999), id="after the last instant"),
    ],
)
def test_timestamps_are_written_back_as_they_were(text: str, instant: datetime) -> None:
    data = parse_data(entry(text))
    assert data.profiles["p"].transition == Stamp(text, instant)
    assert f'"Transition":"{text}"' in write_data(data)


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        pytest.param(at(2026, 3, 1, 10), "2026-03-01T10:00:00Z", id="whole second"),
        pytest.param(at(2026, 3, 1, 10, 0, 0, 120000), "2026-03-01T10:00:00.12Z", id="zeros are cut off"),
        pytest.param(at(2026, 3, 1, 10, 0, 0, 1), "2026-03-01T10:00:00.000001Z", id="microsecond"),
        pytest.param(at(1, 1, 1), "0001-01-01T00:00:00Z", id="zero time"),
        pytest.param(
            datetime(2026, 3, 1, 10, tzinfo=timezone(timedelta(hours=2))), "2026-03-01T08:00:00Z", id="other zone"
        ),
    ],
)
def test_new_timestamps(instant: datetime, text: str) -> None:
    assert stamp(instant).text == text
    assert parse_data(entry(text)).profiles["p"].transition == stamp(instant)


def test_keys_are_sorted_and_escaped_like_go() -> None:
    now = stamp(at(2026, 1, 1))
    data = MaintenanceData(
        {"z": Entry(now, "a", "b"), "<b>&\u2028": Entry(NEVER, "c\n\b\x01", 'd"')}, {"é": now, "a": NEVER}
    )
    assert write_data(data) == (
        '{"Profiles":{"\\u003cb\\u003e\\u0026\\u2028":{"Transition":"0001-01-01T00:00:00Z","Current":"c\\n\\b\\u0001",'
        '"Previous":"d\\""},"z":{"Transition":"2026-01-01T00:00:00Z","Current":"a","Previous":"b"}},'
        '"Notifications":{"a":"0001-01-01T00:00:00Z","é":"2026-01-01T00:00:00Z"}}'
    )
    assert parse_data(write_data(data)) == data


def test_key_names_match_in_any_case_and_profile_names_do_not() -> None:
    data = parse_data('{"profiles":{"P":{"TRANSITION":null,"current":"x"}},"PROFILES":{"p":{"previous":"y"}}}')
    assert data.profiles == {"P": Entry(NEVER, "x", ""), "p": Entry(NEVER, "", "y")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param('{"X":1}', 'json: unknown field "X"', id="unknown key"),
        pytest.param('{"Profiles":{"p":{"Since":1}}}', 'json: unknown field "Since"', id="unknown key of an entry"),
        pytest.param('{"Profiles":{},"LastProfile":"p"}', 'json: unknown field "Profiles"', id="old and new"),
        pytest.param("[]", "json: cannot unmarshal array into Go value of type state.Data", id="no object"),
        pytest.param('{"Profiles":5}', "json: cannot unmarshal number into Go struct field Profiles", id="no map"),
        pytest.param('{"Profiles":{"p":true}}', "json: cannot unmarshal bool into Go value of type state.ProfileData", id="no entry"),
        pytest.param('{"Profiles":{"p":{"Current":5}}}', "json: cannot unmarshal number into Go struct field Current of type state.NodeStateLabel", id="no word"),
        pytest.param('{"Notifications":{"n":{}}}', "json: cannot unmarshal object into Go value of type time.Time", id="no time"),
        pytest.param('{"Notifications":{"n":"x"}}', 'parsing time "x" as "2006-01-02T15:04:05Z07:00": not such a timestamp', id="no timestamp"),
        pytest.param("NaN", "invalid character 'N' looking for beginning of value", id="no JSON"),
    ],
)  # fmt: skip
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_data(text)
    assert str(caught.value) == f"failed to parse json value in data annotation: {message}"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("x", id="word"),
        pytest.param(" ", id="blank"),
        pytest.param("{", id="half"),
        pytest.param("[" * 100_000, id="deep"),
        pytest.param("1" * 10_000, id="long number"),
        pytest.param('{"Profiles":{"p\n":{}}}', id="line break in a name"),
        pytest.param(entry("2026-02-30T00:00:00Z"), id="no such day"),
        pytest.param(entry("2026-02-03T24:00:00Z"), id="no such hour"),
        pytest.param(entry("2026-02-03T00:00:00+24:00"), id="no such offset"),
        pytest.param(entry("2026-02-03 00:00:00Z"), id="no T"),
        pytest.param(entry("2026-02-03T00:00:00"), id="no zone"),
    ],
)
def test_anything_else_is_a_typed_error(text: str) -> None:
    with pytest.raises(DataError, match="failed to parse json value in data annotation: "):
        parse_data(text)


def test_half_a_character_is_replaced() -> None:
    data = parse_data('{"Profiles":{"\\ud800":{"Current":"\\udfff"}}}')
    assert data.profiles == {"\ufffd": Entry(NEVER, "\ufffd", "")}


def test_v1_keeps_states_and_times() -> None:
    data = parse_data(
        '{"LastTransition":"2023-05-01T00:00:00Z","LastNotificationTimes":{"x":"2023-05-02T00:00:00Z"},'
        '"ProfileStates":{"hold":"maintenance-required","multi":"in-maintenance","gone":null},'
        '"PreviousStates":{"hold":"operational"}}'
    )
    since = stamp(at(2023, 5, 1))
    assert data.profiles == {
        "hold": Entry(since, "maintenance-required", "operational"),
        "multi": Entry(since, "in-maintenance", "in-maintenance"),
    }
    assert data.notifications == {"x": stamp(at(2023, 5, 2))}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            '{"LastTransition":"2020-05-01T00:00:00Z","LastNotification":"2020-05-01T00:00:00Z",'
            '"LastNotificationState":"operational"}',
            id="2020",
        ),
        pytest.param('{"lasttransition":"2021-05-01T00:00:00Z","LastProfile":"p"}', id="2021"),
        pytest.param('{"LastTransition":null,"LastProfile":"p","LastNotificationState":""}', id="early 2022"),
    ],
)
def test_formats_without_states_start_anew(text: str) -> None:
    assert parse_data(text) == MaintenanceData()


def test_notification_times_survive_without_states() -> None:
    data = parse_data('{"LastProfile":"p","LastNotificationTimes":{"n":"2022-01-01T00:00:00Z"}}')
    assert data == MaintenanceData({}, {"n": stamp(at(2022, 1, 1))})


@pytest.mark.parametrize(
    ("label", "names"),
    [
        (None, ("default",)),
        ("", ("default",)),
        ("a", ("a",)),
        ("a--b--a", ("a", "b")),
        ("a---b", ("a", "-b")),
        ("default--kernel", ("default", "kernel")),
    ],
)
def test_attached_profiles(label: str | None, names: tuple[str, ...]) -> None:
    assert attached_profiles(label) == names


def test_known_states() -> None:
    assert known_state("in-maintenance") is State.IN_MAINTENANCE
    with pytest.raises(ValueError, match=r'^node state "x" is not known$'):
        known_state("x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(EXAMPLE, True, id="as it is written"),
        pytest.param('{"Profiles":{},"Notifications":{}}', True, id="empty"),
        pytest.param(EXAMPLE.replace(",", ", "), False, id="with spaces"),
        pytest.param(f"{EXAMPLE} ", False, id="with a space at its end"),
        pytest.param('{"Notifications":{},"Profiles":{}}', False, id="in another order"),
        pytest.param('{"profileStates":{"p":"operational"}}', False, id="in an older format"),
        pytest.param("", False, id="without text"),
        pytest.param(None, False, id="absent"),
    ],
)
def test_only_text_as_we_write_it_is_canonical(text: str | None, expected: bool) -> None:
    assert is_canonical(text) == expected
