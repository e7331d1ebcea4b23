"""The decisions of the nodemaintenance surface, and their sources."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep, within
from haulout.cluster.rows import ObjectRow, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Delete, Step
from haulout.core.cordon import ANNOTATION as CORDON_ANNOTATION
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration
from haulout.core.drain import requests
from haulout.core.drain.options import CLUSTER_API_NODE, POD_ANNOTATION
from haulout.core.expiry import EXPIRES, expiring
from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.surfaces.nodemaintenance import orphaned_leases, tainted_nodes
from haulout.surfaces.nodemaintenance.decide import decide
from haulout.surfaces.nodemaintenance.declare import ORIGINAL
from haulout.surfaces.nodemaintenance.logbook import LOGBOOK
from haulout.surfaces.nodemaintenance.options import Options, make_options
from haulout.surfaces.nodemaintenance.present import NODE_OBJECTS, PLANNED_OBJECTS, planned_options
from haulout.surfaces.nodemaintenance.sets import decide as sets
from haulout.surfaces.nodemaintenance.sets.present import rollout_of
from haulout.surfaces.nodemaintenance.sets.wire import KIND as SET
from haulout.surfaces.nodemaintenance.sets.wire import RESOURCE as SET_RESOURCE
from haulout.surfaces.nodemaintenance.situation import SURFACE, event
from haulout.surfaces.nodemaintenance.wire import KIND, RESOURCE, SEEN_ANNOTATION, MaintenanceRow


def _nodes(key: Key, store: Store) -> tuple[Key, ...]:
    row = store.row(key)
    return (node_key(row.node),) if isinstance(row, MaintenanceRow) and row.node else ()


def _is_served_with_others(view: View) -> bool:
    setting = view.config(SURFACE)
    return setting is not None and isinstance(setting.value, Options) and not setting.value.alone


def _end(row: ObjectRow, text: str) -> Step:
    """Return the step that deletes an expired NodeMaintenance or NodeMaintenanceSet."""
    return Delete(row.key, row.uid), event(row.key, "Expired", text)


DECIDERS = (
    Decider(SURFACE, KIND, expiring(decide, _end, _is_served_with_others), nodes=_nodes),
    # This decision makes no claims, so its failure must not keep other surfaces from nodes.
    Decider("nodemaintenance-leases", "Node", orphaned_leases.decide, nodes=lambda key, store: (), within=SURFACE),
    Decider("nodemaintenance-tainted", "Node", tainted_nodes.decide, within=SURFACE),
    Decider(
        "nodemaintenance-sets",
        SET,
        expiring(sets.decide, _end, _is_served_with_others),
        nodes=lambda key, store: (),
        within=SURFACE,
    ),
)
OWN_KINDS = (RESOURCE, requests.RESOURCE, SET_RESOURCE)
CONFIG_KEY = Key("", CONFIG, "", SURFACE)


def sources(options: Options) -> frozenset[Source]:
    more = {Source("", requests.KIND)} if options.by_request else set()
    # The original knows no sets, and its role does not allow to read them.
    more |= set() if options.alone else {Source("", SET, Keep(frozenset({PRIORITY_ANNOTATION, EXPIRES})))}
    return frozenset(more) | frozenset(
        {
            Source("", KIND, Keep(frozenset({PRIORITY_ANNOTATION, EXPIRES}))),
            Source("", "Node", Keep(frozenset({CORDON_ANNOTATION}) | CLUSTER_API_NODE)),
            Source("", "Pod", Keep(frozenset({POD_ANNOTATION}))),
            Source("", "PodDisruptionBudget"),
            Source("", "DaemonSet"),
            Source("", within("Lease", options.lease_namespace), Keep(frozenset({SEEN_ANNOTATION}))),
        }
    )


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


NODEMAINTENANCE = Declaration(
    name=SURFACE,
    deciders=DECIDERS,
    logbook=LOGBOOK,
    sources=lambda options: sources(options or Options()),
    options=make_options,
    rows=_rows,
    kinds=OWN_KINDS,
    drains=True,
    controllers=dict.fromkeys((decider.name for decider in DECIDERS), SURFACE),
    lease=ORIGINAL.lease,
    explains={KIND: SURFACE, SET: "nodemaintenance-sets"},
    rollouts={SET: rollout_of},
    node_objects=NODE_OBJECTS,
    planned_options=planned_options,
    planned_objects=PLANNED_OBJECTS,
    # EvictionRequests need an API that a forecast does not have.
    tells_of_drains=True,
)
