"""What the reason codes of Skyhooks mean."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "batch-awaited": "The node waits for its batch.",
    "gate-awaited": "A wave of the rollout has not passed its gate yet: it soaks, or Prometheus has not answered.",
    "image-pulling": "The images of the packages are pulled before the node is cordoned.",
    "more-nodes": "There are more nodes than are listed.",
    "node-failing": "A package fails on the node.",
    "node-ignored": "The label skyhook.nvidia.com/ignore keeps the node out.",
    "node-incomplete": "The packages are not complete on the node.",
    "package-failing": "A stage of a package fails on the node.",
    "package-running": "A stage of a package runs on the node.",
    "pod-holds-up": "A pod keeps the node from being interrupted.",
    "pod-not-interruptible": "A pod that must not be interrupted runs on the node.",
    "policy-missing": "The DeploymentPolicy of the Skyhook does not exist.",
    "predecessor-incomplete": "A Skyhook of a higher rank is not complete on the node.",
    "rollout-halted": "A wave failed the gate of its DeploymentPolicy, so that no new node begins.",
    "rollout-stopped": "Too many batches failed in a row.",
    "skyhook-disabled": "The Skyhook is disabled.",
    "skyhook-incomplete": "The Skyhook is not complete.",
    "skyhook-invalid": "The Skyhook cannot be understood.",
    "skyhook-paused": "The Skyhook is paused.",
    "taint-not-tolerated": "The node has a taint that the packages do not tolerate.",
}
