"""The decision of the kubernikus surface, and its sources."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, FactDemand
from haulout.core.decision import Decider
from haulout.core.declaration import Declaration, ServerVersion
from haulout.core.emptying import sources
from haulout.surfaces.kubernikus.decide import decide
from haulout.surfaces.kubernikus.declare import LEASE
from haulout.surfaces.kubernikus.logbook import LOGBOOK
from haulout.surfaces.kubernikus.options import SHORTEST_FOR, Options, served
from haulout.surfaces.kubernikus.wire import BEGUN_AT, DELETE_LABEL, NAME, UPDATE_LABEL, VERSION_PROBE

DECIDER = Decider(NAME, "Node", decide)
DECIDERS = (DECIDER,)


CONFIG_KEY = Key("", CONFIG, "", NAME)


def _facts(store: Store, version: ServerVersion) -> Iterator[Value]:
    """Yield the version of the API server, or the error of asking for it."""
    key = FactDemand(VERSION_PROBE, "", SHORTEST_FOR).key
    if version.error:
        error = f"failed to ask the API server for its version: {version.error}"
        yield Value(key=key, error=error, state="stale")
    else:
        yield Value(key=key, value=version.text, state="fresh")


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


KUBERNIKUS = Declaration(
    name=NAME,
    deciders=DECIDERS,
    logbook=LOGBOOK,
    sources=lambda options: sources(BEGUN_AT),
    rows=_rows,
    drains=True,
    records=(UPDATE_LABEL,),
    within="profiles",
    lease=LEASE,
    explains={"Node": NAME},
    options=served,
    files=lambda settings: (settings.config,),
    tells_of_drains=True,
    empties=lambda labels: labels.get(DELETE_LABEL) == "true",
    facts=_facts,
)
