"""The surface as the process sees it: what it watches, what it keeps, whom it asks."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import Connection
from haulout.cluster.store import Store
from haulout.core.decision import Decider, Source
from haulout.surfaces.clusterapi import cleanup, hosts, machine, orphans
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    CLUSTER,
    HOST,
    HOST_KEEP,
    LIMITED_SECRET,
    MACHINE,
    MACHINE_KEEP,
    OWN_KINDS,
)

__all__ = ["DECIDERS", "OWN_KINDS", "sources"]


def _none(key: Key, store: Store) -> tuple[Key, ...]:
    """It holds no node: what the maintenance controller of the workload cluster approves is held by that one."""
    return ()


DECIDERS = (
    Decider(machine.DECIDER, MACHINE, machine.decide, nodes=_none),
    Decider(cleanup.RELEASE, MACHINE, cleanup.release, nodes=_none),
    Decider(orphans.DECIDER, Connection.KIND, orphans.decide, cluster=None, nodes=_none),
    Decider(hosts.DECIDER, HOST, hosts.decide, nodes=_none),
)


def sources(options: Options) -> frozenset[Source]:
    wanted = {Source("", MACHINE, MACHINE_KEEP), Source("", CLUSTER)}
    if options.metal3:
        wanted.add(Source("", HOST, HOST_KEEP))
    if options.prefer_limited:
        wanted.add(Source("", LIMITED_SECRET))
    return frozenset(wanted)
