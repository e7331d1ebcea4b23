"""How long profiles have been failing on nodes, so that failures are counted at the original's rate (decision 0006)."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.view import MARK, View
from haulout.surfaces.profiles.passes.result import Result

FAILING = "profile-failing"
# Failures are counted at most this often, whatever interval is configured.
SHORTEST_FOR = timedelta(seconds=1)


class Failing(msgspec.Struct, frozen=True):
    """A profile that fails on a node for a reason that is in our own tables. `since`: when that began."""

    profile: str
    since: datetime


def failing_marks(view: View, node: Key, results: Iterable[Result], now: datetime) -> tuple[Value, ...]:
    """Return one mark for each profile that fails.

    Failures of probes are not included, because they are counted when they happen.
    """
    failing = [result.profile for result in results if result.failure and not result.asked_again]
    if not failing:
        return ()
    keys = [(profile, Key(node.cluster, MARK, FAILING, f"{node.name}/{profile}")) for profile in failing]
    return tuple(view.recall(key, Value) or Value(key=key, value=Failing(profile, now)) for profile, key in keys)


class Growth:
    """A counter of failures: one for each interval that a profile has been failing, since the last call."""

    def __init__(self) -> None:
        self._counted: dict[tuple[Key, datetime], int] = {}

    def due(self, marks: Iterable[Row], interval: timedelta, now: datetime) -> dict[str, int]:
        """Return by how much the count of each profile grows. The first failure was counted when it happened."""
        found: dict[str, int] = {}
        counted: dict[tuple[Key, datetime], int] = {}
        for mark in marks:
            if isinstance(mark, Value) and isinstance(mark.value, Failing):
                failing, place = mark.value, (mark.key, mark.value.since)
                passed = max((now - failing.since) // max(interval, SHORTEST_FOR), 0)
                counted[place] = max(passed, self._counted.get(place, 0))
                grown = counted[place] - self._counted.get(place, 0)
                found[failing.profile] = found.get(failing.profile, 0) + grown
        self._counted = counted
        return {profile: count for profile, count in found.items() if count}
