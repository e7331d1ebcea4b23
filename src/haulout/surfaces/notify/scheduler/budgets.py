"""The budgets of the scheduler as limits of the kernel: how many nodes may be out of service.

A node that is cordoned or not Ready is counted by its own row. Any other node in maintenance is counted by its claim.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from haulout.cluster.limits import Count, Group, Limit, Membership
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.view import View
from haulout.surfaces.notify.config_file.rules import selector
from haulout.surfaces.notify.options import Budget, Scheduler

IMPLICIT = Budget(name="default")


class BudgetScope(msgspec.Struct, frozen=True, cache_hash=True):
    """The nodes that a budget selects.

    `others`: selectors of which none may match, for the implicit budget of all remaining nodes.
    """

    selector: str = ""
    others: tuple[str, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        if self.selector and not selector(self.selector).matches(labels):
            return False
        return not any(not other or selector(other).matches(labels) for other in self.others)


class Selected(Count, frozen=True, cache_hash=True):
    """The count of all nodes that a budget selects, for percentages."""

    scope: BudgetScope

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and self.scope.selects(row.labels):
            yield Membership(())


class Unavailable(Count, frozen=True, cache_hash=True):
    """The count of a budget's nodes that are out of service. `name`: the name of the budget, for messages."""

    scope: BudgetScope
    name: str = ""

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and is_out(row) and self.scope.selects(row.labels):
            yield Membership(())

    def describe(self, group: Group) -> str:
        return f"nodes out of service under budget {self.name}"


class InFlight(Count, frozen=True, cache_hash=True):
    """The count of a budget's nodes in maintenance, by the value of a label.

    Only claims are counted, because no Node shows that it is in maintenance.
    """

    scope: BudgetScope
    key: str
    name: str = ""

    def describe(self, group: Group) -> str:
        return f"nodes in maintenance with {self.key}={group} under budget {self.name}"


class BudgetShare(msgspec.Struct, frozen=True):
    """The place that a node takes under one budget.

    `domain`: the value of the label by which the budget also counts; None if it does not.
    """

    budget: str
    domain: str | None = None


def is_out(node: NodeRow) -> bool:
    """Whether a node is out of service by itself.

    A node that has never reported whether it is Ready counts as available.
    """
    return node.unschedulable or node.condition("Ready") not in (None, "True")


def budgets_of(settings: Scheduler) -> Mapping[str, tuple[Budget, BudgetScope]]:
    """Return the budgets by name, each with its nodes. Nodes that no budget selects get an implicit one."""
    return _scopes(settings.budgets)


@lru_cache(maxsize=16)
def _scopes(budgets: tuple[Budget, ...]) -> Mapping[str, tuple[Budget, BudgetScope]]:
    found = {budget.name: (budget, BudgetScope(budget.node_selector)) for budget in budgets}
    selectors = tuple(budget.node_selector for budget in budgets)
    if all(selectors):
        found[_unused(found)] = (IMPLICIT, BudgetScope("", selectors))
    return found


def _unused(names: Mapping[str, object]) -> str:
    """Return a name for the implicit budget that no configured budget has."""
    name = IMPLICIT.name
    while name in names:
        name = f"implicit-{name}"
    return name


def shares_of(settings: Scheduler, node: NodeRow) -> tuple[BudgetShare, ...]:
    """Return the place that the node takes under each budget that selects it."""
    return tuple(
        BudgetShare(name, node.labels.get(budget.per_topology.key, "") if budget.per_topology else None)
        for name, (budget, scope) in budgets_of(settings).items()
        if scope.selects(node.labels)
    )


def limits_of(
    settings: Scheduler, shares: Iterable[BudgetShare], allowed: Mapping[str, int], *, out: bool
) -> Iterator[Limit]:
    """Yield the limits of the budgets for a node. `out`: the node already counts as out of service."""
    for share in shares:
        budget, scope = budgets_of(settings)[share.budget]
        yield Limit(Unavailable(scope, share.budget), (), allowed.get(share.budget, 0) + out)
        if budget.per_topology is not None and share.domain is not None:
            count = InFlight(scope, budget.per_topology.key, share.budget)
            yield Limit(count, share.domain, budget.per_topology.max)


def allowed_by(budget: Budget, scope: BudgetScope, view: View) -> int:
    """Return how many nodes may be unavailable under a budget now."""
    most = budget.max_unavailable
    if isinstance(most, int):
        return most
    percent = int(most.removesuffix("%"))
    if percent == 0:
        return 0
    return max(1, view.count(Selected(scope), ()) * percent // 100)
