"""What the reason codes of Skyhooks mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "batch-awaited": Meaning("The node waits for its batch.", Course.QUEUED),
    "follows-other-group": Meaning(
        "The object of the same name in the other group leads: its spec is in force, and this object shows its status.",
        Course.IDLE,
    ),
    "gate-awaited": Meaning(
        "A wave of the rollout has not passed its gate yet: it is still soaking, or Prometheus has not answered."
    ),
    "image-not-allowed": Meaning(
        "The settings of the operator do not allow an image of a package.",
        helps="Use an allowed image, or change `allowedImagePrefixes`.",
    ),
    "image-pulling": Meaning("The images of the packages are pulled before the node is cordoned.", Course.MOVING),
    "more-nodes": Meaning("More nodes exist than the list shows."),
    "name-taken": Meaning(
        "Objects of this Skyhook or NodeWright would have the same names as those of another one.",
        helps="Rename the object or the package.",
    ),
    "node-failing": Meaning(
        "A package fails on the node.",
        is_failure=True,
        helps="`haulout explain NODE` names the step that fails and the command that prints its log.",
    ),
    "node-ignored": Meaning(
        "The label skyhook.nvidia.com/ignore excludes the node.",
        helps="`kubectl label node NODE skyhook.nvidia.com/ignore-`.",
    ),
    "node-incomplete": Meaning("The packages are not complete on the node.", Course.MOVING),
    "package-failing": Meaning(
        "A stage of a package fails on the node.",
        is_failure=True,
        helps="Read the log of the step; `haulout explain NODE` prints the `kubectl logs` command. Then correct the package, or `haulout retry`.",
    ),
    "package-running": Meaning("A stage of a package runs on the node.", Course.MOVING),
    "pod-holds-up": Meaning("A pod prevents the interrupt of the node."),
    "pod-not-interruptible": Meaning("A pod that must not be interrupted runs on the node."),
    "policy-missing": Meaning(
        "The DeploymentPolicy of the Skyhook or NodeWright does not exist.",
        helps="Create the DeploymentPolicy, or correct its name in the object.",
    ),
    "predecessor-incomplete": Meaning(
        "A Skyhook or NodeWright of a higher rank is not complete on the node.", Course.MOVING
    ),
    "rollout-halted": Meaning(
        "A wave failed the gate of its DeploymentPolicy, and no new node starts.",
        is_failure=True,
        helps="Correct the object, or start again: `skyhook deployment-policy reset NAME`.",
    ),
    "rollout-stopped": Meaning(
        "Too many batches failed in a row.", is_failure=True, helps="`skyhook deployment-policy reset NAME`."
    ),
    "skyhook-disabled": Meaning("The Skyhook or NodeWright is disabled.", helps="`skyhook enable NAME`."),
    "skyhook-incomplete": Meaning("The Skyhook or NodeWright is not complete.", Course.MOVING),
    "skyhook-invalid": Meaning(
        "The spec of the Skyhook or NodeWright is invalid.", helps="Correct the object; the text has the error."
    ),
    "skyhook-paused": Meaning("The Skyhook or NodeWright is paused.", helps="`skyhook resume NAME`."),
    "taint-not-tolerated": Meaning("The node has a taint that the packages do not tolerate."),
}
