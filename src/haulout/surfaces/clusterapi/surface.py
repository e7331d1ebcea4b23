"""The decisions of the clusterapi surface, and their sources."""

from __future__ import annotations

from collections.abc import Iterator

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Connection, Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Label, Step
from haulout.core.decision import Decider, Source
from haulout.core.declaration import Declaration
from haulout.core.expiry import EXPIRES, expiring
from haulout.surfaces.clusterapi import cleanup, decide, hosts, orphaned_nodes
from haulout.surfaces.clusterapi.change_log import log_changes
from haulout.surfaces.clusterapi.declare import ORIGINAL
from haulout.surfaces.clusterapi.events import event
from haulout.surfaces.clusterapi.options import Options, make_options, options_of
from haulout.surfaces.clusterapi.wire import (
    APPROVED,
    CLUSTER,
    DELETED,
    HOST,
    HOST_KEEP,
    LIMITED_SECRET,
    MACHINE,
    MACHINE_KEEP,
    MACHINES_OF_HOST,
    MAINTENANCE,
    OWN_KINDS,
    REQUEST,
    REQUESTED,
    SURFACE,
    MachineRow,
)

CONFIG_KEY = Key("", CONFIG, "", SURFACE)


def _none(key: Key, store: Store) -> tuple[Key, ...]:
    """Return no nodes: the maintenance controller in the workload cluster makes the claims on them."""
    return ()


def _node_of_machine(key: Key, store: Store) -> Iterator[Key]:
    row = store.row(key)
    if isinstance(row, MachineRow) and row.node:
        yield node_key(row.node, row.workload.cluster)


def _machines_of_host(key: Key, store: Store) -> Iterator[Key]:
    """Yield the Machines on a host and their Nodes."""
    for machine in store.bucket(MACHINES_OF_HOST, key.cluster, (key.namespace, key.name)):
        yield machine.key
        yield from _node_of_machine(machine.key, store)


def _is_served_with_others(view: View) -> bool:
    return options_of(view).owned_hosts_only


def _end(row: MachineRow, text: str) -> Step:
    """Return the step that withdraws the expired request for a maintenance of a Machine."""
    if row.labels.get(REQUEST) not in (REQUESTED, APPROVED):
        return ()
    return Label(row.key, REQUEST, None), event(row.key, "Expired", text)


DECIDERS = (
    Decider(
        decide.DECIDER,
        MACHINE,
        expiring(decide.decide, _end, _is_served_with_others),
        nodes=_none,
        touches=_node_of_machine,
    ),
    Decider(cleanup.RELEASE, MACHINE, cleanup.release, nodes=_none, touches=_node_of_machine),
    Decider(orphaned_nodes.DECIDER, Connection.KIND, orphaned_nodes.decide, cluster=None, nodes=_none),
    Decider(hosts.DECIDER, HOST, hosts.decide, nodes=_none, touches=_machines_of_host),
)


def sources(options: Options) -> frozenset[Source]:
    wanted = {Source("", MACHINE, MACHINE_KEEP | Keep(frozenset({EXPIRES}))), Source("", CLUSTER)}
    if options.enable_metal3_maintenance:
        wanted.add(Source("", HOST, HOST_KEEP))
    if options.prefer_limited_kubeconfigs:
        wanted.add(Source("", LIMITED_SECRET))
    return frozenset(wanted)


def _rows(options: Options) -> Iterator[Value]:
    yield Value(key=CONFIG_KEY, value=options)


CLUSTERAPI = Declaration(
    name=SURFACE,
    deciders=tuple(map(log_changes, DECIDERS)),
    sources=lambda options: sources(options or Options()),
    options=make_options,
    rows=_rows,
    kinds=OWN_KINDS,
    claims=False,
    # They tell the maintenance controller of the workload cluster what is planned. Work begins with the approval.
    records=(DELETED, MAINTENANCE),
    controllers=dict.fromkeys((cleanup.RELEASE, orphaned_nodes.DECIDER), decide.DECIDER),
    lease=ORIGINAL.lease,
    explains={MACHINE: decide.DECIDER},
)
