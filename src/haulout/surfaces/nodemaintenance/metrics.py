"""The gauges of the nodemaintenance surface: phase, progress and pending pods of each maintenance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from haulout.surfaces.nodemaintenance.wire import MaintenanceRow

Sample = tuple[str, tuple[tuple[str, str], ...], float]


def samples(rows: Iterable[MaintenanceRow]) -> Iterator[Sample]:
    """Yield the gauges of every maintenance."""
    for row in rows:
        name = (("name", row.key.name), ("node", row.node))
        yield "nodemaintenance_info", (*name, ("phase", row.status.phase)), 1.0
        yield "nodemaintenance_drain_progress_ratio", name, row.status.drain_progress / 100
        yield "nodemaintenance_pending_pods", name, float(len(row.status.pending_pods_refs))
