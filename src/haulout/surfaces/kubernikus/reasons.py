"""What the reason codes of Kubernikus mean."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "delete-node": "Kubernikus replaces the node: it is drained and deleted.",
    "kubernikus": "What Kubernikus wants of the node.",
}
