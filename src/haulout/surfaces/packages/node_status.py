"""The status of a node for a Skyhook, and the node conditions that show it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from haulout.cluster.rows import NodeRow
from haulout.core.action import Patch
from haulout.model.meta import wire_time
from haulout.surfaces.packages import node_names
from haulout.surfaces.packages.wire import (
    BLOCKED,
    COMPLETE,
    ERRORING,
    IN_PROGRESS,
    PREFIX,
    UNKNOWN,
    WAITING,
)


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
    """Return the status that a node shows. `shows`: what the Skyhook makes all its nodes show."""
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


def condition_patch(
    node: NodeRow, skyhook: str, now: datetime, *, is_complete: bool, is_failing: bool
) -> tuple[Patch, ...]:
    """Return the patch of the node's status that shows how the Skyhook stands; none if it shows that already."""
    not_ready, failing = node_names.not_ready(skyhook), node_names.erroring(skyhook)
    wanted = []
    if node.condition(not_ready) != _word(not is_complete):
        text = f"Skyhook {skyhook} Ready"
        wanted.append(_condition(not_ready, not is_complete, "Incomplete", "Complete", text, now))
    if node.condition(failing) != _word(is_failing):
        text = f"Package Erroring or Unknown for {skyhook}"
        wanted.append(_condition(failing, is_failing, "Package(s) Erroring or Unknown", "Not Erroring", text, now))
    stale = [name for name in _of_skyhook(node, skyhook) if name not in (not_ready, failing)]
    return _patch(node, [*wanted, *map(_deleted, stale)])


def cleared_patch(node: NodeRow, skyhook: str) -> tuple[Patch, ...]:
    """Return the patch that removes the conditions of a Skyhook from a node."""
    return _patch(node, [_deleted(name) for name in _of_skyhook(node, skyhook)])


def _of_skyhook(node: NodeRow, skyhook: str) -> list[str]:
    return [kind for kind, _ in node.conditions if kind.startswith(f"{PREFIX}{skyhook}/")]


def _condition(kind: str, is_true: bool, yes: str, no: str, message: str, now: datetime) -> dict[str, Any]:
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


def _deleted(kind: str) -> dict[str, Any]:
    return {"$patch": "delete", "type": kind}


def _patch(node: NodeRow, entries: list[dict[str, Any]]) -> tuple[Patch, ...]:
    """Return the patch of these conditions. Those that are new stand before all others."""
    if not entries:
        return ()
    body: dict[str, Any] = {"conditions": entries}
    known = [kind for kind, _ in node.conditions]
    new = [each["type"] for each in entries if each["type"] not in known]
    if new:
        removed = {each["type"] for each in entries if "$patch" in each}
        order = (*new, *(kind for kind in known if kind not in removed))
        body["$setElementOrder/conditions"] = [{"type": kind} for kind in order]
    return (Patch(node.key, {"status": body}, "status", strategic=True),)
