"""What the reason codes of NodeMaintenances mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Meaning

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
    "refused": Meaning(
        "The maintenance is not carried out: it names no node, or an older one exists for the same node.",
        is_failure=True,
    ),
    "tainted": Meaning("The node carries the taint of a NodeMaintenance that is not there any more."),
}
