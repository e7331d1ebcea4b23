"""The status of a NodeMaintenance: its fields, and the patch that stores it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from haulout.base.bounds import text
from haulout.base.duration import to_text
from haulout.cluster.rows import PodRow
from haulout.core.action import Patch
from haulout.core.drain.progress import PodStanding, Progress, Standing
from haulout.core.drain.selection import Fate, aggregate
from haulout.model.meta import Condition, wire_time
from haulout.surfaces.nodemaintenance.wire import (
    LONGEST_ERROR,
    LONGEST_MESSAGE,
    MOST_PODS,
    SUCCEEDED,
    BlockedPod,
    MaintenanceRow,
    PodReference,
    Status,
)

replace = msgspec.structs.replace
TIMED_OUT = "context deadline exceeded"
# The status's words for the reasons why a pod is blocked.
BLOCKING = {
    Standing.BUDGET: "DisruptionBudget",
    Standing.SEVERAL_BUDGETS: "MultipleDisruptionBudgets",
    Standing.TERMINATING: "Terminating",
    Standing.NAMESPACE: "NamespaceTerminating",
    Standing.WAITING: "Waiting",
    Standing.HELD: "Held",
    Standing.FAILED: "Error",
}


def second(instant: datetime) -> datetime:
    at = instant.astimezone(UTC)
    return at.replace(microsecond=0) if at.microsecond else at


def with_pods(status: Status, pods: Iterable[PodRow]) -> Status:
    """Return the status with these pending pods and the progress.

    The progress is below 100 until the maintenance has succeeded.
    """
    keys = [pod.key for pod in pods]
    references = tuple(PodReference(key.namespace, key.name) for key in keys[:MOST_PODS])
    progress = status.drain_progress
    if status.eviction_pods:
        progress = max(0, (status.eviction_pods - len(keys)) * 100 // status.eviction_pods)
    progress = min(progress, 100 if status.phase == SUCCEEDED else 99)
    names = tuple(key.name for key in keys[:MOST_PODS])
    return replace(status, pending_pods=names, pending_pods_refs=references, drain_progress=progress)


def failed_with(status: Status, error: str, now: datetime) -> Status:
    return replace(status, last_error=text(error, LONGEST_ERROR), last_update=second(now))


def drain_error(progress: Progress, timeout_for: timedelta, *, deletes: bool = False) -> str:
    """Return the original's error for a pass that ended in this state. A drain that deletes pods does not name them."""
    if deletes:
        error = progress.errors or aggregate([each.error or TIMED_OUT for each in progress.pods])
    else:
        error = progress.errors or aggregate([_pod_error(each, timeout_for) for each in progress.pods])
    return text(error, LONGEST_ERROR)


def _pod_error(each: PodStanding, timeout_for: timedelta) -> str:
    name, namespace = _quoted(each.pod.key.name), _quoted(each.pod.key.namespace)
    if each.error:
        return f"error when evicting pods/{name} -n {namespace}: {each.error}"
    if each.standing in (Standing.TERMINATING, Standing.WAITING):
        return f"error when waiting for pod {name} in namespace {namespace} to terminate: {TIMED_OUT}"
    return f"error when evicting pods/{name} -n {namespace}: global timeout reached: {to_text(timeout_for)}"


def _quoted(name: str) -> str:
    return f'"{name}"'


def blocked_pods(progress: Progress, stood: Sequence[BlockedPod]) -> tuple[BlockedPod, ...]:
    """Return the blocked pods, each with its reason and since when.

    An unchanged reason keeps its time, so that nothing has to be written.
    """
    before = {(each.namespace, each.name, each.reason): each for each in stood}
    found = []
    for each in progress.pods:
        if each.standing is Standing.EVICTING:
            continue
        key = each.pod.key
        known = before.get((key.namespace, key.name, BLOCKING[each.standing]))
        since = known.since if known else second(each.since) if each.since else None
        message = text(each.message, LONGEST_MESSAGE)
        found.append(BlockedPod(key.namespace, key.name, BLOCKING[each.standing], message, since))
    return tuple(found[:MOST_PODS])


def with_errors(progress: Progress, stood: Sequence[BlockedPod]) -> Progress:
    """Return the progress with the refusals that are in the status.

    Only the process that was refused knows the API server's answer. Another one, such as `explain`, reads it here.
    """
    earlier_errors = {(each.namespace, each.name): each for each in stood if each.reason == BLOCKING[Standing.FAILED]}

    def standing_of(pod: PodRow, fate: Fate) -> PodStanding:
        each, error = progress.standing_of(pod, fate), earlier_errors.get((pod.key.namespace, pod.key.name))
        if each.standing is not Standing.EVICTING or error is None:
            return each
        return replace(each, standing=Standing.FAILED, message=error.message, since=error.since)

    return replace(progress, standing_of=standing_of)


def with_condition(status: Status, kind: str, value: bool, reason: str, message: str, now: datetime) -> Status:
    stood = next((each for each in status.conditions if each.type == kind), None)
    word = "True" if value else "False"
    since = stood.last_transition_time if stood and stood.status == word else second(now)
    condition = Condition(kind, word, reason, text(message, LONGEST_MESSAGE), last_transition_time=since)
    if condition == stood:
        return status
    if stood is None:
        return replace(status, conditions=(*status.conditions, condition))
    return replace(status, conditions=tuple(condition if each is stood else each for each in status.conditions))


def is_cordoned(status: Status) -> bool:
    """Whether the status says that the maintenance has cordoned its node."""
    return any((each.type, each.status) == ("Cordoned", "True") for each in status.conditions)


def let_go(status: Status, reason: str, now: datetime) -> Status:
    """Return the status of a maintenance that no longer holds its node: all conditions are false."""
    for kind in ("Cordoned", "LeaseHeld", "Drained", "Blocked"):
        status = with_condition(status, kind, False, reason, "", now)
    return replace(status, blocked_pods=())


def patch(row: MaintenanceRow, status: Status) -> tuple[Patch, ...]:
    """Return the patch that stores the status; empty if nothing changes."""
    fields = [
        (name, wire)
        for name, wire in zip(Status.__struct_fields__, Status.__struct_encode_fields__, strict=True)
        if getattr(row.status, name) != getattr(status, name)
    ]
    if not fields:
        return ()
    body = {wire: _wire(getattr(status, name)) for name, wire in fields}
    return (Patch(row.key, {"status": body}, "status", becomes=replace(row, status=status)),)


def _wire(value: Any) -> Any:
    """Return a value for the wire, where zero, empty and absent are the same."""
    # A status has up to three texts for each pod of its node, so texts come first.
    if isinstance(value, str):
        return value or None
    if isinstance(value, tuple):
        return [_wire(each) for each in value] or None
    if isinstance(value, datetime):
        return wire_time(value)
    if not isinstance(value, msgspec.Struct):
        return value or None
    body: dict[str, Any] = {}
    for name, wire in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        each = getattr(value, name)
        each = each or None if isinstance(each, str) else _wire(each)
        if each is not None:
            body[wire] = each
    return body
