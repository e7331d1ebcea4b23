"""The conditions on a Node that show its maintenance."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.rows import NodeRow
from haulout.core.action import Patch
from haulout.model.meta import wire_time

DRAINING, DRAINED, MAINTAINED = "DrainInProgress", "Drained", "MaintenanceInProgress"
ALL = (DRAINING, DRAINED, MAINTAINED)


def condition_patches(node: NodeRow, now: datetime, *, drained: bool, succeeded: bool) -> tuple[Patch, ...]:
    """Return the patches that set these conditions on the Node. A strategic merge keeps all other conditions."""
    conditions = {DRAINING: not drained, DRAINED: drained, MAINTAINED: succeeded}
    entries = [
        {
            "type": kind,
            "status": _text(value),
            "reason": "NodeMaintenance",
            "lastTransitionTime": wire_time(now),
            "lastHeartbeatTime": wire_time(now),
        }
        for kind, value in conditions.items()
        if node.condition(kind) != _text(value)
    ]
    return (Patch(node.key, {"status": {"conditions": entries}}, "status", strategic=True),) if entries else ()


def clear_conditions(node: NodeRow) -> tuple[Patch, ...]:
    entries = [{"type": kind, "$patch": "delete"} for kind in ALL if node.condition(kind) is not None]
    return (Patch(node.key, {"status": {"conditions": entries}}, "status", strategic=True),) if entries else ()


def _text(value: bool) -> str:
    return "True" if value else "False"
