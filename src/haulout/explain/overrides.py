"""The overrides of a fleet, as `status` shows them beside its pauses, and those of one node, as reasons."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

import msgspec

from haulout.base.spans import span_text
from haulout.cluster.key import Key
from haulout.cluster.rows import ObjectRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import NotListed, View
from haulout.core.budgets.counts import RULING, RULINGS, Ruling
from haulout.core.budgets.cover import cover_of
from haulout.core.override import GUARDED, passed_override, read_override, why_without_effect
from haulout.core.pause import name_for_people
from haulout.core.reason import Reason
from haulout.core.steering import OVERRIDE


class OverrideState(msgspec.Struct, frozen=True, rename="camel"):
    """An override that has not ended.

    `object`: the kind and name of the object that has it. `limit`: the budget that it names. `no_effect`: why it lets the
    object pass no budget; empty if it does.
    """

    object: str
    limit: str
    reason: str
    until: datetime
    no_effect: str = ""


def overrides_in(store: Store, now: datetime) -> tuple[OverrideState, ...]:
    """Return the overrides of the home cluster that have not ended, the first to end first."""
    view = View(store, explaining=True)
    marks = (mark.value for mark in view.recall_rows(RULINGS, RULING, Value))
    budgets = tuple(mark.budget.key for mark in marks if isinstance(mark, Ruling))
    rows = (row for kind in sorted(GUARDED) for row in store.rows("", kind))
    found = [
        OverrideState(
            name_for_people(row.key),
            override.limit,
            " ".join(override.reason.split()),
            override.until,
            why_without_effect(row.key, budgets, view, now),
        )
        for row in rows
        if isinstance(row, ObjectRow) and OVERRIDE in row.annotations
        if not isinstance(override := read_override(row.annotations[OVERRIDE]), str) and now < override.until
    ]
    return tuple(sorted(found, key=lambda each: (each.until, each.object)))


def override_lines(overrides: Iterable[OverrideState], now: datetime) -> Iterator[str]:
    """Yield a line for each override."""
    for each in overrides:
        if each.no_effect:
            yield f"OVERRIDE WITHOUT EFFECT: {each.object}, budget {each.limit}: {each.no_effect}"
        else:
            until = f"{each.until:%Y-%m-%d %H:%M} UTC (in {span_text(each.until - now)})"
            yield f"OVERRIDE: {each.object} may pass budget {each.limit} until {until}: {each.reason}"


def override_reasons(store: Store, node: Key, owners: Iterable[Key], now: datetime) -> Iterator[Reason]:
    """Yield the override of each of these objects that concern a node: until when it counts, or why it does not."""
    view = View(store, explaining=True)
    try:
        cover = cover_of(node, view)
    except NotListed:
        return
    budgets = cover.budgets if cover is not None else ()
    for owner in dict.fromkeys(owners):
        name = name_for_people(owner)
        if why := why_without_effect(owner, budgets, view, now):
            yield Reason("override-without-effect", owner, f"the override of {name} has no effect: {why}")
        elif (found := passed_override(owner, budgets, view, now)) is not None:
            text = f"{name} may pass budget {found.limit}: {found.reason}"
            yield Reason("override-in-force", owner, text, found.until)
