"""The rows with the run times of workloads: one for each workload, so that an estimate reads only its own."""

from __future__ import annotations

from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow, Value
from haulout.cluster.view import MARK, View
from haulout.surfaces.notify.scheduler.history import Samples, workload_of

SAMPLES = "notify-samples"


def samples_key(workload: str) -> Key:
    return Key("", MARK, SAMPLES, workload)


def samples_of(view: View, pod: PodRow) -> Samples:
    """Return how long the pods of the same workload ran."""
    row = view.get(samples_key(workload_of(pod)), Value)
    return row.value if row is not None and isinstance(row.value, tuple) else ()
