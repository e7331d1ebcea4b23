"""What the reason codes of NodeMaintenances mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "deadline": Meaning(
        "The drain has exceeded its deadline. The node stays out of service, and no more pods are evicted.",
        is_failure=True,
        helps="Remove what blocks the drain, then delete the NodeMaintenance and create it again.",
    ),
    "maintenance-failed": Meaning(
        "The maintenance has failed.",
        is_failure=True,
        helps="Remove the cause that lastError names, then delete the NodeMaintenance and create it again.",
    ),
    "lease-held": Meaning(
        "The Lease of the node belongs to another operator.",
        helps="Wait until the other operator releases the Lease of the node, or stop it.",
    ),
    "lease-lost": Meaning(
        "The Lease of the node was taken over too often, and the maintenance has failed.",
        is_failure=True,
        helps="Stop the other operator, then delete the NodeMaintenance and create it again.",
    ),
    "set-full": Meaning("The maximum number of nodes of the set is in maintenance.", Course.QUEUED),
    "set-invalid": Meaning("The spec of the NodeMaintenanceSet cannot be read, and it changes nothing."),
    "set-node-busy": Meaning("A node of the set has a NodeMaintenance that the set has not made.", Course.QUEUED),
    "set-not-started": Meaning("The set starts at a later time.", Course.QUEUED),
    "set-paused": Meaning("The set is paused, and no more nodes start."),
    "set-refused": Meaning("The API server does not allow the operator to create a NodeMaintenance for the set."),
    "refused": Meaning(
        "The maintenance is not carried out: it names no node, or an older one exists for the same node.",
        is_failure=True,
        helps="Delete the NodeMaintenance, and correct it.",
    ),
    "tainted": Meaning(
        "The node has the taint of a NodeMaintenance that no longer exists.",
        helps="Check that the work on the node is over, then `haulout let-go node/NODE`.",
    ),
}
