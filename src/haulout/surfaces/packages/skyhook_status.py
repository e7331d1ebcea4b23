"""The status word of a Skyhook, and the part of its status that repeats the entries of its nodes."""

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

# If nodes differ, the Skyhook has the first of these statuses that any of them shows.
PRECEDENCE = (IN_PROGRESS, ERRORING, BLOCKED, WAITING, UNKNOWN)
# The API server accepts objects of up to 1.5 MiB, and other parts of the status grow with the nodes, too.
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
    # Before the first pick of a new Skyhook its nodes show no status. They count as waiting.
    unshown = WAITING if row.status.status in ("", WAITING) else UNKNOWN
    statuses = {node.status if node.status in STATUSES else unshown for node in nodes if not node.is_complete}
    return next((status for status in PRECEDENCE if status in statuses), UNKNOWN)


def halted(status: str) -> str:
    """Return the status of a Skyhook whose rollout is halted. It is never `complete`."""
    return status if status in (IN_PROGRESS, ERRORING, PAUSED, DISABLED) else BLOCKED


def outcome_name(row: SkyhookRow) -> str:
    """Return the name of the outcome that says whether the API server refused the status."""
    return f"packages/status/{row.uid}"


def is_refused_for_size(view: View, row: SkyhookRow) -> bool:
    """Whether the API server has refused the status because the object is too large."""
    refusal = refused(view, outcome_name(row))
    return refusal is not None and (refusal.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or _is_too_large(refusal))


def _is_too_large(refusal: Refusal) -> bool:
    """Whether the refusal is an internal error with the words of etcd, or of its client, for a too large object."""
    return any(words in refusal.message for words in ("request is too large", "message larger than max"))


def node_states(nodes: Sequence[Standing]) -> tuple[dict[str, dict[str, Entry]], str]:
    """Return the nodes' entries for the status, and which nodes are left out because of its size; empty if none."""
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
        # A node whose entries do not fit is skipped, and smaller ones after it may still fit.
        if size <= room:
            kept[name], room = entries, room - size
    return kept


def _size(states: Mapping[str, Mapping[str, Entry]]) -> int:
    """Return how many bytes the entries take on the wire, where an empty digest is left out."""
    unnamed = sum(not entry.container_sha for entries in states.values() for entry in entries.values())
    return len(msgspec.json.encode(states)) - unnamed * len('"containerSHA":"",')


def _sorted(state: NodeState) -> dict[str, Entry]:
    return {key: state[key] for key in sorted(state)} if len(state) > 1 else dict(state)
