"""Strict reading of the spec of a NodeDisruptionBudget.

All problems are collected. A budget with problems refuses all claims on its nodes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from haulout.base.bounds import LEFT_OUT, ORDINARY, count, text
from haulout.base.selector import EVERYTHING, Selector, SelectorError, from_object
from haulout.base.windows import WindowError, Windows, window_from_object
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core.budgets.wire import NodeBudgetRow
from haulout.core.pause import BudgetPause, budget_pause
from haulout.core.surface_names import names

# The problems that are reported. The first ones suffice to begin with, and they go into a status and events.
MOST_PROBLEMS, LONGEST_PROBLEM = 10, 300
_PERCENT = re.compile("(100|[1-9]?[0-9])%")


class Share(msgspec.Struct, frozen=True):
    """A percentage of nodes."""

    percent: int

    def of(self, total: int) -> int:
        """Return this percentage of a total, rounded down.

        More than 0% is at least 1: otherwise no node of a small pool could ever be maintained.
        """
        return max(total * self.percent // 100, 1 if self.percent else 0)


class NodeNames(msgspec.Struct, frozen=True):
    """Nodes chosen by name, because no label marks them, such as those that run etcd."""

    names: frozenset[str]


Nodes = Selector | NodeNames


def selects(nodes: Nodes, row: NodeRow) -> bool:
    """Whether a budget's choice of nodes includes this node."""
    return row.key.name in nodes.names if isinstance(nodes, NodeNames) else nodes.matches(row.labels)


class Budget(msgspec.Struct, frozen=True):
    """A rule on how many nodes may be out of service: a NodeDisruptionBudget with its spec read, or etcd's quorum.

    `selector`: the nodes that it is about. None: the selector is invalid, so that the budget may be about any node.
    `most`: how many may be out of service. None: any number.
    `surfaces`: the surfaces whose claims it can refuse. None: all.
    `problems`: what is wrong with the spec. The other fields hold what could be read.
    `paused`: the pause of its nodes, which stops every surface.
    """

    key: Key
    selector: Nodes | None = EVERYTHING
    most: int | Share | None = None
    topology_key: str = ""
    most_domains: int = 1
    windows: Windows = Windows()
    surfaces: frozenset[str] | None = None
    problems: tuple[str, ...] = ()
    paused: BudgetPause | None = None

    @property
    def name(self) -> str:
        return self.key.name

    def concerns(self, node: NodeRow) -> bool:
        return self.selector is None or selects(self.selector, node)

    def refuses(self, surface: str) -> bool:
        return self.surfaces is None or surface in self.surfaces


def read_budget(row: NodeBudgetRow) -> Budget:
    reader = _Reader()
    spec = reader.mapping(row.spec, "spec")
    topology_key = reader.label(spec.get("topologyKey"), "spec.topologyKey")
    selector = reader.selector(spec.get("selector"), "spec.selector")
    return Budget(
        key=row.key,
        selector=selector,
        most=reader.most(spec.get("maxUnavailable"), "spec.maxUnavailable"),
        topology_key=topology_key,
        most_domains=reader.domains(spec.get("maxDomains"), "spec.maxDomains", bool(topology_key)),
        windows=reader.windows(spec.get("windows"), "spec.windows"),
        surfaces=reader.surfaces(spec.get("surfaces"), "spec.surfaces"),
        paused=budget_pause(row.key, spec.get("paused"), selector),
        problems=tuple([text(problem, LONGEST_PROBLEM) for problem in reader.problems[:MOST_PROBLEMS]]),
    )


class _Reader:
    def __init__(self) -> None:
        self.problems: list[str] = []

    def mapping(self, value: Any, path: str) -> Mapping[str, Any]:
        if isinstance(value, Mapping):
            return value
        if value == LEFT_OUT:
            self.problems.append(f"{path}: it is too large (at most {ORDINARY.characters // 1024} KiB of text)")
        elif value is not None:
            self.problems.append(f"{path}: must be an object")
        return {}

    def selector(self, value: Any, path: str) -> Selector | None:
        try:
            return EVERYTHING if value is None else from_object(value, path)
        except SelectorError as error:
            self.problems.append(str(error))
            return None

    def most(self, value: Any, path: str) -> int | Share | None:
        match value:
            case None:
                return None
            case int() if not isinstance(value, bool) and value >= 0:
                return count(value)
            case str() if found := _PERCENT.fullmatch(value):
                return Share(int(found[1]))
            case _:
                self.problems.append(f"{path}: {_quoted(value)} is neither a number nor a percentage (3 or 10%)")
                return 0

    def label(self, value: Any, path: str) -> str:
        if value is None:
            return ""
        try:
            return from_object({"matchExpressions": [{"key": value, "operator": "Exists"}]}).requirements[0].key
        except SelectorError:
            self.problems.append(f"{path}: {_quoted(value)} is no label (such as topology.kubernetes.io/zone)")
            return ""

    def domains(self, value: Any, path: str, has_topology: bool) -> int:
        if value is None:
            return 1
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            self.problems.append(f"{path}: {_quoted(value)} is no number of at least 1")
            return 1
        if not has_topology:
            self.problems.append(f"{path}: needs spec.topologyKey, which is not set")
        return count(value)

    def windows(self, value: Any, path: str) -> Windows:
        if value is None:
            return Windows()
        if not isinstance(value, list | tuple):
            self.problems.append(f"{path}: must be a list")
            return Windows()
        found = []
        for number, each in enumerate(value):
            try:
                found.append(window_from_object(each, f"{path}[{number}]"))
            except WindowError as error:
                self.problems.append(str(error))
        return Windows(tuple(found))

    def surfaces(self, value: Any, path: str) -> frozenset[str] | None:
        if value is None:
            return None
        if not isinstance(value, list | tuple) or not value:
            self.problems.append(f"{path}: must be a list with at least one surface (leave it out for all)")
            return None
        for name in value:
            if name not in names():
                self.problems.append(f"{path}: there is no surface {_quoted(name)} (there are: {', '.join(names())})")
                return None
        return frozenset(value)


def _quoted(value: Any) -> str:
    shown = str(value)
    return shown if len(shown) <= 60 else f"{shown[:60]}..."
