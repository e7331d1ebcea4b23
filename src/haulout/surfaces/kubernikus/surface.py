"""Kubernikus maintenance as the process sees it: what it watches, and which decisions it runs."""

from __future__ import annotations

from haulout.cluster.project import Keep
from haulout.core import cordon
from haulout.core.decision import Decider, Source
from haulout.core.drain.options import CLUSTER_API_NODE, POD_ANNOTATION
from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.surfaces.kubernikus.decide import decide
from haulout.surfaces.kubernikus.wire import NAME

DECIDER = Decider(NAME, "Node", decide)
DECIDERS = (DECIDER,)


def sources() -> frozenset[Source]:
    """Return the kinds that it watches in the home cluster."""
    return frozenset(
        {
            Source("", "Node", Keep(frozenset({cordon.ANNOTATION, PRIORITY_ANNOTATION}) | CLUSTER_API_NODE)),
            Source("", "Pod", Keep(frozenset({POD_ANNOTATION}))),
            Source("", "PodDisruptionBudget"),
        }
    )
