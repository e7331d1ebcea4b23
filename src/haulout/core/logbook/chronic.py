"""Which nodes come back for maintenance again and again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

# A node with so many maintenances within this time may be broken.
CHRONIC, CHRONIC_FOR = 5, timedelta(days=30)


def returning(begun: Iterable[tuple[str, datetime]], since: datetime, least: int = CHRONIC) -> list[tuple[str, int]]:
    """Return the nodes with at least so many maintenances since an instant, the most frequent first.

    `begun`: for each maintenance, the name of the node and when it began.
    """
    counts = Counter(node for node, at in begun if at >= since)
    found = [(node, count) for node, count in counts.items() if count >= least]
    return sorted(found, key=lambda each: (-each[1], each[0]))
