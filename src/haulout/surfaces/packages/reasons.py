"""What the reason codes of Skyhooks mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "batch-awaited": Meaning("The node waits for its batch.", Course.QUEUED),
    "gate-awaited": Meaning(
        "A wave of the rollout has not passed its gate yet: it soaks, or Prometheus has not answered."
    ),
    "image-not-allowed": Meaning("The settings of the operator do not allow an image of a package."),
    "image-pulling": Meaning("The images of the packages are pulled before the node is cordoned.", Course.MOVING),
    "more-nodes": Meaning("There are more nodes than are listed."),
    "name-taken": Meaning("The objects of another Skyhook have the names that those of this one would have."),
    "node-failing": Meaning("A package fails on the node.", is_failure=True),
    "node-ignored": Meaning("The label skyhook.nvidia.com/ignore keeps the node out."),
    "node-incomplete": Meaning("The packages are not complete on the node.", Course.MOVING),
    "package-failing": Meaning("A stage of a package fails on the node.", is_failure=True),
    "package-running": Meaning("A stage of a package runs on the node.", Course.MOVING),
    "pod-holds-up": Meaning("A pod keeps the node from being interrupted."),
    "pod-not-interruptible": Meaning("A pod that must not be interrupted runs on the node."),
    "policy-missing": Meaning("The DeploymentPolicy of the Skyhook does not exist."),
    "predecessor-incomplete": Meaning("A Skyhook of a higher rank is not complete on the node.", Course.MOVING),
    "rollout-halted": Meaning(
        "A wave failed the gate of its DeploymentPolicy, and no new node starts.", is_failure=True
    ),
    "rollout-stopped": Meaning("Too many batches failed in a row.", is_failure=True),
    "skyhook-disabled": Meaning("The Skyhook is disabled."),
    "skyhook-incomplete": Meaning("The Skyhook is not complete.", Course.MOVING),
    "skyhook-invalid": Meaning("The Skyhook cannot be understood."),
    "skyhook-paused": Meaning("The Skyhook is paused."),
    "taint-not-tolerated": Meaning("The node has a taint that the packages do not tolerate."),
}
