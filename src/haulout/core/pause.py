"""Pauses: what people have stopped, by an annotation of an object or a Node, or by a NodeDisruptionBudget (K22).

While a node is paused, the kernel sends nothing that disrupts it (`core.disruption`). What undoes goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec

from haulout.base import bounds
from haulout.base.selector import EVERYTHING, Selector
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, ObjectRow, Row, Value
from haulout.cluster.store import Index, Listing, Store
from haulout.cluster.view import MARK, View
from haulout.core.holds import BEGUN_HOLDS_OF_NODE, Hold
from haulout.core.reason import Reason

CODE = "paused"
# On an object or a Node: the reason of the pause. The second one says who paused it and when; people who write the first
# one by hand leave it out.
ANNOTATION, AUTHOR_ANNOTATION = "haulout.dev/paused", "haulout.dev/paused-by"
LONGEST_REASON, LONGEST_AUTHOR = 1024, 256
BUDGET = "NodeDisruptionBudget"
MARKS = "budget-pause"


class Pause(msgspec.Struct, frozen=True):
    """A pause. `subject`: the object that carries it. `by`, `at`: who paused it and when, where that is known."""

    subject: Key
    reason: str
    by: str = ""
    at: datetime | None = None

    @property
    def text(self) -> str:
        """Return the pause as a sentence without its subject: `paused by ada since 2026-01-01 10:00 UTC: disk swap`."""
        author = f" by {self.by}" if self.by else ""
        since = f" since {self.at:%Y-%m-%d %H:%M} UTC" if self.at is not None else ""
        return f"paused{author}{since}: {self.reason or 'no reason is given'}"

    @property
    def command(self) -> str:
        """Return the command that ends the pause."""
        key = self.subject
        if key.kind == BUDGET:
            return f"haulout resume {BUDGET.lower()}/{key.name}"
        place = f"{key.namespace}/{key.name}" if key.namespace else key.name
        return f"haulout resume {key.kind.lower()}/{place}"


class BudgetPause(msgspec.Struct, frozen=True):
    """The pause of a NodeDisruptionBudget. `selector` None: it is invalid, so that the pause may be about any node."""

    selector: Selector | None
    pause: Pause

    @property
    def is_of_all(self) -> bool:
        return self.selector is None or self.selector == EVERYTHING

    def concerns(self, node: NodeRow | None) -> bool:
        """Whether the pause is about a node. One that does not exist could have any labels."""
        if self.selector is None or node is None:
            return True
        return self.selector.matches(node.labels) or bounds.LEFT_OUT in node.labels


class _Author(msgspec.Struct, frozen=True):
    """The annotation about who paused an object. It counts only for the reason that it was written with."""

    reason: str = ""
    by: str = ""
    at: datetime | None = None


_AUTHOR = msgspec.json.Decoder(_Author)


def author_annotation(reason: str, by: str, at: str) -> str:
    """Return the value of the annotation that says who paused an object, and when."""
    return msgspec.json.encode({"reason": reason, "by": by, "at": at}).decode()


def pause_of(row: ObjectRow) -> Pause | None:
    """Return the pause that an object carries as an annotation."""
    reason = row.annotations.get(ANNOTATION)
    if reason is None:
        return None
    try:
        author = _AUTHOR.decode(row.annotations.get(AUTHOR_ANNOTATION, "{}"))
    except (msgspec.DecodeError, RecursionError):
        author = _Author()
    if author.reason != reason:
        author = _Author()
    return Pause(
        row.key,
        bounds.text(reason, LONGEST_REASON),
        bounds.text(author.by, LONGEST_AUTHOR),
        bounds.instant(author.at),
    )


def budget_pause(key: Key, value: Any, selector: Selector | None) -> BudgetPause | None:
    """Return the pause in `spec.paused` of a budget. A value of any other form pauses as well."""
    if value is None:
        return None
    fields: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    reason, by, at = (fields.get(name) for name in ("reason", "by", "at"))
    pause = Pause(
        key,
        bounds.text(reason, LONGEST_REASON) if isinstance(reason, str) else "",
        bounds.text(by, LONGEST_AUTHOR) if isinstance(by, str) else "",
        _instant(at),
    )
    return BudgetPause(selector, pause)


def budget_mark(pause: BudgetPause) -> Value:
    """Return the row by which the decision about a budget publishes its pause."""
    return Value(key=pause_key(pause.pause.subject.name), value=pause)


def pause_key(budget: str) -> Key:
    return Key("", MARK, MARKS, budget)


def _instant(value: Any) -> datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return bounds.instant(datetime.fromisoformat(value))
    except ValueError:
        return None


@lru_cache(maxsize=256)
def paused_objects(kind: str) -> Index:
    """Return the index of the paused objects of a kind, by their keys, and all of them under True.

    A decision that reads it runs again when the object is paused or resumed, and not at each other change of it.
    """
    return Index(f"paused-{kind}", kind, _if_paused)


def _if_paused(row: Row) -> Iterable[Hashable]:
    return (row.key, True) if isinstance(row, ObjectRow) and ANNOTATION in row.annotations else ()


def _of_budgets(row: Row) -> tuple[bool, ...]:
    return (True,) if isinstance(row, Value) and isinstance(row.value, BudgetPause) else ()


BUDGET_PAUSES = Index("budget-pauses", MARK, _of_budgets)


def pause_of_object(key: Key, view: View) -> Pause | None:
    """Return the pause that an object carries itself.

    While its kind cannot be read, the last known object counts: no pause ends because it cannot be seen.
    """
    index = paused_objects(key.kind)
    read: Callable[..., list[ObjectRow]] = (
        view.rows if view.listing(key.kind, key.cluster) is Listing.LISTED else view.recall_rows
    )
    return next((pause for row in read(index, key, ObjectRow, key.cluster) if (pause := pause_of(row))), None)


def pause_of_node(node: Key, view: View) -> Pause | None:
    """Return what pauses a node: itself, a budget, or an object whose work on it has begun."""
    return pause_of_object(node, view) or _pause_by_budget(node, view) or _pause_by_holder(node, view)


def all_pauses(store: Store, kinds: Iterable[str]) -> Iterator[Pause]:
    """Yield the pauses of the home cluster, those of budgets first. `kinds`: those whose objects can be paused."""
    view = View(store)
    yield from (each.pause for each in sorted(pauses_of_budgets(view), key=lambda each: not each.is_of_all))
    for kind in dict.fromkeys(kinds):
        for row in view.recall_rows(paused_objects(kind), True, ObjectRow):
            if pause := pause_of(row):
                yield pause


def pause_of_all(view: View) -> Pause | None:
    """Return the pause of all nodes."""
    return next((each.pause for each in pauses_of_budgets(view) if each.is_of_all), None)


def reason_of(pause: Pause, subject: Key) -> Reason:
    """Return the reason why nothing disruptive is done about an object."""
    what = (
        f"the nodes of {name_for_people(pause.subject)} are"
        if pause.subject.kind == BUDGET
        else f"{name_for_people(pause.subject)} is"
    )
    return Reason(CODE, subject, f"{what} {pause.text}", act=f"end the pause: {pause.command}")


def name_for_people(key: Key) -> str:
    """Return the kind and name of a paused object, for people."""
    return f"{key.kind} {'/'.join(filter(None, (key.namespace, key.name)))}"


def pauses_of_budgets(view: View) -> list[BudgetPause]:
    """Return the pauses of all NodeDisruptionBudgets."""
    return [mark.value for mark in view.rows(BUDGET_PAUSES, True, Value) if isinstance(mark.value, BudgetPause)]


def _pause_by_budget(node: Key, view: View) -> Pause | None:
    """Return the pause of a budget that selects the node, in whichever cluster it is."""
    found = pauses_of_budgets(view)
    if not found:
        return None
    row = None
    if any(not each.is_of_all for each in found) and view.listing("Node", node.cluster) is Listing.LISTED:
        row = view.get(node, NodeRow)
    return next((each.pause for each in found if each.concerns(row)), None)


def _pause_by_holder(node: Key, view: View) -> Pause | None:
    # A paused object that only waits for the node stops no other object's work.
    for hold in view.rows(BEGUN_HOLDS_OF_NODE, node, Hold, node.cluster):
        if hold.claim.owner != node and (pause := pause_of_object(hold.claim.owner, view)):
            return pause
    return None
