"""The surface as a command puts it into a kernel: what it watches, whom it asks."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.decision import Decider
from haulout.surfaces.byhand.decide import SURFACE, Wish, decide

DECIDERS = (Decider(SURFACE, "Node", decide),)
KINDS = ("Node", "Pod", "PodDisruptionBudget", "DaemonSet")


def config_row(wish: Wish) -> Value:
    return Value(key=Key("", CONFIG, "", SURFACE), value=wish)
