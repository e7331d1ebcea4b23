"""The word for the status of a Skyhook."""

from __future__ import annotations

from collections.abc import Sequence

from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.wire import (
    BLOCKED,
    COMPLETE,
    DISABLED,
    ERRORING,
    IN_PROGRESS,
    PAUSED,
    STATUSES,
    UNKNOWN,
    WAITING,
    SkyhookRow,
)

# If nodes differ, the Skyhook has the first of these statuses that any of them shows.
PRECEDENCE = (IN_PROGRESS, ERRORING, BLOCKED, WAITING, UNKNOWN)


def status_of(row: SkyhookRow, nodes: Sequence[NodeStanding], *, has_compartments: bool) -> str:
    if row.is_paused:
        return PAUSED
    if not has_compartments:
        return BLOCKED
    if all(node.is_complete for node in nodes):
        return COMPLETE
    if row.is_disabled:
        return DISABLED
    # Before the first pick of a new Skyhook its nodes show no status. They count as waiting.
    unshown = WAITING if row.status.status in ("", WAITING) else UNKNOWN
    statuses = {node.status if node.status in STATUSES else unshown for node in nodes if not node.is_complete}
    return next((status for status in PRECEDENCE if status in statuses), UNKNOWN)


def halted_status(status: str) -> str:
    """Return the status of a Skyhook whose rollout is halted. It is never `complete`."""
    return status if status in (IN_PROGRESS, ERRORING, PAUSED, DISABLED) else BLOCKED
