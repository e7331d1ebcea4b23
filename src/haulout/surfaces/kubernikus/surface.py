"""The decision of the kubernikus surface, and its sources."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, FactDemand, View
from haulout.core.action import Step, Tell
from haulout.core.decision import Decider
from haulout.core.declaration import Declaration, ServerVersion
from haulout.core.emptying import sources
from haulout.core.expiry import EXPIRES, expiring, withdrawal
from haulout.surfaces.kubernikus.decide import decide
from haulout.surfaces.kubernikus.declare import LEASE
from haulout.surfaces.kubernikus.logbook import LOGBOOK
from haulout.surfaces.kubernikus.options import SHORTEST_FOR, Options, make_options
from haulout.surfaces.kubernikus.wire import BEGUN_AT, DELETE_LABEL, NAME, REPORTER, UPDATE_LABEL, VERSION_PROBE


def _is_served_with_others(view: View) -> bool:
    setting = view.config(NAME)
    return setting is not None and isinstance(setting.value, Options) and not setting.value.alone


def _end(node: NodeRow, text: str) -> Step:
    """Return the step that withdraws the deletion of an expired Node. The node is given back when the label is gone."""
    if DELETE_LABEL not in node.labels:
        return ()
    return (*withdrawal(node, DELETE_LABEL), Tell(node.key, "Expired", "Expired", text, REPORTER))


DECIDER = Decider(NAME, "Node", expiring(decide, _end, _is_served_with_others))
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
    sources=lambda options: sources(BEGUN_AT, EXPIRES),
    rows=_rows,
    drains=True,
    records=(UPDATE_LABEL,),
    within="profiles",
    lease=LEASE,
    explains={"Node": NAME},
    options=make_options,
    files=lambda settings: (settings.config,),
    tells_of_drains=True,
    empties=lambda labels: labels.get(DELETE_LABEL) == "true",
    facts=_facts,
)
