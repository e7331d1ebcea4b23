"""Puts NodeDisruptionBudgets into a process. Where they are not installed there are none; unreadable ones refuse all."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from haulout.app.parts import Part, Surroundings
from haulout.cluster.store import Listing
from haulout.core.budgets.decisions import BUDGETS
from haulout.core.budgets.rule import NAME
from haulout.core.budgets.status import samples
from haulout.core.budgets.wire import KIND
from haulout.runtime.metrics import Sample

log = logging.getLogger(__name__)

UNREADABLE, READABLE = "BudgetsUnreadable", "BudgetsReadable"


class Budgets(Part):
    """NodeDisruptionBudgets as a part of the process: it serves their metrics and reports when they cannot be read."""

    declaration = BUDGETS

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._unreadable = ""

    def look(self, *, closely: bool = False) -> None:
        """Say in the log and by an event that nothing new is disrupted, as long as budgets cannot be read."""
        table = self.around.store.table("", KIND)
        why = (table.why or "no answer") if table.listing is Listing.UNREADABLE else ""
        if why == self._unreadable:
            return
        self._unreadable = why
        if why:
            log.error("budgets cannot be read, nothing new is disrupted", extra={"kind": KIND, "error": why})
            note = f"NodeDisruptionBudgets cannot be read, so that nothing new is disrupted: {why}"
            self.around.troubles.invalid(NAME, note, UNREADABLE)
        else:
            log.info("budgets can be read again", extra={"kind": KIND})
            self.around.troubles.valid(NAME, "NodeDisruptionBudgets can be read again", READABLE)

    def samples(self) -> Iterable[Sample]:
        return samples(list(self.around.store.table("", KIND).rows.values()))
