"""The decision of the esx surface, and its sources."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG
from haulout.core.decision import Decider
from haulout.core.declaration import Declaration, ServerVersion
from haulout.core.emptying import sources
from haulout.surfaces.esx.decide import decide
from haulout.surfaces.esx.declare import LEASE
from haulout.surfaces.esx.logbook import LOGBOOK
from haulout.surfaces.esx.options import Options, make_options
from haulout.surfaces.esx.vcenter import last_seen
from haulout.surfaces.esx.wire import INITIATED_ANNOTATION, INITIATED_AT, NAME, OK_LABEL, STATE_LABEL, VERSION_LABEL

DECIDER = Decider(NAME, "Node", decide)
DECIDERS = (DECIDER,)


CONFIG_KEY = Key("", CONFIG, "", NAME)


def _facts(store: Store, version: ServerVersion) -> Iterator[Value]:
    """Yield the states of hosts according to the labels of their nodes."""
    for row in store.table("", "Node").rows.values():
        if isinstance(row, NodeRow) and (seen := last_seen(row)):
            demand, state = seen
            yield Value(key=demand.key, value=state, state="stale")


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


ESX = Declaration(
    name=NAME,
    deciders=DECIDERS,
    logbook=LOGBOOK,
    sources=lambda options: sources(INITIATED_ANNOTATION, INITIATED_AT),
    rows=_rows,
    drains=True,
    records=(STATE_LABEL, VERSION_LABEL),
    within="profiles",
    lease=LEASE,
    explains={"Node": NAME},
    options=make_options,
    files=lambda settings: (settings.config,),
    needs_files=True,
    tells_of_drains=True,
    empties=lambda labels: labels.get(OK_LABEL) == "true",
    facts=_facts,
)
