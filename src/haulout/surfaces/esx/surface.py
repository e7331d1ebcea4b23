"""ESX maintenance as the process sees it: what it watches, and which decisions it runs."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core import cordon
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration
from haulout.core.drain.options import CLUSTER_API_NODE, POD_ANNOTATION
from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.surfaces.esx.decide import decide
from haulout.surfaces.esx.declare import LEASE
from haulout.surfaces.esx.options import Options
from haulout.surfaces.esx.wire import INITIATED_ANNOTATION, NAME

DECIDER = Decider(NAME, "Node", decide)
DECIDERS = (DECIDER,)


def sources() -> frozenset[Source]:
    """Return the kinds that it watches in the home cluster."""
    kept = frozenset({cordon.ANNOTATION, PRIORITY_ANNOTATION, INITIATED_ANNOTATION}) | CLUSTER_API_NODE
    return frozenset(
        {
            Source("", "Node", Keep(kept)),
            Source("", "Pod", Keep(frozenset({POD_ANNOTATION}))),
            Source("", "PodDisruptionBudget"),
        }
    )


CONFIG_KEY = Key("", CONFIG, "", NAME)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


ESX = Declaration(
    name=NAME,
    deciders=DECIDERS,
    sources=lambda options: sources(),
    rows=_rows,
    drains=True,
    within="profiles",
    lease=LEASE,
    explains={"Node": NAME},
)
