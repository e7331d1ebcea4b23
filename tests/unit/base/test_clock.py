"""Instants after a span of time, within the range of datetime."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from haulout.base.clock import after

FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    ("instant", "span", "expected"),
    [
        pytest.param(FIRST, HOUR, FIRST + HOUR, id="an hour later"),
        pytest.param(LAST, -HOUR, LAST - HOUR, id="an hour earlier"),
        pytest.param(LAST, HOUR, None, id="later than any clock shows"),
        pytest.param(FIRST, -HOUR, FIRST, id="earlier than any clock shows"),
        pytest.param(LAST, timedelta(0), LAST, id="no later"),
    ],
)
def test_after(instant: datetime, span: timedelta, expected: datetime | None) -> None:
    assert after(instant, span) == expected
