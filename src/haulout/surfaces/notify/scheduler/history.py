"""The history of run times of finite pods: the last samples of each workload, and how they are stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import PodRow, Value
from haulout.cluster.view import MARK, View
from haulout.surfaces.notify.declare import HISTORY

MIN_SAMPLES = 5
MOST_SAMPLES = 50
MOST_WORKLOADS = 2000
# The ConfigMap in the namespace of Haulout, and the key in its data.
CONFIGMAP, CONTENT = HISTORY, "history.json"
# The kind of the rows with run times: one for each workload, so that an estimate reads only its own.
SAMPLES = "notify-samples"
_ORDINAL = re.compile(r"(-\d+)+\Z")

# Run times in seconds, the latest last.
Samples = tuple[float, ...]
# The samples of each workload, the least recently used workload first.
History = Mapping[str, Samples]

_DECODER = msgspec.json.Decoder(dict[str, tuple[float, ...]])


def workload_of(pod: PodRow) -> str:
    """Return the name of the workload whose pods are expected to run equally long.

    It is made of the controller's name without the number of a run, so that all runs of a CronJob are one workload.
    """
    owner = pod.controller
    if owner is not None:
        return f"{pod.key.namespace}/{owner.kind}/{_ORDINAL.sub('', owner.name)}"
    name = pod.labels.get("app") or pod.labels.get("app.kubernetes.io/name") or pod.key.name
    return f"{pod.key.namespace}/Pod/{name}"


def samples_key(workload: str) -> Key:
    return Key("", MARK, SAMPLES, workload)


def samples_of(view: View, pod: PodRow) -> Samples:
    """Return how long the pods of the same workload ran."""
    row = view.get(samples_key(workload_of(pod)), Value)
    return row.value if row is not None and isinstance(row.value, tuple) else ()


def with_samples(history: History, samples: Iterable[tuple[str, float]]) -> dict[str, Samples]:
    """Return the history with further samples. Only the latest samples of the latest workloads are kept."""
    found = dict(history)
    for workload, seconds in samples:
        # The workload is inserted again, so that it becomes the last in order.
        known = found.pop(workload, ())
        found[workload] = (*known, round(seconds, 3))[-MOST_SAMPLES:]
    return dict(list(found.items())[-MOST_WORKLOADS:])


def encode_history(history: History) -> str:
    return msgspec.json.encode(history).decode()


def decode_history(text: str) -> dict[str, Samples] | None:
    """Return the history in a text, cut to its limits; None if it cannot be read."""
    try:
        read = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    kept = list(read.items())[-MOST_WORKLOADS:]
    return {workload: tuple(samples[-MOST_SAMPLES:]) for workload, samples in kept}
