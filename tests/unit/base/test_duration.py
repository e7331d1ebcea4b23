"""Go durations: reading, writing and refusing them as Go does."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.base import duration
from haulout.base.duration import DurationError


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        pytest.param("0", 0, id="bare zero"),
        pytest.param("-0", 0, id="signed zero"),
        pytest.param("5s", 5_000_000_000, id="seconds"),
        pytest.param("+5s", 5_000_000_000, id="plus"),
        pytest.param("-1h30m", -5_400_000_000_000, id="negative"),
        pytest.param("1.5h", 5_400_000_000_000, id="fraction"),
        pytest.param(".5s", 500_000_000, id="no digit before the point"),
        pytest.param("5.s", 5_000_000_000, id="no digit after the point"),
        pytest.param("1us", 1000, id="us"),
        pytest.param("1µs", 1000, id="micro sign"),
        pytest.param("1μs", 1000, id="Greek mu"),
        pytest.param("1h2m3s4ms5us6ns", 3_723_004_005_006, id="all units"),
        pytest.param("3s1h", 3_603_000_000_000, id="any order"),
        pytest.param("0.3333333333333333333h", 1_200_000_000_000, id="more digits than count"),
        pytest.param("9223372036854775807ns", (1 << 63) - 1, id="largest"),
        pytest.param("-9223372036854775808ns", -(1 << 63), id="smallest"),
    ],
)
def test_reads_what_go_reads(text: str, nanoseconds: int) -> None:
    assert duration.parse_nanoseconds(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("60", 'time: missing unit in duration "60"', id="no unit"),
        pytest.param("1h5", 'time: missing unit in duration "1h5"', id="no unit at the end"),
        pytest.param("", 'time: invalid duration ""', id="empty"),
        pytest.param("-", 'time: invalid duration "-"', id="sign alone"),
        pytest.param(".s", 'time: invalid duration ".s"', id="no digits"),
        pytest.param("true", 'time: invalid duration "true"', id="word"),
        pytest.param(" 1s", 'time: invalid duration " 1s"', id="blank in front"),
        pytest.param("1d", 'time: unknown unit "d" in duration "1d"', id="days"),
        pytest.param("1s ", 'time: unknown unit "s " in duration "1s "', id="blank behind"),
        pytest.param("1é", r'time: unknown unit "\xc3\xa9" in duration "1\xc3\xa9"', id="quoted byte by byte"),
        pytest.param('1"\\', r'time: unknown unit "\"\\" in duration "1\"\\"', id="quoted quotes"),
        pytest.param("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"', id="too large"),
        pytest.param("2562048h", 'time: invalid duration "2562048h"', id="too many hours"),
        pytest.param("9" * 5000 + "s", f'time: invalid duration "{"9" * 256}"', id="absurdly large"),
    ],
)
def test_refuses_in_the_words_of_go(text: str, message: str) -> None:
    with pytest.raises(DurationError) as caught:
        duration.parse(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "span"),
    [
        pytest.param("1.9us", timedelta(microseconds=1), id="positive"),
        pytest.param("-1.9us", timedelta(microseconds=-1), id="negative"),
        pytest.param("1ns", timedelta(microseconds=1), id="below a microsecond"),
        pytest.param("-1ns", timedelta(microseconds=-1), id="below a microsecond, negative"),
        pytest.param("0.1ns", timedelta(0), id="nothing for Go, too"),
    ],
)
def test_cuts_off_below_a_microsecond_but_leaves_something(text: str, span: timedelta) -> None:
    assert duration.parse(text) == span


@pytest.mark.parametrize(
    ("span", "text"),
    [
        pytest.param(timedelta(0), "0s", id="zero"),
        pytest.param(timedelta(microseconds=7), "7µs", id="microseconds"),
        pytest.param(timedelta(microseconds=1500), "1.5ms", id="milliseconds"),
        pytest.param(timedelta(seconds=1, microseconds=500_000), "1.5s", id="seconds"),
        pytest.param(timedelta(minutes=1), "1m0s", id="minutes"),
        pytest.param(timedelta(days=2, minutes=3), "48h3m0s", id="hours"),
        pytest.param(timedelta(hours=-1), "-1h0m0s", id="negative"),
    ],
)
def test_writes_like_go(span: timedelta, text: str) -> None:
    assert duration.to_text(span) == text
