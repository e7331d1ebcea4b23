"""Which nodes have taken in a Skyhook as it is now. A node is not asked while a write to it is under way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from haulout.base import bounds
from haulout.cluster.key import node_key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import View, holds_table
from haulout.surfaces.packages.node_leaving import has_remains
from haulout.surfaces.packages.plan import PlanRow
from haulout.surfaces.packages.standing import Standing, standing_key

PLAN_DECISION, NODE_DECISION = "packages-plans", "packages-nodes"
ALL_NODES = Index("packages-all-nodes", "Node", lambda row: ("",))


def await_first_answers(view: View, decision: str) -> None:
    """Put the decision off until another one has run once for each of its objects. A new operator knows none of its rows.

    A table that cannot be read is another matter: its objects are as they were last seen.
    """
    if view.listing(holds_table(decision)) is Listing.WAITING:
        view.require(holds_table(decision))


def current(view: View, plan: PlanRow, standings: Iterable[Standing], picked: Iterable[str]) -> tuple[Standing, ...]:
    """Return how the nodes stand, in their order. One that has not taken in the Skyhook as it is now is not known.

    Such a node is not complete and cannot be picked. If it was picked, it keeps its place.
    """
    known = [each if each.revision == plan.revision else _unheard(each) for each in standings]
    names = {each.node for each in known}
    if unseen := list(_unseen(view, plan, (name for name in picked if name not in names))):
        return tuple(sorted([*known, *unseen], key=lambda node: node.age))
    # The rows of a bucket are in the order of their names already, and sorting keeps that among nodes of one age.
    return tuple(sorted(known, key=lambda node: node.created_at or bounds.EARLIEST))


def _unheard(standing: Standing) -> Standing:
    return msgspec.structs.replace(standing, is_heard=False, is_complete=False, is_ready=False, has_begun=True)


def _unseen(view: View, plan: PlanRow, names: Iterable[str]) -> Iterator[Standing]:
    # A Skyhook that is being deleted waits only for nodes on which something is left to uninstall.
    for name in () if plan.is_deleting else names:
        node = view.get(node_key(name), NodeRow)
        if node is not None and _selects(plan, node):
            yield _unheard(
                Standing(
                    key=standing_key(plan.skyhook, name),
                    skyhook=plan.skyhook,
                    node=name,
                    created_at=node.created_at,
                    labels=node.labels,
                )
            )


def has_heard_all(view: View, plan: PlanRow, nodes: Sequence[Standing]) -> bool:
    """Whether every node that the Skyhook selects has taken it in. Reading this costs a look at every node."""
    if not all(node.is_heard for node in nodes):
        return False
    known = {node.node for node in nodes}
    return all(node.key.name in known for node in _all_nodes(view) if _selects(plan, node))


def are_released(view: View, plan: PlanRow) -> bool:
    """Whether no node carries anything of a deleted Skyhook that has to go with it."""
    return not any(has_remains(plan, node) for node in _all_nodes(view))


def _all_nodes(view: View) -> list[NodeRow]:
    return [node for node in view.rows(ALL_NODES, "", NodeRow) if node.deleting_at is None]


def _selects(plan: PlanRow, node: NodeRow) -> bool:
    return plan.selector is not None and plan.selector.matches(node.labels)
