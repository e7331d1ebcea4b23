"""Turns each NodeDisruptionBudget into a rule for the arbiter: how many nodes it allows now, and whether it is open."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import Measure, Say, Step, Tell
from haulout.core.budgets.budget import Budget, Share, read_budget
from haulout.core.budgets.counts import Ruling, Selected, closed_key, ruling_key
from haulout.core.budgets.wire import KIND, NodeBudgetRow
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.pause import budget_mark, pause_key

NAME = "budgets"
REPORTER = "haulout"
INVALID = "haulout_node_budget_invalid_total"


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Publish the rule of one budget as marks.

    It writes no object, because a decision does not run while a write of its own is under way.
    While budgets cannot be read the last rule stays, so that existing grants keep their places and a pause its nodes.
    """
    if view.listing(KIND) is Listing.UNREADABLE:
        keys = (ruling_key(key.name), closed_key(key.name), pause_key(key.name))
        last = (view.recall(each, Value) for each in keys)
        return Decision(marks=tuple(mark for mark in last if mark is not None))
    row = view.get(key, NodeBudgetRow)
    if row is None:
        return NOTHING
    budget = read_budget(row)
    marks = [Value(key=ruling_key(key.name), value=Ruling(budget, _allowed(budget, view)))]
    if budget.paused is not None:
        marks.append(budget_mark(budget.paused))
    if budget.problems:
        return Decision(actions=(_complaint(budget, row),), marks=tuple(marks))
    if not budget.windows.is_open(now):
        # A closed window is a mark, so that claims wait for it as for a room: when it opens, only those that fit run.
        marks.append(Value(key=closed_key(key.name), value=budget.windows.opens_at(now)))
    return Decision(marks=tuple(marks), until=budget.windows.changes_at(now))


# Runs before the surfaces and the arbiter, so that no grant follows an outdated rule.
RULER = Decider(NAME, KIND, decide, phase=-2)


def _allowed(budget: Budget, view: View) -> int | None:
    if not isinstance(budget.most, Share):
        return budget.most
    return budget.most.of(view.count(Selected(budget.selector), ())) if budget.selector is not None else 0


def _complaint(budget: Budget, row: NodeBudgetRow) -> Step:
    problem = "; ".join(budget.problems)
    note = f"The budget is invalid, and no new maintenance starts on its nodes: {problem}"
    return (
        Tell(budget.key, "BudgetInvalid", "ReadBudget", note, REPORTER, warning=True),
        Measure(INVALID, (("budget", budget.name),), occasion=row.generation),
        Say("node disruption budget is invalid", (("budget", budget.name), ("error", problem)), "error"),
    )
