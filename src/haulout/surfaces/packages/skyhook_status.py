"""The status of a Skyhook, from how its nodes stand."""

from __future__ import annotations

from collections.abc import Sequence

from haulout.surfaces.packages.node_state import Entry, NodeState, to_text
from haulout.surfaces.packages.standing import Standing
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

# In mixtures of nodes the first of these that any of them shows.
PRECEDENCE = (IN_PROGRESS, ERRORING, BLOCKED, WAITING, UNKNOWN)
# The API server takes objects of up to 1.5 MiB, and the rest of the status grows with the nodes, too.
LARGEST_NODE_STATE = 512 * 1024


def status_of(row: SkyhookRow, nodes: Sequence[Standing], *, has_compartments: bool) -> str:
    if row.is_paused:
        return PAUSED
    if not has_compartments:
        return BLOCKED
    if all(node.is_complete for node in nodes):
        return COMPLETE
    if row.is_disabled:
        return DISABLED
    shown = {node.status if node.status in STATUSES else UNKNOWN for node in nodes if not node.is_complete}
    return next((status for status in PRECEDENCE if status in shown), UNKNOWN)


def halted(status: str) -> str:
    """Return the status of a Skyhook whose rollout is halted: it is not complete, whatever its nodes are."""
    return status if status in (IN_PROGRESS, ERRORING, PAUSED, DISABLED) else BLOCKED


def node_states(nodes: Sequence[Standing]) -> tuple[dict[str, dict[str, Entry]], bool]:
    """Return the entries of all nodes, and whether those of complete nodes had to be left out for their size."""
    found = {node.node: _sorted(node.state) for node in nodes if node.state}
    if sum(len(to_text(state)) for state in found.values()) <= LARGEST_NODE_STATE:
        return found, False
    incomplete = {node.node for node in nodes if not node.is_complete}
    return {name: state for name, state in found.items() if name in incomplete}, True


def _sorted(state: NodeState) -> dict[str, Entry]:
    return {key: state[key] for key in sorted(state)}
