"""What the reason codes of profiles mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "annotation-invalid": Meaning("An annotation on the node cannot be parsed.", Course.IDLE),
    "check-fails": Meaning(
        "A check failed with an error and has no result.",
        helps="Correct the check in maintenance.yaml: `haulout lint`.",
    ),
    "check-waits": Meaning(
        "A check does not pass. Its text says what it looks for, and until when if time alone can change that.",
        helps="Do what the check looks for, such as setting a label: `haulout finish node/NODE`.",
    ),
    "checks-do-not-pass": Meaning("The combined checks of a transition do not pass."),
    "config-invalid": Meaning(
        "maintenance.yaml is invalid, and profiles do nothing.", helps="`haulout lint` prints each error with its line."
    ),
    "data-invalid": Meaning(
        "The data annotation of the node cannot be read, and the node is left alone.",
        helps="Correct or delete the annotation on the node.",
    ),
    "label-awaited": Meaning("The reboot waits for the label that allows it."),
    "no-transition": Meaning("The profile cannot leave its state, because the state has no transition."),
    "notification": Meaning("A notification must be delivered first."),
    "other-profile": Meaning("Another profile is in maintenance on the node."),
    "profile-state": Meaning("The state of a profile on the node."),
    "profile-unknown": Meaning(
        "The node names a profile that is not configured.",
        helps="Correct the label on the node, or add the profile to maintenance.yaml.",
    ),
}
