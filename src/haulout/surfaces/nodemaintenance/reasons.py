"""What the reason codes of NodeMaintenances mean."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "deadline": "The drain gives up at the instant given.",
    "lease-held": "The Lease of the node belongs to another operator.",
    "lease-lost": "The Lease of the node was taken over too often, and the maintenance has failed.",
    "refused": "The API server refused what the maintenance needs.",
    "tainted": "The node carries the taint of a NodeMaintenance that is not there any more.",
}
