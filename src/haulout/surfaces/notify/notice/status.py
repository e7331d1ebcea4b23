"""Changes to the status of a NotifyMaintenance: transitions, conditions, and the patch that stores them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from haulout.base.bounds import text
from haulout.core.action import Patch
from haulout.model.meta import Condition, wire_time
from haulout.surfaces.notify.wire import (
    LONGEST_MESSAGE,
    LONGEST_WORD,
    MOST_TRANSITIONS,
    PREFIX,
    NoticeRow,
    Status,
    Transition,
)

replace = msgspec.structs.replace
# Members that a condition must have even if they are empty. Without them the API server refuses the whole status.
REQUIRED = ("type", "status")


def second(instant: datetime) -> datetime:
    """Return the instant in whole seconds, as it is stored on the wire."""
    return instant.astimezone(UTC).replace(microsecond=0)


def enter_state(status: Status, state: str, now: datetime) -> Status:
    """Return the status after a transition. The history grows only if the state changes."""
    if status.maintenance_status == state:
        return status
    stamps = (*status.transition_timestamps, Transition(state, second(now)))[-MOST_TRANSITIONS:]
    return replace(status, maintenance_status=state, transition_timestamps=stamps)


def with_condition(
    status: Status, kind: str, value: str, now: datetime, reason: str = "Annotation", message: str = ""
) -> Status:
    """Return the status with one condition set. Its time changes only with its status; other conditions stay."""
    value, message = text(value, LONGEST_WORD), text(message, LONGEST_MESSAGE)
    stood = next((each for each in status.conditions if each.type == kind), None)
    since = stood.last_transition_time if stood is not None and stood.status == value else second(now)
    condition = Condition(kind, value, reason, message, last_transition_time=since)
    if stood is None:
        return replace(status, conditions=(*status.conditions, condition))
    return replace(status, conditions=tuple(condition if each is stood else each for each in status.conditions))


def condition_of(annotation: str) -> str:
    """Return the type of the condition that mirrors an annotation."""
    return annotation.removeprefix(PREFIX)


def without_conditions(status: Status, *kinds: str) -> Status:
    return replace(status, conditions=tuple(each for each in status.conditions if each.type not in kinds))


def patch(row: NoticeRow, status: Status) -> tuple[Patch, ...]:
    """Return the patch that stores the status; empty if nothing changes. Lists are written as a whole."""
    body = {
        wire: _wire(getattr(status, name))
        for name, wire in zip(Status.__struct_fields__, Status.__struct_encode_fields__, strict=True)
        if getattr(row.status, name) != getattr(status, name)
    }
    if not body:
        return ()
    return (Patch(row.key, {"status": body}, "status", becomes=replace(row, status=status)),)


def _wire(value: Any) -> Any:
    match value:
        case datetime():
            return wire_time(value)
        case tuple():
            return [_wire(each) for each in value]
        case msgspec.Struct():
            pairs = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
            body = {wire: _wire(getattr(value, name)) for name, wire in pairs}
            return {name: each for name, each in body.items() if each not in (None, "") or name in REQUIRED}
        case _:
            return value
