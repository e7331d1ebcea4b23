"""The gauges of NotifyMaintenances, computed when metrics are scraped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from haulout.surfaces.notify.declared_metrics import STATUS_GAUGE
from haulout.surfaces.notify.notice.completion import labels_of
from haulout.surfaces.notify.notice.states import is_released, is_terminal
from haulout.surfaces.notify.wire import NoticeRow

Sample = tuple[str, tuple[tuple[str, str], ...], float]
ORPHANED_AFTER_FOR = timedelta(days=7)


def samples(rows: Iterable[NoticeRow], now: datetime) -> Iterator[Sample]:
    """Yield a gauge with the status of each live maintenance, and one for each that is older than a week."""
    for row in rows:
        if row.state and not is_terminal(row) and not is_released(row):
            labels = tuple(sorted((*labels_of(row), ("maintenance_status", row.state))))
            yield STATUS_GAUGE, labels, 1.0
        if row.created_at is not None and now - row.created_at > ORPHANED_AFTER_FOR:
            names = (("nm_name", row.key.name), ("nm_namespace", row.key.namespace))
            yield "pika_orphaned_maintenance_objects", names, 1.0
    yield "pika_planned_maintenance_state", (), 0.0
