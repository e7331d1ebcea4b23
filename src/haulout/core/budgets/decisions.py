"""NodeDisruptionBudgets as a part of the kernel that is declared like a surface. They claim no node themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from haulout.cluster.key import Key
from haulout.core.budgets.budget import read_budget
from haulout.core.budgets.quorum import KEEPER
from haulout.core.budgets.rule import NAME, RULER
from haulout.core.budgets.status import TELLER
from haulout.core.budgets.wire import KIND, NODE_BUDGETS, NodeBudgetRow
from haulout.core.decision import Source
from haulout.core.declaration import Declaration
from haulout.core.planned import Json, Schedule


def _sources(options: Any) -> frozenset[Source]:
    return frozenset({Source("", KIND)})


def _schedules(options: Any, objects: Iterable[Json]) -> Iterator[Schedule]:
    """Yield when each budget with windows is open."""
    for body in objects:
        if body.get("kind") == KIND:
            name = str(body["metadata"]["name"])
            windows = read_budget(NodeBudgetRow(key=Key("", KIND, "", name), spec=body.get("spec"))).windows
            if windows.all:
                yield Schedule(f"budget {name}", windows.is_open, windows.changes_at)


BUDGETS = Declaration(
    name=NAME,
    deciders=(RULER, TELLER, KEEPER),
    sources=_sources,
    kinds=(NODE_BUDGETS,),
    claims=False,
    planned_schedules=_schedules,
    controllers={TELLER.name: RULER.name, KEEPER.name: RULER.name},
)
