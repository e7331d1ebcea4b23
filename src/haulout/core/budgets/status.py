"""The status of each budget: which nodes take its places, which claims wait, when it opens, whether it is valid."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from haulout.cluster.key import Key
from haulout.cluster.limits import Limit
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.store import Index, Listing
from haulout.cluster.view import GRANT, MARK, View
from haulout.core.action import Patch
from haulout.core.budgets.counts import Ruling, Unavailable, closed_key, ruling_key
from haulout.core.budgets.wire import KIND, NodeBudgetRow
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.holds import Grant, Hold
from haulout.core.kstatus import TYPES, Course, course_conditions, read_conditions, wire_conditions
from haulout.model.meta import wire_time

# Often enough for people who watch it. Without this pace, a rollout over thousands of nodes would write one status
# after the other.
PACE_FOR = timedelta(seconds=2)
MOST_HOLDERS = 50
MOST_WAITING = 5
WRITTEN = "budget-status"

Status = dict[str, Any]
Sample = tuple[str, tuple[tuple[str, str], ...], float]


def _places(row: Row) -> Iterator[tuple[str, Key]]:
    if isinstance(row, Grant):
        yield from (("holds", budget) for budget in row.budgets)
        yield from (("waits", reason.subject) for reason in row.reasons if reason.subject.kind == KIND)


GRANTS_OF_BUDGET = Index("grants-of-budget", GRANT, _places)


def decide(key: Key, view: View, now: datetime) -> Decision:
    if view.listing(KIND) is Listing.UNREADABLE:
        return NOTHING
    row = view.get(key, NodeBudgetRow)
    if row is None:
        return NOTHING
    mark = Key(key.cluster, MARK, WRITTEN, key.name)
    last = view.recall(mark, Value)
    if last is not None and isinstance(last.value, datetime) and now < last.value + PACE_FOR:
        # Nothing else is read before then, so that no change wakes the decision: it runs once in each pace.
        return Decision(marks=(last,), until=last.value + PACE_FOR)
    ruling = view.get(ruling_key(key.name), Value)
    if ruling is None or not isinstance(ruling.value, Ruling):
        return NOTHING
    before: Mapping[str, Any] = row.status if isinstance(row.status, Mapping) else {}
    after = status_of(row, ruling.value, view, now)
    if after == before:
        return NOTHING
    removed = {name: None for name in before if name not in after}
    patch = Patch(key, {"status": {**after, **removed}}, subresource="status")
    return Decision(actions=((patch,),), marks=(Value(key=mark, value=now),))


# Runs after the arbiter, so that the status has the grants of this instant.
TELLER = Decider("budget-status", KIND, decide, phase=2)


def status_of(row: NodeBudgetRow, ruling: Ruling, view: View, now: datetime) -> Status:
    """Return the status of a budget. Its condition keeps the transition time where its state has not changed."""
    before: Mapping[str, Any] = row.status if isinstance(row.status, Mapping) else {}
    holding = view.rows(GRANTS_OF_BUDGET, ("holds", row.key), Grant)
    waiting = view.rows(GRANTS_OF_BUDGET, ("waits", row.key), Grant)
    closed = view.get(closed_key(row.key.name), Value)
    selector = ruling.budget.selector
    takers: list[Key] = []
    if selector is not None:
        count = Unavailable(selector)
        view.count(count, ())
        takers = view.takers(Limit(count, (), 0))
    status: Status = {
        "observedGeneration": row.generation,
        "used": len(takers),
        "holders": list(_holders(takers, holding, view))[:MOST_HOLDERS],
        "waiting": {"count": len(waiting), "first": _first(waiting, row.key, view)},
        "conditions": _conditions(row, before, ruling, now),
    }
    if ruling.allowed is not None:
        status["allowed"] = ruling.allowed
    if closed is not None and isinstance(closed.value, datetime):
        status["nextOpening"] = wire_time(closed.value)
    return status


def _holders(takers: list[Key], holding: Iterable[Grant], view: View) -> Iterator[dict[str, str]]:
    """Yield the surface that keeps each node out of service; without one, whether the node is cordoned or not Ready."""
    surfaces: dict[Key, set[str]] = {}
    for grant in holding:
        hold = view.recall(grant.hold, Hold)
        if hold is not None:
            surfaces.setdefault(hold.claim.node, set()).add(hold.surface)
    for taker in takers:
        if taker in surfaces:
            yield from ({"node": taker.name, "surface": surface} for surface in sorted(surfaces[taker]))
        else:
            node = view.recall(taker, NodeRow)
            yield {"node": taker.name, "reason": "NotReady" if node is not None and not node.ready else "Cordoned"}


def _first(waiting: Iterable[Grant], budget: Key, view: View) -> list[dict[str, str]]:
    holds = [(hold, grant) for grant in waiting if (hold := view.recall(grant.hold, Hold)) is not None]
    first = heapq.nsmallest(MOST_WAITING, holds, key=lambda pair: pair[0].rank)
    codes = [[reason.code for reason in grant.reasons if reason.subject == budget] for _, grant in first]
    return [
        {"node": hold.claim.node.name, "surface": hold.surface, "reason": code[0]}
        for (hold, _), code in zip(first, codes, strict=True)
    ]


def _conditions(row: NodeBudgetRow, before: Mapping[str, Any], ruling: Ruling, now: datetime) -> list[Any]:
    problems = ruling.budget.problems
    written = before.get("conditions")
    known = [each for each in written if isinstance(each, Mapping)] if isinstance(written, list) else []
    old: Mapping[str, Any] = next((each for each in known if each.get("type") == "Valid"), {})
    state = "False" if problems else "True"
    valid = {
        "type": "Valid",
        "status": state,
        "reason": "Invalid" if problems else "Accepted",
        "message": "; ".join(problems),
        "observedGeneration": row.generation,
        "lastTransitionTime": old.get("lastTransitionTime") if old.get("status") == state else wire_time(now),
    }
    course, reason = (Course.FAILED, "Invalid") if problems else (Course.DONE, "Accepted")
    stood = read_conditions(written)
    for_tools = wire_conditions(course_conditions(stood, course, reason, "; ".join(problems), row.generation, now))
    return [*(each for each in known if each.get("type") not in ("Valid", *TYPES)), valid, *for_tools]


def samples(rows: Iterable[Row]) -> Iterator[Sample]:
    """Yield the numbers in each budget's status, as samples for metrics."""
    for row in rows:
        status = row.status if isinstance(row, NodeBudgetRow) and isinstance(row.status, Mapping) else {}
        labels = (("budget", row.key.name),)
        waiting = status.get("waiting")
        numbers = {
            "allowed": status.get("allowed"),
            "used": status.get("used"),
            "waiting": waiting.get("count") if isinstance(waiting, Mapping) else None,
        }
        for name, number in numbers.items():
            if isinstance(number, int):
                yield f"haulout_node_budget_{name}", labels, float(number)
