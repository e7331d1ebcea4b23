"""The state of a node before its maintenance, kept in a condition to detect reboots and lost devices.

An annotation has a copy for people. It is never read, because the author of a maintenance can write it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.surfaces.notify.notice.messages import go_json
from haulout.surfaces.notify.notice.status import with_condition
from haulout.surfaces.notify.wire import NoticeRow, Status

CONDITION, RECORDED = "baseline", "recorded"
# A kubelet writes the texts of its Node. What is longer or more is left out of the baseline.
MOST_RESOURCES, LONGEST_NAME, LONGEST_TEXT = 64, 316, 256


class Baseline(msgspec.Struct, frozen=True):
    """The state of a node before its maintenance. Fields that cannot be read are empty."""

    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    kernel: str = ""
    kubelet: str = ""
    capacity: Mapping[str, str] = {}


def with_baseline(status: Status, node: NodeRow, now: datetime) -> Status:
    """Return the status with the baseline of the node; unchanged if it has one."""
    if status.condition(CONDITION) is not None:
        return status
    return with_condition(status, CONDITION, RECORDED, now, "Recorded", _taken(node))


def _taken(node: NodeRow) -> str:
    details = node.details
    return go_json(
        {
            "nodeUID": node.uid,
            "bootID": node.boot_id,
            "kernel": details.kernel[:LONGEST_TEXT] if details else "",
            "kubelet": node.kubelet_version[:LONGEST_TEXT],
            "capacity": _bounded(details.capacity) if details else {},
        }
    ).decode()


def _bounded(amounts: Mapping[str, str]) -> dict[str, str]:
    short = [(name, text) for name, text in amounts.items() if len(name) <= LONGEST_NAME and len(text) <= LONGEST_TEXT]
    return dict(short[:MOST_RESOURCES])


def recorded_baseline(status: Status) -> str:
    """Return the baseline as JSON; empty if none is recorded."""
    found = status.condition(CONDITION)
    return found.message if found is not None else ""


def baseline_of(row: NoticeRow) -> Baseline:
    try:
        return msgspec.json.decode(recorded_baseline(row.status) or "{}", type=Baseline)
    except (msgspec.DecodeError, RecursionError):
        return Baseline()


def has_rebooted(row: NoticeRow, node: NodeRow) -> bool:
    """Whether the node's boot id differs from the one before its maintenance."""
    before = baseline_of(row).boot_id
    return bool(before) and bool(node.boot_id) and node.boot_id != before


def ready_at(node: NodeRow, ready_for: timedelta) -> datetime | None:
    """Return when the node will have been Ready for `ready_for`; None while it is not Ready."""
    since = node.details.ready_since if node.details else None
    return since + ready_for if node.ready and since is not None else None
