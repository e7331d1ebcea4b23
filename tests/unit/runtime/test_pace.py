"""Foreign kubeconfigs are read a few times at once, and then at a slow pace."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from haulout.runtime.pace import Pace

PACE = Pace(least=2, burst=4, refill=30, longest=300)


def read_as_often_as_allowed(pace: Pace, until: float) -> list[float]:
    readings = list[float]()
    now = 0.0
    while now <= until:
        readings.append(now)
        pace = pace.read(now)
        now = pace.next_at
    return readings


def test_few_are_read_soon_and_the_rest_more_and_more_slowly() -> None:
    assert read_as_often_as_allowed(PACE, 1200) == [0, 2, 4, 6, 30, 90, 210, 450, 750, 1050]


def test_after_a_rest_a_whole_burst_is_allowed_again() -> None:
    pace = PACE
    for now in (0, 2, 4, 6):
        pace = pace.read(now)
    assert pace.next_at == 30
    for now in (1000, 1002, 1004, 1006):
        assert pace.next_at <= now
        pace = pace.read(now)
    assert pace.next_at == 1030


@given(st.lists(st.floats(0, 100), max_size=60))
def test_within_any_time_there_are_no_more_than_a_burst_and_what_was_refilled(pauses: list[float]) -> None:
    pace, now, readings = PACE, 0.0, list[float]()
    for pause in pauses:
        now = max(now + pause, pace.next_at)
        pace = pace.read(now)
        readings.append(now)
    for first in range(len(readings)):
        for last in range(first, len(readings)):
            span = readings[last] - readings[first]
            assert last - first + 1 <= PACE.burst + span / PACE.refill + 1e-6
