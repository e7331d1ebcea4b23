"""What the reason codes of NodeMaintenances mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "deadline": Meaning(
        "The drain has exceeded its deadline: the node stays out of service, and nothing more is evicted.",
        is_failure=True,
    ),
    "maintenance-failed": Meaning("The maintenance has failed.", is_failure=True),
    "lease-held": Meaning("The Lease of the node belongs to another operator."),
    "lease-lost": Meaning(
        "The Lease of the node was taken over too often, and the maintenance has failed.", is_failure=True
    ),
    "set-full": Meaning("As many nodes of the set are in maintenance as may be at once.", Course.QUEUED),
    "set-invalid": Meaning("The spec of the NodeMaintenanceSet cannot be read, and it changes nothing."),
    "set-node-busy": Meaning("A node of the set has a NodeMaintenance that the set has not made.", Course.QUEUED),
    "set-not-started": Meaning("The set begins at a later time.", Course.QUEUED),
    "set-paused": Meaning("The set is paused: no further node begins."),
    "set-refused": Meaning("The API server does not let the operator create a NodeMaintenance for the set."),
    "refused": Meaning(
        "The maintenance is not carried out: it names no node, or an older one exists for the same node.",
        is_failure=True,
    ),
    "tainted": Meaning("The node carries the taint of a NodeMaintenance that is not there any more."),
}
