"""The decisions of the clusterapi surface, and their sources."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key
from haulout.cluster.rows import Connection, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration
from haulout.surfaces.clusterapi import cleanup, decide, hosts, orphaned_nodes
from haulout.surfaces.clusterapi.change_log import recorded
from haulout.surfaces.clusterapi.declare import ORIGINAL
from haulout.surfaces.clusterapi.options import Options, served
from haulout.surfaces.clusterapi.wire import (
    CLUSTER,
    HOST,
    HOST_KEEP,
    LIMITED_SECRET,
    MACHINE,
    MACHINE_KEEP,
    OWN_KINDS,
    SURFACE,
)

CONFIG_KEY = Key("", CONFIG, "", SURFACE)


def _none(key: Key, store: Store) -> tuple[Key, ...]:
    """Return no nodes: the maintenance controller in the workload cluster makes the claims on them."""
    return ()


DECIDERS = (
    Decider(decide.DECIDER, MACHINE, decide.decide, nodes=_none),
    Decider(cleanup.RELEASE, MACHINE, cleanup.release, nodes=_none),
    Decider(orphaned_nodes.DECIDER, Connection.KIND, orphaned_nodes.decide, cluster=None, nodes=_none),
    Decider(hosts.DECIDER, HOST, hosts.decide, nodes=_none),
)


def sources(options: Options) -> frozenset[Source]:
    wanted = {Source("", MACHINE, MACHINE_KEEP), Source("", CLUSTER)}
    if options.enable_metal3_maintenance:
        wanted.add(Source("", HOST, HOST_KEEP))
    if options.prefer_limited_kubeconfigs:
        wanted.add(Source("", LIMITED_SECRET))
    return frozenset(wanted)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


CLUSTERAPI = Declaration(
    name=SURFACE,
    deciders=tuple(map(recorded, DECIDERS)),
    sources=lambda options: sources(options or Options()),
    options=served,
    rows=_rows,
    kinds=OWN_KINDS,
    claims=False,
    controllers=dict.fromkeys((cleanup.RELEASE, orphaned_nodes.DECIDER), decide.DECIDER),
    lease=ORIGINAL.lease,
    explains={MACHINE: decide.DECIDER},
)
