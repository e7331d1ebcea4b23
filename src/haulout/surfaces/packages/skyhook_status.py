"""The status of a Skyhook, from how its nodes stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec

from haulout.cluster.view import View
from haulout.core.action import Refusal
from haulout.core.refusals import refused
from haulout.surfaces.packages.node_state import Entry, NodeState
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
    # Nodes show nothing of a new Skyhook before the first of them is picked. They wait.
    unshown = WAITING if row.status.status in ("", WAITING) else UNKNOWN
    statuses = {node.status if node.status in STATUSES else unshown for node in nodes if not node.is_complete}
    return next((status for status in PRECEDENCE if status in statuses), UNKNOWN)


def halted(status: str) -> str:
    """Return the status of a Skyhook whose rollout is halted: it is not complete, whatever its nodes are."""
    return status if status in (IN_PROGRESS, ERRORING, PAUSED, DISABLED) else BLOCKED


def outcome_name(row: SkyhookRow) -> str:
    """Return the name under which a refusal of the status is kept."""
    return f"packages/status/{row.uid}"


def is_refused_for_size(view: View, row: SkyhookRow) -> bool:
    """Whether the API server has refused the status for its size. It counts what it keeps beside the status, too."""
    refusal = refused(view, outcome_name(row))
    return refusal is not None and (refusal.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or _is_too_large(refusal))


def _is_too_large(refusal: Refusal) -> bool:
    """Whether these are the words of etcd or of the API server's client of it, which come as an internal error."""
    return any(words in refusal.message for words in ("request is too large", "message larger than max"))


def node_states(nodes: Sequence[Standing]) -> tuple[dict[str, dict[str, Entry]], str]:
    """Return the entries of the nodes, and of which nodes they had to be left out for their size; empty, if of none."""
    found = {node.node: _sorted(node.state) for node in nodes if node.state}
    if _size(found) <= LARGEST_NODE_STATE:
        return found, ""
    found = {node.node: found[node.node] for node in nodes if node.state and not node.is_complete}
    if _size(found) <= LARGEST_NODE_STATE:
        return found, "complete nodes"
    return _as_many_as_fit(found), "complete nodes and some others"


def _as_many_as_fit(states: Mapping[str, dict[str, Entry]]) -> dict[str, dict[str, Entry]]:
    kept, room = dict[str, dict[str, Entry]](), LARGEST_NODE_STATE
    for name, entries in states.items():
        size = _size({name: entries})
        # One node with long entries leaves out its own, not those of the nodes after it.
        if size <= room:
            kept[name], room = entries, room - size
    return kept


def _size(states: Mapping[str, Mapping[str, Entry]]) -> int:
    """Return how many bytes the entries take on the wire, where an entry without a digest does not name it."""
    unnamed = sum(not entry.container_sha for entries in states.values() for entry in entries.values())
    return len(msgspec.json.encode(states)) - unnamed * len('"containerSHA":"",')


def _sorted(state: NodeState) -> dict[str, Entry]:
    return {key: state[key] for key in sorted(state)} if len(state) > 1 else dict(state)
