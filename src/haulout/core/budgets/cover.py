"""The budgets over one node: the limits that a claim on it needs, the places that it takes, the reasons of refusals.

See decision 0011.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.limits import AnotherGroup, Joined, Limit, Need
from haulout.cluster.rows import NodeRow, Reservation, Value
from haulout.cluster.view import View
from haulout.core.budgets.counts import (
    RULING,
    RULINGS,
    ClosedBudgets,
    Ruling,
    Unavailable,
    closed_key,
    is_unavailable,
)
from haulout.core.budgets.quorum import BUDGET as QUORUM
from haulout.core.budgets.wire import KIND
from haulout.core.reason import Reason

MOST_SHOWN = 3
QUORUM_CODE = "quorum"
# The code of a node that takes a place under a budget.
UNAVAILABLE = "unavailable"


class BudgetNeed(msgspec.Struct, frozen=True):
    """A need of one budget: a claim needs room under any one of the limits `any_of`.

    `code`: the code of the reason if there is no room.
    """

    ruling: Ruling
    code: str
    any_of: tuple[Limit, ...]

    @property
    def rooms(self) -> Need:
        return frozenset(self.any_of)

    def reason(self, view: View) -> Reason:
        budget, limit = self.ruling.budget, self.any_of[0]
        if self.code == "window-closed":
            opening = view.recall(closed_key(budget.name), Value)
            opens_at = opening.value if opening is not None and isinstance(opening.value, datetime) else None
            return Reason(self.code, budget.key, f"budget {budget.name}: window closed", opens_at)
        takers = view.takers(limit)
        causes = tuple(_taker(view, taker, budget.topology_key) for taker in takers[:MOST_SHOWN])
        if len(takers) > MOST_SHOWN:
            causes = (*causes, Reason(UNAVAILABLE, budget.key, f"and {len(takers) - MOST_SHOWN} more"))
        if budget.key == QUORUM:
            text = f"etcd keeps its quorum only with at most {_many(self.ruling.allowed or 0, 'member')} out of service"
            return Reason(QUORUM_CODE, self.ruling.budget.key, text, because=causes)
        if self.code == "domain-taken":
            where = f"nodes may be out in at most {_many(budget.most_domains, 'domain')} of {budget.topology_key}"
        else:
            where = f"at most {_many(self.ruling.allowed or 0, 'node')} may be out"
        text = f"budget {budget.name}: {where} at a time"
        # A budget that allows no node at all never has room, whichever node comes back. Only a change of the budget
        # helps.
        is_shut = self.code != "domain-taken" and not self.ruling.allowed
        act = f"raise maxUnavailable of {KIND} {budget.name} (now 0)" if is_shut else ""
        return Reason(self.code, budget.key, text, because=causes, act=act)


class Cover(msgspec.Struct, frozen=True):
    """The budgets that select one node, as they apply now."""

    node: NodeRow
    rulings: tuple[Ruling, ...]

    @property
    def budgets(self) -> tuple[Key, ...]:
        return tuple(ruling.budget.key for ruling in self.rulings if ruling.budget.key != QUORUM)

    def invalid(self, surface: str, passes: str = "") -> tuple[Reason, ...]:
        """Return a reason for each invalid budget of the node.

        Such a budget refuses, because a valid spec might have refused. `passes`: the budget that the claim may pass.
        """
        broken = (ruling.budget for ruling in self.rulings if ruling.budget.problems and ruling.budget.name != passes)
        return tuple(
            Reason(QUORUM_CODE, budget.key, "; ".join(budget.problems))
            if budget.key == QUORUM
            else Reason("budget-invalid", budget.key, f"budget {budget.name} is invalid: {'; '.join(budget.problems)}")
            for budget in broken
            if budget.refuses(surface)
        )

    def needs(self, surface: str, *, held: bool, passes: str = "") -> tuple[BudgetNeed, ...]:
        """Return the limits that a claim of this surface needs, except those of the budget that it `passes`.

        `held`: another claim keeps the node out of service already, so that no further place is needed.
        """
        found: list[BudgetNeed] = []
        # A node that is unavailable already is counted itself. So that it does not stand in its own way, one more is
        # allowed.
        itself = 1 if is_unavailable(self.node) else 0
        for ruling in self.rulings:
            budget = ruling.budget
            if not budget.refuses(surface) or budget.selector is None or budget.name == passes:
                continue
            if budget.windows.all:
                found.append(BudgetNeed(ruling, "window-closed", (Limit(ClosedBudgets(), budget.name, 1),)))
            if ruling.allowed is not None and not held:
                limit = Limit(Unavailable(budget.selector), (), ruling.allowed + itself)
                found.append(BudgetNeed(ruling, "budget-full", (limit,)))
            if budget.topology_key and not held:
                domains = Unavailable(budget.selector, budget.topology_key)
                another = Limit(domains, AnotherGroup(), budget.most_domains)
                same = Limit(domains, Joined(domains.group_of(self.node)), 0)
                # A node without the label is a domain of its own, which no other node can have taken out of service
                # already.
                alone = budget.topology_key not in self.node.labels and not itself
                found.append(BudgetNeed(ruling, "domain-taken", (another,) if alone else (another, same)))
        return tuple(found)

    def would_refuse(self, budget: str, surface: str, view: View, *, held: bool) -> bool:
        """Whether a budget would refuse a claim of this surface now. For messages only: the subject waits for no room."""
        is_invalid = any(reason.subject.name == budget for reason in self.invalid(surface))
        needs = (need for need in self.needs(surface, held=held) if need.ruling.budget.name == budget)
        return is_invalid or any(not view.has_room(need.rooms) for need in needs)

    def places(self) -> tuple[Reservation, ...]:
        """Return the places that the node takes while it is out of service, also under budgets of other surfaces."""
        found: list[Reservation] = []
        for ruling in self.rulings:
            budget = ruling.budget
            if budget.selector is not None:
                counts = [Unavailable(budget.selector)]
                counts += [Unavailable(budget.selector, budget.topology_key)] if budget.topology_key else []
                found += [Reservation(count, count.group_of(self.node), self.node.key) for count in counts]
        return tuple(dict.fromkeys(found))


def cover_of(node: Key, view: View) -> Cover | None:
    """Return the budgets over a node of the home cluster; None: no budget concerns the node."""
    if node.cluster:
        return None
    row = view.get(node, NodeRow)
    if row is None:
        return None
    marks = view.rows(RULINGS, RULING, Value)
    rulings = (mark.value for mark in marks if isinstance(mark.value, Ruling))
    found = tuple(ruling for ruling in rulings if ruling.budget.concerns(row))
    return Cover(row, found) if found else None


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _taker(view: View, taker: Key, topology_key: str) -> Reason:
    row = view.recall(taker, NodeRow)
    states = []
    if row is not None:
        states = ["cordoned"] * row.unschedulable + ["not ready"] * (not row.ready)
    where = f" ({row.labels[topology_key]})" if row is not None and topology_key in row.labels else ""
    return Reason(UNAVAILABLE, taker, f"{taker.name}{where} is {' and '.join(states) or 'about to go'}")
