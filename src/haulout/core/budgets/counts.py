"""The counts that budgets need: selected nodes, unavailable nodes, and budgets whose windows are closed."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import Count, Group, Membership
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.store import Index
from haulout.cluster.view import MARK
from haulout.core.budgets.budget import Budget, Nodes, selects

RULING, CLOSED = "budget", "budget-closed"


class Ruling(msgspec.Struct, frozen=True):
    """A budget with the number of nodes that it allows to be unavailable now.

    `allowed` None: any number may be unavailable.
    """

    budget: Budget
    allowed: int | None = None


class Selected(Count, frozen=True, cache_hash=True):
    """A count of the nodes that a budget selects. Percentages are taken of this number."""

    selector: Nodes

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and selects(self.selector, row):
            yield Membership(())


class Unavailable(Count, frozen=True, cache_hash=True):
    """A count of the selected nodes that are cordoned or not Ready, for whatever reason.

    `topology_key`: they are counted by their domain.
    """

    selector: Nodes
    topology_key: str = ""

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and is_unavailable(row) and selects(self.selector, row):
            yield Membership(self.group_of(row))

    def group_of(self, row: NodeRow) -> Group:
        return domain_of(row, self.topology_key) if self.topology_key else ()


class ClosedBudgets(Count, frozen=True):
    """A count of the budgets whose windows are closed, by name."""

    @property
    def kind(self) -> str:
        return MARK

    def groups(self, row: Row) -> Iterable[Membership]:
        if row.key.namespace == CLOSED:
            yield Membership(row.key.name)


def is_unavailable(row: NodeRow) -> bool:
    return row.unschedulable or not row.ready


def domain_of(row: NodeRow, topology_key: str) -> str:
    """Return the topology domain of a node.

    A node without the label is a domain of its own, under a name that no label value can have.
    """
    return row.labels.get(topology_key) or f"node/{row.key.name}"


def ruling_key(name: str) -> Key:
    return Key("", MARK, RULING, name)


def closed_key(name: str) -> Key:
    return Key("", MARK, CLOSED, name)


def _rulings(row: Row) -> tuple[str, ...]:
    return (RULING,) if isinstance(row, Value) and isinstance(row.value, Ruling) else ()


RULINGS = Index("rulings", MARK, _rulings)
