"""The two steps that recipes carry out: the maintenance itself, and its validation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from haulout.surfaces.notify import messages
from haulout.surfaces.notify.wire import CLIENT, OBJECTS_DRAINED, VALIDATING, VALIDATION

IN_PROGRESS = "inprogress"


class Role(msgspec.Struct, frozen=True):
    """A step: in which state it is done, which annotation reports it, and with which values.

    `condition`: the type of the condition that tells how far it is. `phase`: its name in calls of webhooks.
    `event`: the message that such a call carries. `announces`: the messages that follow its ends, by the annotation's value.
    """

    name: str
    state: str
    annotation: str
    success: str
    failure: str
    condition: str
    phase: str
    event: str
    announces: Mapping[str, str]


RUNNER = Role(
    "runner",
    OBJECTS_DRAINED,
    CLIENT,
    "complete",
    "incomplete",
    "maintenanceRun",
    "maintenance",
    "ObjectsDrained",
    {"complete": messages.VALIDATING, "incomplete": messages.INCOMPLETE},
)
VALIDATOR = Role(
    "validator",
    VALIDATING,
    VALIDATION,
    "validated",
    "failed",
    "validationRun",
    "validation",
    "Validating",
    {"failed": messages.INCOMPLETE},
)
ROLES = (RUNNER, VALIDATOR)
