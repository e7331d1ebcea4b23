"""NodeDisruptionBudgets as a part of the kernel that is declared like a surface. They claim no node themselves."""

from __future__ import annotations

from typing import Any

from haulout.core.budgets.quorum import KEEPER
from haulout.core.budgets.rule import NAME, RULER
from haulout.core.budgets.status import TELLER
from haulout.core.budgets.wire import KIND, NODE_BUDGETS
from haulout.core.decision import Source
from haulout.core.declaration import Declaration


def _sources(options: Any) -> frozenset[Source]:
    return frozenset({Source("", KIND)})


BUDGETS = Declaration(
    name=NAME,
    deciders=(RULER, TELLER, KEEPER),
    sources=_sources,
    kinds=(NODE_BUDGETS,),
    claims=False,
    controllers={TELLER.name: RULER.name, KEEPER.name: RULER.name},
)
