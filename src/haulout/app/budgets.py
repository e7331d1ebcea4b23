"""Puts NodeDisruptionBudgets into a process. Where they are not installed there are none."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from haulout.app.parts import Part
from haulout.core.budgets.rule import NAME, RULER
from haulout.core.budgets.status import TELLER, samples
from haulout.core.budgets.wire import KIND, NODE_BUDGETS
from haulout.core.decision import Source
from haulout.runtime.metrics import Sample


class Budgets(Part):
    claims = False
    name = NAME
    deciders = (RULER, TELLER)
    controllers: ClassVar = {TELLER.name: RULER.name}
    kinds = (NODE_BUDGETS,)

    def watches(self) -> frozenset[Source]:
        return frozenset({Source("", KIND)})

    def samples(self) -> Iterable[Sample]:
        return samples(list(self.around.store.table("", KIND).rows.values()))
