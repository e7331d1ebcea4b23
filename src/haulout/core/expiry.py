"""The end of a maintenance at the instant that its annotation `haulout.dev/expires` names.

A request that was forgotten would take its node out of service at some later time, or keep it so. The end is the same as if a
person had cancelled the maintenance. A value that cannot be read ends nothing, and is a reason.

On a Node the annotation is about the labels that ask for its maintenance, and goes with the last of them: otherwise it would
end the next request at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from haulout.base.bounds import instant, text
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, ObjectRow
from haulout.cluster.view import View
from haulout.core.action import Action, Annotate, Label, Step
from haulout.core.decision import Decide, Decision, earliest
from haulout.core.reason import Reason
from haulout.model.meta import wire_time
from haulout.model.node import RequestLabels

EXPIRES = "haulout.dev/expires"
INVALID = "expires-invalid"
_LONGEST = 64

# Returns the step that ends the maintenance of a row, with what is said about it; none where nothing has to be ended.
End = Callable[[Any, str], Step]

# The labels of a Node that are removed when it expires. The third one, of ESX, allows something and requests nothing.
_REQUESTS = tuple(each.encode_name for each in msgspec.structs.fields(RequestLabels) if each.name != "reboot")


def withdrawal(node: NodeRow, label: str) -> Iterator[Action]:
    """Yield the edits that remove a label by which people ask for the maintenance of a Node that has expired."""
    yield Label(node.key, label, None)
    if not any(each != label and each in node.labels for each in _REQUESTS):
        yield Annotate(node.key, EXPIRES, None)


def expires_at(value: str) -> datetime | None:
    """Return the instant of an annotation; None if it is no instant with a time zone."""
    try:
        at = datetime.fromisoformat(value.strip()) if len(value) <= _LONGEST else None
        return instant(at.astimezone(UTC)) if at is not None and at.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def expiring(decide: Decide, end: End, is_on: Callable[[View], bool]) -> Decide:
    """Return a decision about objects that may expire. Claims and marks stay until the object shows its end.

    `end`: ends the maintenance. `is_on`: whether the surface heeds the annotation, which its drop-in does not.
    """

    def decided(key: Key, view: View, now: datetime) -> Decision:
        answer = decide(key, view, now)
        row = view.get(key, ObjectRow)
        value = row.annotations.get(EXPIRES) if row is not None else None
        if row is None or value is None or row.deleting_at is not None or not is_on(view):
            return answer
        at = expires_at(value)
        if at is None:
            found = (
                f"{EXPIRES}: {text(value, _LONGEST)!r} is not an instant such as 2026-11-18T22:00:00Z, and is ignored"
            )
            reason = Reason(INVALID, key, found, act=f"correct the annotation {EXPIRES} of {key.kind} {key.name}")
            return msgspec.structs.replace(answer, reasons=(*answer.reasons, reason))
        if now < at:
            return msgspec.structs.replace(answer, until=earliest(answer.until, at))
        step = end(row, f"it has expired: {EXPIRES} is {wire_time(at)}")
        return msgspec.structs.replace(answer, actions=(step,)) if step else answer

    return decided
