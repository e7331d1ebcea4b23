"""Counts the pods that were made to go, for the nodes whose maintenance is recorded."""

from __future__ import annotations

import msgspec

from haulout.cluster.rows import PodRow, Row
from haulout.cluster.store import Store
from haulout.core.action import Evict
from haulout.core.logbook.notes import MovedPods, note_key
from haulout.kernel.jobs import Job


def count_moved_pod(store: Store, job: Job, row: Row | None) -> None:
    """Count an eviction or deletion that the API server has accepted. No decision reads the number until the record is closed."""
    if not job.ends or not isinstance(row, PodRow):
        return
    counts = store.row(note_key("moved", row.node, row.key.cluster))
    if isinstance(counts, MovedPods):
        field = "evicted" if isinstance(job.other, Evict) else "deleted"
        store.write(msgspec.structs.replace(counts, **{field: getattr(counts, field) + 1}))
