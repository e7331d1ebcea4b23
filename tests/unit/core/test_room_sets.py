"""Alternatives of limits: subjects that wait for any of them cost no more than the limits themselves."""

from __future__ import annotations

from haulout.cluster.limits import Count, Limit, room_sets


def test_many_needs_with_alternatives_make_few_sets() -> None:
    """Each budget with a topologyKey is a need with two alternatives: one set for each way would be 2^12 of them."""
    needs = [frozenset({Limit(Count(), (number, way), 1) for way in "ab"}) for number in range(12)]
    assert sum(map(len, room_sets(needs))) <= 4 * len(needs)
