"""The gauges of the clusterapi surface: connected workload clusters, and Machines by their state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import Connection, NodeRow
from haulout.cluster.store import Listing, Store
from haulout.surfaces.clusterapi.wire import APPROVED, DELETION_APPROVED, MACHINE, REQUESTED, MachineRow, Workload

Sample = tuple[str, tuple[tuple[str, str], ...], float]
CONNECTED, MACHINES = "maintenance_capi_cluster_connected", "maintenance_capi_machines"
STATES = ("hooked", "deletion_pending", "deletion_approved", "maintenance_requested", "maintenance_approved")


def samples(store: Store) -> Iterator[Sample]:
    """Yield the gauges of every workload cluster that an enabled Machine names.

    It runs outside of the loop's thread.
    """
    counts: dict[Workload, Counter[str]] = {}
    for row in store.rows("", MACHINE):
        if isinstance(row, MachineRow) and row.enabled:
            counts.setdefault(row.workload, Counter()).update(_states(store, row))
    for workload, states in counts.items():
        labels = (("cluster", workload.name), ("namespace", workload.namespace))
        yield CONNECTED, labels, float(_is_connected(store, workload))
        for state in STATES:
            yield MACHINES, (*labels, ("state", state)), float(states[state])


def _is_connected(store: Store, workload: Workload) -> bool:
    """Whether a cluster is connected. If a new kubeconfig cannot be used, the connection with the old one counts."""
    row = store.row(Key(workload.cluster, Connection.KIND, "", ""))
    if not isinstance(row, Connection):
        return False
    listed = store.listing(workload.cluster, "Node") is Listing.LISTED
    return row.state == Connection.FINE or (row.state in Connection.UNUSED and listed)


def _states(store: Store, machine: MachineRow) -> Iterator[str]:
    if machine.hooked:
        yield "hooked"
    if machine.deleting_at is not None:
        node = store.row(node_key(machine.node, machine.workload.cluster))
        approved = isinstance(node, NodeRow) and node.labels.get(DELETION_APPROVED) == "true"
        if machine.hooked:
            yield "deletion_pending"
        elif approved:
            yield "deletion_approved"
    if machine.request in (REQUESTED, APPROVED):
        yield f"maintenance_{machine.request}"
