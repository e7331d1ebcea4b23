"""Budgets in one line, and a second opinion on them that shares no code with the arbiter."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cached_property
from typing import Any

from haulout.base.windows import Windows, window_from_object
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import HOLD
from haulout.core.budgets.wire import KIND, NodeBudgetRow
from haulout.core.holds import Grant, Hold, grant_key

MOMENT = timedelta(milliseconds=2)


def budget_key(name: str) -> Key:
    return Key("", KIND, "", name)


def budget(name: str, /, **spec: Any) -> NodeBudgetRow:
    return NodeBudgetRow(key=budget_key(name), spec=spec, generation=1)


def selects(spec: dict[str, Any], node: NodeRow) -> bool:
    """Whether a budget selects a node. Only exact labels are understood, which is all that these tests use."""
    labels = (spec.get("selector") or {}).get("matchLabels", {})
    return all(node.labels.get(name) == value for name, value in labels.items())


def allowed(spec: dict[str, Any], nodes: list[NodeRow]) -> int | None:
    most = spec.get("maxUnavailable")
    if isinstance(most, str):
        percent = int(most.removesuffix("%"))
        return max(1, sum(selects(spec, node) for node in nodes) * percent // 100) if percent else 0
    return most


def is_open(spec: dict[str, Any], now: datetime) -> bool | None:
    """Whether the windows of a budget are open; None if they open or close at this very moment."""
    windows = Windows(tuple(window_from_object(each, "w") for each in spec.get("windows", ())))
    states = {windows.is_open(at) for at in (now - MOMENT, now, now + MOMENT)}
    return states.pop() if len(states) == 1 else None


class Opinion:
    """The state of budgets, nodes and holds, worked out one by one from a store, to compare the arbiter with."""

    def __init__(self, store: Store, broken: set[str]) -> None:
        self.store, self.broken = store, broken
        self.nodes = [row for key in store.keys("", "Node") if isinstance(row := store.row(key), NodeRow)]
        self.holds = [row for key in store.keys("", HOLD) if isinstance(row := store.row(key), Hold)]
        rows = [store.row(key) for key in store.keys("", KIND)]
        self.budgets = {row.key.name: row.spec for row in rows if isinstance(row, NodeBudgetRow)}

    def granted(self, hold: Hold) -> bool:
        grant = self.store.row(grant_key(hold.key))
        return hold.claim.disrupts and (hold.claim.begun or (isinstance(grant, Grant) and grant.granted))

    def held(self, node: Key) -> bool:
        return any(self.granted(hold) for hold in self.holds if hold.claim.node == node)

    @cached_property
    def out(self) -> set[Key]:
        """The nodes that are out of service, on their way out, or granted to a surface."""
        rows = [(node.key, (node, self.store.expects(node.key))) for node in self.nodes]
        seen = {
            key
            for key, both in rows
            for row in both
            if isinstance(row, NodeRow) and (row.unschedulable or not row.ready)
        }
        return seen | {node.key for node in self.nodes if self.held(node.key)}

    def objections(self, hold: Hold, now: datetime, *, joins: bool) -> set[str]:
        """Return why this hold must not begin now, as reason codes; `?` for a window that changes at this very moment."""
        node = self.store.row(hold.claim.node)
        found = {"budgets-unreadable"} if self.store.listing("", KIND) is Listing.UNREADABLE else set()
        assert isinstance(node, NodeRow)
        for name, spec in self.budgets.items():
            if name in self.broken:
                found |= {"budget-invalid"} if name != "pick" or selects(spec, node) else set()
            elif selects(spec, node) and hold.surface in spec.get("surfaces", [hold.surface]):
                found |= self._objections(spec, node, now, joins=joins)
        return found

    def _objections(self, spec: dict[str, Any], node: NodeRow, now: datetime, *, joins: bool) -> set[str]:
        state = is_open(spec, now)
        found = {"window-closed"} if state is False else {"?"} if state is None else set()
        if joins:
            return found
        out = {each.key: each for each in self.nodes if each.key in self.out and selects(spec, each)}
        most = allowed(spec, self.nodes)
        if most is not None and len({*out, node.key}) > most:
            found.add("budget-full")
        if label := spec.get("topologyKey"):
            open_domains = {each.labels.get(label) or each.key for each in out.values()}
            domain = node.labels.get(label) or node.key
            if domain not in open_domains and len(open_domains) >= spec.get("maxDomains", 1):
                found.add("domain-taken")
        return found
