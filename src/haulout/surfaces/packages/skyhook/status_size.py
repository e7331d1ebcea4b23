"""The size of the status of a Skyhook: which entries of nodes it repeats, and whether the API server refused it as too large."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from http import HTTPStatus

import msgspec

from haulout.cluster.view import View
from haulout.core.action import Refusal
from haulout.core.refusals import find_refusal
from haulout.surfaces.packages.entries.entry import NodeState, PackageEntry
from haulout.surfaces.packages.node.standing import NodeStanding
from haulout.surfaces.packages.wire import SkyhookRow

# The API server accepts objects of up to 1.5 MiB, and other parts of the status grow with the nodes, too.
LARGEST_NODE_STATE = 512 * 1024


def outcome_name(row: SkyhookRow) -> str:
    """Return the name of the outcome that says whether the API server refused the status."""
    return f"packages/status/{row.uid}"


def is_refused_for_size(view: View, row: SkyhookRow) -> bool:
    """Whether the API server has refused the status because the object is too large."""
    refusal = find_refusal(view, outcome_name(row))
    return refusal is not None and (refusal.code == HTTPStatus.REQUEST_ENTITY_TOO_LARGE or _is_too_large(refusal))


def _is_too_large(refusal: Refusal) -> bool:
    """Whether the refusal is an internal error with the words of etcd, or of its client, for a too large object."""
    return any(words in refusal.message for words in ("request is too large", "message larger than max"))


def node_states(nodes: Sequence[NodeStanding]) -> tuple[dict[str, dict[str, PackageEntry]], str]:
    """Return the nodes' entries for the status, and which nodes are left out because of its size; empty if none.

    A node from which the last package was removed keeps its place there, without entries.
    """
    found = {node.node: _sorted(node.state) for node in nodes if node.state or node.has_annotation}
    if _size(found) <= LARGEST_NODE_STATE:
        return found, ""
    found = {node.node: found[node.node] for node in nodes if node.state and not node.is_complete}
    if _size(found) <= LARGEST_NODE_STATE:
        return found, "complete nodes"
    return _as_many_as_fit(found), "complete nodes and some others"


def _as_many_as_fit(states: Mapping[str, dict[str, PackageEntry]]) -> dict[str, dict[str, PackageEntry]]:
    kept, room = dict[str, dict[str, PackageEntry]](), LARGEST_NODE_STATE
    for name, entries in states.items():
        size = _size({name: entries})
        # A node whose entries do not fit is skipped, and smaller ones after it may still fit.
        if size <= room:
            kept[name], room = entries, room - size
    return kept


def _size(states: Mapping[str, Mapping[str, PackageEntry]]) -> int:
    """Return how many bytes the entries take on the wire, where an empty digest is left out."""
    unnamed = sum(not entry.container_sha for entries in states.values() for entry in entries.values())
    return len(msgspec.json.encode(states)) - unnamed * len('"containerSHA":"",')


def _sorted(state: NodeState) -> dict[str, PackageEntry]:
    return {key: state[key] for key in sorted(state)} if len(state) > 1 else dict(state)
