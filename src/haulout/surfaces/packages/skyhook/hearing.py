"""Which nodes' decisions have seen the current revision of a Skyhook.

A node's decision does not run while a write to that node is under way, so its standing may be older than the intent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from haulout.base import bounds
from haulout.cluster.key import node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import View, holds_table
from haulout.surfaces.packages.node.leaving import has_remains
from haulout.surfaces.packages.node.prefixes import Home, inner
from haulout.surfaces.packages.node.standing import NodeStanding, standing_key
from haulout.surfaces.packages.skyhook.intent import Intent

# The decisions about the intents of Skyhooks, and of NodeWrights.
INTENT_DECISIONS = ("packages-intents", "packages-nodewright-intents")
NODE_DECISION = "packages-nodes"
ALL_NODES = Index("packages-all-nodes", "Node", lambda row: ("",))


def await_first_answers(view: View, decision: str) -> None:
    """Put the decision off until another decision has run once for each of its objects.

    After a start the rows that the other decision makes are missing. If the table of its objects cannot be read,
    waiting would not help: then the rows stay as they were.
    """
    if view.listing(holds_table(decision)) is Listing.WAITING:
        view.require(holds_table(decision))


def current(
    view: View, intent: Intent, standings: Iterable[NodeStanding], picked: Iterable[str]
) -> tuple[NodeStanding, ...]:
    """Return the standings of the Skyhook's nodes, oldest node first, adding picked nodes that have none yet.

    A node that has not seen the current revision of the intent is neither complete nor may it be picked. A pick that it
    has stays.
    """
    known = [each if each.revision == intent.revision else _unheard(each) for each in standings]
    names = {each.node for each in known}
    if unseen := list(_unseen(view, intent, (name for name in picked if name not in names))):
        return tuple(sorted([*known, *unseen], key=lambda node: node.age))
    # The rows of a bucket come sorted by name, and the sort is stable, so nodes of the same age stay sorted by name.
    return tuple(sorted(known, key=lambda node: node.created_at or bounds.EARLIEST))


def _unheard(standing: NodeStanding) -> NodeStanding:
    return msgspec.structs.replace(standing, is_heard=False, is_complete=False, is_ready=False, has_begun=True)


def _unseen(view: View, intent: Intent, names: Iterable[str]) -> Iterator[NodeStanding]:
    # A deleted Skyhook waits only for nodes with something left to uninstall, and those have a standing.
    for name in () if intent.is_deleting else names:
        node = view.get(node_key(name), NodeRow)
        if node is not None and intent.selects(node):
            yield _unheard(
                NodeStanding(
                    key=standing_key(intent.skyhook, name),
                    skyhook=intent.skyhook,
                    node=name,
                    created_at=node.created_at,
                    labels=node.labels,
                )
            )


def has_heard_all(view: View, intent: Intent, nodes: Sequence[NodeStanding]) -> bool:
    """Whether every node that the Skyhook selects has seen the current revision.

    This reads every node of the cluster.
    """
    if not all(node.is_heard for node in nodes):
        return False
    known = {node.node for node in nodes}
    return all(node.key.name in known for node in all_nodes(view) if intent.selects(node))


def are_released(view: View, intent: Intent) -> bool:
    """Whether no node carries marks of a deleted Skyhook that must be removed with it."""
    return not any(
        has_remains(intent, inner(node, {intent.skyhook: Home(group, (group,))}))
        for node in all_nodes(view)
        for group in intent.home.writes
    )


def all_nodes(view: View) -> list[NodeRow]:
    return [node for node in view.rows(ALL_NODES, "", NodeRow) if node.deleting_at is None]
