"""The pauses of a fleet, as `status` shows them in its first lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

import msgspec

from haulout.base.spans import span_text
from haulout.cluster.store import Store
from haulout.cluster.view import View
from haulout.core.declaration import Declaration
from haulout.core.pause import BudgetPause, all_pauses, name_for_people, pauses_of_budgets


class PauseState(msgspec.Struct, frozen=True):
    """A pause. `what`: the nodes or the object that it stops. `by`, `since`: who paused it and when, where that is known.

    `act`: the command that ends it.
    """

    what: str
    reason: str
    by: str = ""
    since: datetime | None = None
    act: str = ""


def pauses_in(store: Store, declarations: Sequence[Declaration]) -> tuple[PauseState, ...]:
    """Return all pauses of the home cluster, those of many nodes first."""
    whats = {each.pause.subject: _of_budget(each) for each in pauses_of_budgets(View(store))}
    kinds = ("Node", *(kind for each in declarations for kind in each.explains))
    return tuple(
        PauseState(whats.get(each.subject, name_for_people(each.subject)), each.reason, each.by, each.at, each.command)
        for each in all_pauses(store, kinds)
    )


def pause_lines(pauses: Iterable[PauseState], now: datetime) -> Iterator[str]:
    """Yield a line for each pause."""
    for each in pauses:
        author = f" by {each.by}" if each.by else ""
        since = f" since {each.since:%Y-%m-%d %H:%M} UTC ({span_text(now - each.since)})" if each.since else ""
        yield f"PAUSED: {each.what}{author}{since}: {each.reason or 'no reason is given'} (end it: {each.act})"


def _of_budget(found: BudgetPause) -> str:
    nodes = "all nodes" if found.is_of_all else f"nodes with {found.selector}"
    return f"{nodes} ({name_for_people(found.pause.subject)})"
