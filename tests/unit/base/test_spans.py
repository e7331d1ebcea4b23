"""Spans of time as texts for people."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.base.spans import span_text


@pytest.mark.parametrize(
    "length, text",
    [
        (timedelta(seconds=-3), "0 s"),
        (timedelta(seconds=59), "59 s"),
        (timedelta(seconds=61), "1 min 1 s"),
        (timedelta(hours=1), "1 h"),
        (timedelta(days=4, hours=9, minutes=34), "4 d 9 h"),
        (timedelta(days=2, minutes=5), "2 d"),
    ],
)
def test_the_two_largest_units_are_told(length: timedelta, text: str) -> None:
    assert span_text(length) == text
