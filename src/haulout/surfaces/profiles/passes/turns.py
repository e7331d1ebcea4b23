"""The objects that a transition has taken, such as the Leases of stagger checks, remembered until it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import Row, Value
from haulout.cluster.view import MARK, View
from haulout.surfaces.profiles.passes.result import Judged, Result

TURNS = "turns"


def turns_of(view: View, result: Result, number: int) -> Mapping[Key, datetime]:
    """Return the objects that an earlier pass took for a transition that was not made, for example without a grant."""
    mark = view.recall(_key(result, number), Value)
    return dict(mark.value) if mark is not None and isinstance(mark.value, tuple) else {}


def turns_mark(result: Result, number: int, turns: Mapping[Key, datetime]) -> tuple[Row, ...]:
    """Return the mark that remembers the objects taken for a transition, until the node shows that it was made.

    A restart loses it, and it is not made if triggers fail. The objects then expire, as in the original.
    """
    return (Value(key=_key(result, number), value=tuple(turns.items())),) if turns else ()


def kept_turns(result: Result, judged: Sequence[Judged]) -> tuple[Row, ...]:
    """Return the marks of all transitions that pass, so that none of them is forgotten."""
    kept = [each for each in judged if each.passed and each.turns]
    return tuple(row for each in kept for row in turns_mark(result, each.number, each.turns)) if kept else ()


def _key(result: Result, number: int) -> Key:
    node = result.node.key
    return Key(node.cluster, MARK, TURNS, f"{node.name}/{result.profile}/{number}")
