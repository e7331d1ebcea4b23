"""The status of a node for a Skyhook, and the node conditions that show it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from haulout.cluster.rows import NodeRow
from haulout.core.action import Patch
from haulout.model.meta import wire_time
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.wire import (
    BLOCKED,
    COMPLETE,
    ERRORING,
    IN_PROGRESS,
    PREFIX,
    UNKNOWN,
    WAITING,
)

# One element of a node's conditions in a strategic merge patch: a condition, or the directive that deletes one.
NodeCondition = dict[str, Any]


def status_of(
    before: str,
    *,
    shows: str,
    is_complete: bool,
    is_ready: bool,
    is_eligible: bool,
    is_failing: bool,
    is_picked: bool,
    has_pods: bool,
    has_compartments: bool,
) -> str:
    """Return the status that a node shows for a Skyhook.

    `before`: the status that it showed so far. `shows`: a status that the Skyhook imposes on all its nodes, such as
    `paused`.
    """
    if shows:
        return shows
    if not is_complete and not is_ready:
        return WAITING
    if is_complete:
        return COMPLETE
    if is_failing:
        return ERRORING
    if not is_eligible:
        return BLOCKED
    if is_picked and (has_pods or before in (IN_PROGRESS, ERRORING)):
        return IN_PROGRESS
    return WAITING if has_compartments else UNKNOWN


def changed_conditions(
    node: NodeRow, skyhook: str, now: datetime, *, is_complete: bool, is_failing: bool
) -> tuple[NodeCondition, ...]:
    """Return the node conditions of a Skyhook that have to be written or removed."""
    not_ready, failing = node_names.not_ready(skyhook), node_names.erroring(skyhook)
    wanted = []
    if node.condition(not_ready) != _word(not is_complete):
        text = f"Skyhook {skyhook} Ready"
        wanted.append(_condition(not_ready, not is_complete, "Incomplete", "Complete", text, now))
    if node.condition(failing) != _word(is_failing):
        text = f"Package Erroring or Unknown for {skyhook}"
        wanted.append(_condition(failing, is_failing, "Package(s) Erroring or Unknown", "Not Erroring", text, now))
    stale = [name for name in _of_skyhook(node, skyhook) if name not in (not_ready, failing)]
    return (*wanted, *map(_deleted, stale))


def cleared_conditions(node: NodeRow, skyhook: str) -> tuple[NodeCondition, ...]:
    """Return the directives that remove all conditions of a Skyhook from a node."""
    return tuple(_deleted(name) for name in _of_skyhook(node, skyhook))


def condition_patch(node: NodeRow, conditions: Sequence[NodeCondition]) -> tuple[Patch, ...]:
    """Return one patch of the node's status with these changes. New conditions come before all others."""
    deleted = [each for each in conditions if "$patch" in each]
    written = {each["type"]: each for each in conditions if "$patch" not in each}
    if not deleted and not written:
        return ()
    known = [kind for kind, _ in node.conditions]
    removed = {each["type"] for each in deleted}
    order = [*(kind for kind in written if kind not in known), *(kind for kind in known if kind not in removed)]
    # The API server refuses a patch whose conditions are in another order than `$setElementOrder` says.
    body: dict[str, Any] = {"conditions": [*(written[kind] for kind in order if kind in written), *deleted]}
    if not written.keys() <= set(known):
        body["$setElementOrder/conditions"] = [{"type": kind} for kind in order]
    return (Patch(node.key, {"status": body}, "status", strategic=True),)


def _of_skyhook(node: NodeRow, skyhook: str) -> list[str]:
    return [kind for kind, _ in node.conditions if kind.startswith(f"{PREFIX}{skyhook}/")]


def _condition(kind: str, is_true: bool, yes: str, no: str, message: str, now: datetime) -> NodeCondition:
    return {
        "type": kind,
        "status": _word(is_true),
        "reason": yes if is_true else no,
        "message": message,
        "lastHeartbeatTime": wire_time(now),
        "lastTransitionTime": wire_time(now),
    }


def _word(is_true: bool) -> str:
    return "True" if is_true else "False"


def _deleted(kind: str) -> NodeCondition:
    return {"$patch": "delete", "type": kind}
