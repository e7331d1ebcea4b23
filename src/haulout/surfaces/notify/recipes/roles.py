"""The two steps that recipes carry out: the maintenance itself, and its validation."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from haulout.surfaces.notify.notice import messages
from haulout.surfaces.notify.wire import CLIENT, OBJECTS_DRAINED, VALIDATING, VALIDATION

IN_PROGRESS = "inprogress"


class StepRole(msgspec.Struct, frozen=True):
    """A step that a recipe carries out: the maintenance, or its validation.

    `state`: the state of the maintenance in which the step runs.
    `annotation`: the annotation that reports the result, with the values `success` or `failure`.
    `condition`: the type of the condition that shows the progress.
    `phase`: the name of the step in calls of webhooks. `event`: the message that such a call carries.
    `announces`: the message that follows each value of the annotation.
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


RUNNER = StepRole(
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
VALIDATOR = StepRole(
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
