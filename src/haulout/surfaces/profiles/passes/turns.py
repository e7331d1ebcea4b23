"""Objects that a transition has taken, as stagger does with Leases, remembered until the transition is stored."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.view import MARK, View
from haulout.surfaces.profiles.passes.result import Judged, Result

TURNS = "turns"


def turns_of(view: View, result: Result, number: int) -> Mapping[Key, datetime]:
    """Return what the last pass has taken for a transition that was not made, for want of a grant for example."""
    mark = view.recall(_key(result, number), Value)
    return dict(mark.value) if mark is not None and isinstance(mark.value, tuple) else {}


def turns_mark(result: Result, number: int, turns: Mapping[Key, datetime]) -> tuple[Row, ...]:
    """Return the row that remembers what was taken, until the node shows that the transition was made.

    It is lost by a restart, and not made where triggers fail: what was taken then runs out, as the original has it.
    """
    return (Value(key=_key(result, number), value=tuple(turns.items())),) if turns else ()


def kept_turns(result: Result, judged: tuple[Judged, ...]) -> tuple[Row, ...]:
    """Return the rows of all transitions that pass, so that this pass forgets none of them."""
    return tuple(row for each in judged if each.passed for row in turns_mark(result, each.number, each.turns))


def _key(result: Result, number: int) -> Key:
    node = result.node.key
    return Key(node.cluster, MARK, TURNS, f"{node.name}/{result.profile}/{number}")
