"""Waits that double, each drawn from a share of its span."""

from __future__ import annotations

from random import Random

import pytest

from haulout.base.backoff import Backoff


@pytest.mark.parametrize("share", [(0.0, 1.0), (0.8, 1.2)])
def test_waits_double_up_to_the_longest_and_stay_within_their_share(share: tuple[float, float]) -> None:
    for seed in range(50):
        backoff = Backoff(5, 60, Random(seed), share)
        waits = [backoff.fail() for _ in range(8)]
        spans = [5, 10, 20, 40, 60, 60, 60, 60]
        assert all(share[0] * span <= wait <= share[1] * span for wait, span in zip(waits, spans, strict=True))


def test_the_whole_share_is_used() -> None:
    waits = [Backoff(10, 60, Random(seed), (0.8, 1.2)).fail() for seed in range(300)]
    assert min(waits) < 8.5
    assert max(waits) > 11.5


def test_success_begins_anew() -> None:
    backoff = Backoff(5, 60, Random(1), (1.0, 1.0))
    assert [backoff.fail() for _ in range(3)] == [5, 10, 20]
    backoff.reset()
    assert backoff.fail() == 5


def test_any_number_of_failures_can_be_waited_for() -> None:
    backoff = Backoff(5, 60, Random(1), (1.0, 1.0))
    assert {backoff.fail() for _ in range(5000)} == {5, 10, 20, 40, 60}
