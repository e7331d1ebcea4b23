"""What the reason codes of Kubernikus mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Meaning

REASONS: Mapping[str, Meaning] = {
    "delete-node": Meaning("Kubernikus replaces the node: it is drained and deleted."),
    "kubernikus": Meaning("What Kubernikus requests for the node."),
}
