"""Whether a node may be worked on, by its taints and by the label with which people exclude it."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.rows import NodeRow, Taint
from haulout.model.pod import Toleration
from haulout.surfaces.packages.wire import IGNORE

CORDONED = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")


def is_ignored(node: NodeRow) -> bool:
    return node.labels.get(IGNORE) == "true"


def is_tolerated(node: NodeRow, tolerations: Iterable[Toleration]) -> bool:
    """Whether every taint of the node is tolerated, whatever the taint's effect."""
    known = tuple(tolerations)
    return all(any(_tolerates(each, taint) for each in known) for taint in node.taints)


def toleration_of(taint: Taint) -> Toleration:
    return Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    # A toleration without a key is valid only with `Exists`, and then it tolerates every taint.
    return bool(toleration.key) and toleration.operator in ("", "Equal") and toleration.value == taint.value
