"""Whether a Machine or its Cluster is paused. A paused object must not be changed."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.surfaces.clusterapi.wire import CLUSTER, PAUSED, ClusterRow, MachineRow, Workload


def is_paused(view: View, machine: MachineRow) -> bool:
    return PAUSED in machine.annotations or is_cluster_paused(view, machine.workload)


def is_cluster_paused(view: View, workload: Workload) -> bool:
    """Whether the Cluster is paused by its spec.

    If Clusters cannot be read, none counts as paused. Until they are listed, all do. The paused annotation on a Cluster
    is ignored: it pauses only the Cluster object, and Cluster API continues with its Machines and would wait for us.
    """
    listing = view.listing(CLUSTER)
    if listing is not Listing.LISTED:
        return listing is Listing.WAITING
    row = view.get(Key("", CLUSTER, workload.namespace, workload.name), ClusterRow)
    return row is not None and row.paused
