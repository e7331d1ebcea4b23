"""Whether a Machine or its Cluster is paused, so that no controller changes it."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.surfaces.clusterapi.wire import CLUSTER, PAUSED, ClusterRow, MachineRow, Workload


def is_paused(view: View, machine: MachineRow) -> bool:
    return PAUSED in machine.annotations or is_cluster_paused(view, machine.workload)


def is_cluster_paused(view: View, workload: Workload) -> bool:
    """Whether the Cluster is paused. Where Clusters may not be read none is; until that is known, all count as paused.

    The annotation on a Cluster pauses the Cluster alone: Cluster API goes on with its Machines, and would wait for us.
    """
    listing = view.listing(CLUSTER)
    if listing is not Listing.LISTED:
        return listing is Listing.WAITING
    row = view.get(Key("", CLUSTER, workload.namespace, workload.name), ClusterRow)
    return row is not None and row.paused
