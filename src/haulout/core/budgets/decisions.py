"""The decisions about NodeDisruptionBudgets and etcd's quorum, declared like those of a surface. They claim no node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Row
from haulout.core.budgets.budget import read_budget
from haulout.core.budgets.quorum import KEEPER, quorum_row
from haulout.core.budgets.rule import NAME, RULER
from haulout.core.budgets.status import TELLER
from haulout.core.budgets.wire import KIND, NODE_BUDGETS, NodeBudgetRow
from haulout.core.cordon import CORDON_REASON
from haulout.core.decision import Source
from haulout.core.declaration import Declaration
from haulout.core.planned import Json, Schedule


class BudgetOptions(msgspec.Struct, frozen=True):
    """The options of the kernel's own limits.

    `quorum`: keep the quorum of etcd, so that fewer than half of its members are out of service at a time.
    """

    quorum: bool = False


def _sources(options: BudgetOptions | None) -> frozenset[Source]:
    # Pods show which nodes run etcd.
    pods = {Source("", "Pod")} if options is not None and options.quorum else set()
    # The reason of a person's cordon is shown by status.
    return frozenset({Source("", KIND), Source("", "Node", Keep(frozenset({CORDON_REASON}))), *pods})


def _rows(options: BudgetOptions) -> Iterator[Row]:
    yield quorum_row(kept=options.quorum)


def _schedules(options: Any, objects: Iterable[Json]) -> Iterator[Schedule]:
    """Yield the schedule of each budget that has windows."""
    for body in objects:
        if body.get("kind") == KIND:
            name = str(body["metadata"]["name"])
            windows = read_budget(NodeBudgetRow(key=Key("", KIND, "", name), spec=body.get("spec"))).windows
            if windows.all:
                yield Schedule(f"budget {name}", windows.is_open, windows.changes_at, windows.zone)


BUDGETS = Declaration(
    name=NAME,
    deciders=(RULER, TELLER, KEEPER),
    sources=_sources,
    rows=_rows,
    kinds=(NODE_BUDGETS,),
    claims=False,
    planned_schedules=_schedules,
    controllers={TELLER.name: RULER.name, KEEPER.name: RULER.name},
)
