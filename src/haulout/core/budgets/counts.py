"""What is counted for budgets: nodes that are selected, those out of service, and budgets that are closed."""

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

    A budget as it applies now. `allowed` None: any number may be out.
    """

    budget: Budget
    allowed: int | None = None


class Selected(Count, frozen=True, cache_hash=True):
    """A count of the nodes that a budget selects, of which percentages are taken."""

    selector: Nodes

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and selects(self.selector, row):
            yield Membership(())


class Unavailable(Count, frozen=True, cache_hash=True):
    """Nodes that are cordoned or not Ready, for whatever reason; with a topology key, by their domain."""

    selector: Nodes
    topology_key: str = ""

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and is_unavailable(row) and selects(self.selector, row):
            yield Membership(self.group_of(row))

    def group_of(self, row: NodeRow) -> Group:
        return domain_of(row, self.topology_key) if self.topology_key else ()


class ClosedBudgets(Count, frozen=True):
    """Budgets whose windows are closed, by name."""

    @property
    def kind(self) -> str:
        return MARK

    def groups(self, row: Row) -> Iterable[Membership]:
        if row.key.namespace == CLOSED:
            yield Membership(row.key.name)


def is_unavailable(row: NodeRow) -> bool:
    return row.unschedulable or not row.ready


def domain_of(row: NodeRow, topology_key: str) -> str:
    """Return the domain of a node. One without the label is a domain of its own, by a name that no label can have."""
    return row.labels.get(topology_key) or f"node/{row.key.name}"


def ruling_key(name: str) -> Key:
    return Key("", MARK, RULING, name)


def closed_key(name: str) -> Key:
    return Key("", MARK, CLOSED, name)


def _rulings(row: Row) -> tuple[str, ...]:
    return (RULING,) if isinstance(row, Value) and isinstance(row.value, Ruling) else ()


RULINGS = Index("rulings", MARK, _rulings)
