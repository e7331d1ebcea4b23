"""The conditions of a Node that show its maintenance."""

from __future__ import annotations

from datetime import datetime

from haulout.cluster.rows import NodeRow
from haulout.core.action import Patch
from haulout.model.meta import wire_time

DRAINING, DRAINED, MAINTAINED = "DrainInProgress", "Drained", "MaintenanceInProgress"
ALL = (DRAINING, DRAINED, MAINTAINED)


def shown(node: NodeRow, now: datetime, *, drained: bool, succeeded: bool) -> tuple[Patch, ...]:
    """What has to be written so that the Node shows this; the conditions of others are merged by the server."""
    wanted = {DRAINING: not drained, DRAINED: drained, MAINTAINED: succeeded}
    entries = [
        {
            "type": kind,
            "status": _text(value),
            "reason": "NodeMaintenance",
            "lastTransitionTime": wire_time(now),
            "lastHeartbeatTime": wire_time(now),
        }
        for kind, value in wanted.items()
        if node.condition(kind) != _text(value)
    ]
    return (Patch(node.key, {"status": {"conditions": entries}}, "status", strategic=True),) if entries else ()


def cleared(node: NodeRow) -> tuple[Patch, ...]:
    entries = [{"type": kind, "$patch": "delete"} for kind in ALL if node.condition(kind) is not None]
    return (Patch(node.key, {"status": {"conditions": entries}}, "status", strategic=True),) if entries else ()


def _text(value: bool) -> str:
    return "True" if value else "False"
