"""The two steps that recipes carry out: the maintenance itself, and its validation."""

from __future__ import annotations

import msgspec

from haulout.surfaces.notify.wire import CLIENT, OBJECTS_DRAINED, VALIDATING, VALIDATION

IN_PROGRESS = "inprogress"


class Role(msgspec.Struct, frozen=True):
    """A step: in which state it is done, which annotation reports it, and with which values.

    `condition`: the type of the condition that tells how far it is. `phase`: its name in calls of webhooks.
    `event`: the message that such a call carries.
    """

    name: str
    state: str
    annotation: str
    success: str
    failure: str
    condition: str
    phase: str
    event: str


RUNNER = Role(
    "runner", OBJECTS_DRAINED, CLIENT, "complete", "incomplete", "maintenanceRun", "maintenance", "ObjectsDrained"
)
VALIDATOR = Role(
    "validator", VALIDATING, VALIDATION, "validated", "failed", "validationRun", "validation", "Validating"
)
ROLES = (RUNNER, VALIDATOR)
