"""What the reason codes of profiles mean."""

from __future__ import annotations

from collections.abc import Mapping

from haulout.core.reason import Course, Meaning

REASONS: Mapping[str, Meaning] = {
    "annotation-invalid": Meaning("An annotation on the node is not understood.", Course.IDLE),
    "check-fails": Meaning("A check failed with an error and has no result."),
    "check-waits": Meaning(
        "A check does not pass; the text names what it looks for, `until` when time alone may change that."
    ),
    "checks-do-not-pass": Meaning("The checks of a transition do not pass together."),
    "config-invalid": Meaning("maintenance.yaml is invalid, and nothing is done."),
    "data-invalid": Meaning("The data annotation of the node cannot be read, and the node is left alone."),
    "label-awaited": Meaning("A label that allows the reboot is awaited."),
    "no-transition": Meaning("The profile cannot leave its state, because the state has no transition."),
    "notification": Meaning("A notification has to be delivered first."),
    "other-profile": Meaning("Another profile is in maintenance on the node."),
    "profile-state": Meaning("The state of a profile on the node."),
    "profile-unknown": Meaning("The node names a profile that is not configured."),
}
