"""One-line builders of rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from haulout.cluster.key import node_key
from haulout.cluster.rows import NodeRow

START = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def node(
    name: str,
    *,
    version: int = 1,
    uid: str = "",
    cordoned: bool = False,
    annotations: dict[str, str] | None = None,
    cluster: str = "",
    labels: Mapping[str, str] = {},
    **more: str,
) -> NodeRow:
    return NodeRow(
        key=node_key(name, cluster),
        uid=uid or f"uid-{name}",
        version=version,
        labels={**labels, **more},
        annotations=annotations or {},
        unschedulable=cordoned,
        conditions=(("Ready", "True"),),
    )
