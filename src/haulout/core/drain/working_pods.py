"""The pods by which surfaces work on a node: no drain evicts them while their surface has the turn there."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from haulout.base.selector import Selector
from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow, Row, Value
from haulout.cluster.view import CONFIG, View
from haulout.core import claimants
from haulout.core.holds import HOLDS_OF_NODE, Hold, Want

NAME = "working-pods"
_KEY = Key("", CONFIG, "", NAME)


class WorkingPods(msgspec.Struct, frozen=True):
    """The pods by which one surface works on nodes. `decisions`: the decisions that claim nodes for it."""

    decisions: frozenset[str]
    selector: Selector


class AllWorkingPods(msgspec.Struct, frozen=True):
    """The pods by which all served surfaces work on nodes."""

    kinds: tuple[WorkingPods, ...] = ()


def row_of(kinds: Iterable[WorkingPods]) -> Value:
    """Return the configuration row by which drains recognize the working pods of all served surfaces."""
    return Value(key=_KEY, value=AllWorkingPods(tuple(kinds)))


def without_working(view: View, pods: list[PodRow], node: Key) -> list[PodRow]:
    """Return the pods that drains may evict.

    A surface that may drain before its turn would evict the pods of the surface that has the turn, which would create
    them again. After a start it is not known which surface has the turn. Until then, the pods of every surface that may
    have it stay.
    """
    known = view.get(_KEY, Value)
    value = known.value if known is not None else None
    kinds = value.kinds if isinstance(value, AllWorkingPods) else ()
    suspects = [kind for kind in kinds if any(kind.selector.matches(pod.labels) for pod in pods)]
    if not suspects:
        return pods
    working = {
        hold.surface
        for hold in view.rows(HOLDS_OF_NODE, node, Row, node.cluster)
        if isinstance(hold, Hold) and hold.claim.begun and Want.EXCLUSIVE in hold.claim.wants
    }
    busy = [
        kind.selector
        for kind in suspects
        if kind.decisions & working or claimants.may_claim(view, kind.decisions, node.cluster)
    ]
    return [pod for pod in pods if not any(selector.matches(pod.labels) for selector in busy)]
