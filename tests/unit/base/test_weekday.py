"""Weekdays, times of day and dates in configuration files."""

from __future__ import annotations

from datetime import time

import pytest

from haulout.base.weekday import MonthDay, parse_month_day, parse_time_of_day, parse_weekday


@pytest.mark.parametrize(("text", "number"), [("monday", 0), ("Mon", 0), ("WED", 2), ("Sunday", 6)])
def test_weekdays(text: str, number: int) -> None:
    assert parse_weekday(text) == number


@pytest.mark.parametrize("text", ["someday", "mo", "", "mondays"])
def test_other_words_are_no_weekdays(text: str) -> None:
    with pytest.raises(ValueError, match=f"^'{text}' is not a known weekday$"):
        parse_weekday(text)


@pytest.mark.parametrize(("text", "wanted"), [("00:00", time(0)), ("9:05", time(9, 5)), ("23:59", time(23, 59))])
def test_times_of_day(text: str, wanted: time) -> None:
    assert parse_time_of_day(text) == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'parsing time "" as "15:04": cannot parse "" as "15"'),
        ("x", 'parsing time "x" as "15:04": cannot parse "x" as "15"'),
        ("1", 'parsing time "1" as "15:04": cannot parse "" as ":"'),
        ("123:00", 'parsing time "123:00" as "15:04": cannot parse "3:00" as ":"'),
        ("10:0", 'parsing time "10:0" as "15:04": cannot parse "0" as "04"'),
        ("24:00", 'parsing time "24:00": hour out of range'),
        ("10:60", 'parsing time "10:60": minute out of range'),
        ("10:000", 'parsing time "10:000": extra text: "0"'),
    ],
)
def test_refuses_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_time_of_day(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("Dec 24", (12, 24)), ("jan 1", (1, 1)), ("FEB 29", (2, 29)), ("Mar 05", (3, 5)), ("Apr   3", (4, 3))],
)
def test_dates(text: str, wanted: tuple[int, int]) -> None:
    assert parse_month_day(text) == MonthDay(*wanted)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'parsing time "" as "Jan 2": cannot parse "" as "Jan"'),
        ("24 Dec", 'parsing time "24 Dec" as "Jan 2": cannot parse "24 Dec" as "Jan"'),
        ("Dec24", 'parsing time "Dec24" as "Jan 2": cannot parse "24" as " "'),
        ("Dec", 'parsing time "Dec" as "Jan 2": cannot parse "" as "2"'),
        ("Dec x", 'parsing time "Dec x" as "Jan 2": cannot parse "x" as "2"'),
        ("Dec 245", 'parsing time "Dec 245": extra text: "5"'),
        ("Feb 30", 'parsing time "Feb 30": day out of range'),
        ("Jun 0", 'parsing time "Jun 0": day out of range'),
    ],
)
def test_what_is_no_date(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_month_day(text)
    assert str(caught.value) == message
