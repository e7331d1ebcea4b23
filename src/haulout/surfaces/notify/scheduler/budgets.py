"""How many nodes may be out of service: the budgets of the scheduler as limits of the kernel.

A node that is cordoned or not Ready shows itself. What is in flight otherwise is counted by the claim of its maintenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

import msgspec

from haulout.cluster.limits import Count, Group, Limit, Membership
from haulout.cluster.rows import NodeRow, Row
from haulout.cluster.view import View
from haulout.surfaces.notify.options import Budget, Scheduler
from haulout.surfaces.notify.rules import selector

IMPLICIT = Budget(name="default")


class Scope(msgspec.Struct, frozen=True, cache_hash=True):
    """The nodes that a budget selects. `others`: the selectors of all budgets, of which none must match."""

    selector: str = ""
    others: tuple[str, ...] = ()

    def selects(self, labels: Mapping[str, str]) -> bool:
        if self.selector and not selector(self.selector).matches(labels):
            return False
        return not any(not other or selector(other).matches(labels) for other in self.others)


class Selected(Count, frozen=True, cache_hash=True):
    """The nodes of a budget, of which percentages are taken."""

    scope: Scope

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and self.scope.selects(row.labels):
            yield Membership(())


class Unavailable(Count, frozen=True, cache_hash=True):
    """The nodes of a budget that are out of service. `name` is that of the budget, for people."""

    scope: Scope
    name: str = ""

    def groups(self, row: Row) -> Iterable[Membership]:
        if isinstance(row, NodeRow) and is_out(row) and self.scope.selects(row.labels):
            yield Membership(())

    def describe(self, group: Group) -> str:
        return f"nodes out of service under budget {self.name}"


class InFlight(Count, frozen=True, cache_hash=True):
    """The nodes of a budget in maintenance, by the value of a label. Only claims are counted: no Node shows it."""

    scope: Scope
    key: str
    name: str = ""

    def describe(self, group: Group) -> str:
        return f"nodes in maintenance with {self.key}={group} under budget {self.name}"


class Share(msgspec.Struct, frozen=True):
    """What a node takes of one budget. `domain`: the value of the label by which the budget counts apart, if it has one."""

    budget: str
    domain: str | None = None


def is_out(node: NodeRow) -> bool:
    """Whether a node is out of service by itself. One that has never said whether it is Ready counts as available."""
    return node.unschedulable or node.condition("Ready") not in (None, "True")


def budgets_of(settings: Scheduler) -> Mapping[str, tuple[Budget, Scope]]:
    """Return the budgets by name, with the nodes of each. What none of them selects has a budget of its own."""
    return _scopes(settings.budgets)


@lru_cache(maxsize=16)
def _scopes(budgets: tuple[Budget, ...]) -> Mapping[str, tuple[Budget, Scope]]:
    found = {budget.name: (budget, Scope(budget.node_selector)) for budget in budgets}
    selectors = tuple(budget.node_selector for budget in budgets)
    if all(selectors):
        found[_unused(found)] = (IMPLICIT, Scope("", selectors))
    return found


def _unused(names: Mapping[str, object]) -> str:
    """Return a name for the implicit budget; one that is configured under it, for other nodes, keeps it."""
    name = IMPLICIT.name
    while name in names:
        name = f"implicit-{name}"
    return name


def shares_of(settings: Scheduler, node: NodeRow) -> tuple[Share, ...]:
    """Return what the node takes of each budget that selects it."""
    return tuple(
        Share(name, node.labels.get(budget.per_topology.key, "") if budget.per_topology else None)
        for name, (budget, scope) in budgets_of(settings).items()
        if scope.selects(node.labels)
    )


def limits_of(
    settings: Scheduler, shares: Iterable[Share], allowed: Mapping[str, int], *, out: bool
) -> Iterator[Limit]:
    """Yield the limits under which a node takes its shares. `out`: it takes a place by itself already."""
    for share in shares:
        budget, scope = budgets_of(settings)[share.budget]
        yield Limit(Unavailable(scope, share.budget), (), allowed.get(share.budget, 0) + out)
        if budget.per_topology is not None and share.domain is not None:
            count = InFlight(scope, budget.per_topology.key, share.budget)
            yield Limit(count, share.domain, budget.per_topology.max)


def allowed_by(budget: Budget, scope: Scope, view: View) -> int:
    """Return how many nodes a budget lets be unavailable now."""
    most = budget.max_unavailable
    if isinstance(most, int):
        return most
    percent = int(most.removesuffix("%"))
    if percent == 0:
        return 0
    return max(1, view.count(Selected(scope), ()) * percent // 100)
