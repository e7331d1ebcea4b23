"""What the reason codes of profiles mean."""

from __future__ import annotations

from collections.abc import Mapping

REASONS: Mapping[str, str] = {
    "annotation-invalid": "An annotation on the node is not understood.",
    "check-fails": "A check says no.",
    "check-waits": "A check says no; the text names what it looks for, `until` when time alone may change that.",
    "checks-do-not-pass": "The checks of a transition do not pass together.",
    "config-invalid": "maintenance.yaml is invalid, so that nothing is done.",
    "data-invalid": "The data annotation of the node cannot be read, so that the node is left alone.",
    "label-awaited": "A label that allows the reboot is awaited.",
    "no-transition": "The profile cannot leave its state, because the state has no transition.",
    "notification": "A notification has to be delivered first.",
    "other-profile": "Another profile is in maintenance on the node.",
    "profile-state": "The state of a profile on the node.",
    "profile-unknown": "The node names a profile that is not configured.",
}
