"""The declaration of draining by hand as a surface, for a kernel that serves one command."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration
from haulout.surfaces.byhand.decide import SURFACE, Wish, decide

KINDS = ("Node", "Pod", "PodDisruptionBudget", "DaemonSet")


def _rows(wish: Wish) -> Iterator[Value]:
    yield Value(key=Key("", CONFIG, "", SURFACE), value=wish)


BYHAND = Declaration(
    name=SURFACE,
    deciders=(Decider(SURFACE, "Node", decide),),
    sources=lambda wish: frozenset(Source("", kind) for kind in KINDS),
    rows=_rows,
    drains=True,
)
