"""Puts NodeDisruptionBudgets into a process. Where they are not installed there are none."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.app.parts import Part
from haulout.core.budgets.declare import BUDGETS
from haulout.core.budgets.status import samples
from haulout.core.budgets.wire import KIND
from haulout.runtime.metrics import Sample


class Budgets(Part):
    declaration = BUDGETS

    def samples(self) -> Iterable[Sample]:
        return samples(list(self.around.store.table("", KIND).rows.values()))
