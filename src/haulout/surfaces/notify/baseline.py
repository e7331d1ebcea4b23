"""The state of a node before its maintenance, kept in an annotation to detect reboots and lost devices."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.surfaces.notify.messages import go_json
from haulout.surfaces.notify.wire import BASELINE, NoticeRow


class Baseline(msgspec.Struct, frozen=True):
    """The state of a node before its maintenance. Fields that cannot be read are empty."""

    node_uid: str = msgspec.field(default="", name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    kernel: str = ""
    kubelet: str = ""
    capacity: Mapping[str, str] = {}


def taken(node: NodeRow) -> str:
    """Return the annotation that records the node as it is now."""
    details = node.details
    return go_json(
        {
            "nodeUID": node.uid,
            "bootID": node.boot_id,
            "kernel": details.kernel if details else "",
            "kubelet": node.kubelet_version,
            "capacity": dict(details.capacity) if details else {},
        }
    ).decode()


def baseline_of(row: NoticeRow) -> Baseline:
    try:
        return msgspec.json.decode(row.annotations.get(BASELINE, "{}"), type=Baseline)
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
