"""The conditions that Argo CD, Flux and `kubectl wait` understand: Ready, Reconciling and Stalled.

They ride on the patches of a status that are sent anyway. Only an edit of the object's spec costs a write of its own, and
only where the definition keeps `observedGeneration`. So a definition that prunes these fields never causes one write after
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.core.action import Patch, Step
from haulout.core.decision import Decision
from haulout.model.meta import Condition, wire_time

READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"
TYPES = (READY, RECONCILING, STALLED)


class Course(Enum):
    """How far an object is: its wish is fulfilled, is being fulfilled, waits for a person, or cannot be fulfilled."""

    DONE = READY
    GOING_ON = RECONCILING
    HALTED = ""
    FAILED = STALLED


def course_conditions(
    stored: Iterable[Condition], course: Course, reason: str, message: str, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the three conditions. A transition time changes only with the condition's status."""
    known = {each.type: each for each in stored}
    return tuple(_condition(known.get(name), name, course, reason, message, generation, now) for name in TYPES)


def with_course(
    conditions: Sequence[Condition], course: Course, reason: str, message: str, generation: int, now: datetime
) -> tuple[Condition, ...]:
    """Return the conditions of an object with the three among them, each in its place."""
    new = {each.type: each for each in course_conditions(conditions, course, reason, message, generation, now)}
    kept = tuple(new.pop(each.type, each) for each in conditions)
    return (*kept, *new.values())


def wire_conditions(conditions: Iterable[Condition]) -> list[dict[str, Any]]:
    """Return conditions for the wire."""
    return [
        {
            "type": each.type,
            "status": each.status,
            "reason": each.reason,
            "message": each.message,
            **({"observedGeneration": each.observed_generation} if each.observed_generation is not None else {}),
            **({"lastTransitionTime": wire_time(at)} if (at := each.last_transition_time) is not None else {}),
        }
        for each in conditions
    ]


def read_conditions(found: object) -> tuple[Condition, ...]:
    """Return the three conditions of a status that is not typed. What cannot be read counts as absent."""
    entries = [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []
    read: list[Condition] = []
    for each in entries:
        if each.get("type") in TYPES:
            try:
                read.append(msgspec.convert(each, Condition, strict=False))
            except msgspec.ValidationError:
                continue
    return tuple(read)


def riding(decision: Decision, key: Key, rewritten: Callable[[Any], tuple[Patch, ...]], *, is_due: bool) -> Decision:
    """Return the decision with the three conditions in each patch of the object's status.

    `rewritten`: makes the patch again, from the row that the object becomes. `is_due`: the stored generation is not the
    present one, so that they are written even if nothing else is.
    """
    found = False
    steps: list[Step] = []
    for step in decision.actions:
        actions: list[Any] = []
        for action in step:
            if isinstance(action, Patch) and action.target == key and action.subresource == "status":
                found = True
                actions += rewritten(action.becomes) if action.becomes is not None else (action,)
            else:
                actions.append(action)
        steps.append(tuple(actions))
    if is_due and not found:
        steps.append(rewritten(None))
    elif not found:
        return decision
    return msgspec.structs.replace(decision, actions=tuple(steps))


def _condition(
    before: Condition | None, name: str, course: Course, reason: str, message: str, generation: int, now: datetime
) -> Condition:
    status = "True" if course.value == name else "False"
    same = before is not None and before.status == status
    at = before.last_transition_time if same and before is not None else None
    return Condition(name, status, reason, message, generation, at or now.astimezone(UTC).replace(microsecond=0))
