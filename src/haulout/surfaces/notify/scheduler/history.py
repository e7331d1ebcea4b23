"""How long finite pods ran, by workload: the last samples of each, and how they are stored."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from haulout.cluster.rows import PodRow
from haulout.surfaces.notify.declare import HISTORY

MIN_SAMPLES = 5
MOST_SAMPLES = 50
MOST_WORKLOADS = 2000
# The ConfigMap in the namespace of the product, and its key.
CONFIGMAP, CONTENT = HISTORY, "history.json"
_ORDINAL = re.compile(r"(-\d+)+\Z")

# Seconds, the latest last.
Samples = tuple[float, ...]
# By workload, the least recently used first.
History = Mapping[str, Samples]

_DECODER = msgspec.json.Decoder(dict[str, tuple[float, ...]])


def workload_of(pod: PodRow) -> str:
    """Return the workload whose pods are expected to run equally long: the controller without the number of a run."""
    owner = pod.controller
    if owner is not None:
        return f"{pod.key.namespace}/{owner.kind}/{_ORDINAL.sub('', owner.name)}"
    name = pod.labels.get("app") or pod.labels.get("app.kubernetes.io/name") or pod.key.name
    return f"{pod.key.namespace}/Pod/{name}"


def with_samples(history: History, samples: Iterable[tuple[str, float]]) -> dict[str, Samples]:
    """Return the history with further samples. Only the last ones of the workloads used last are kept."""
    found = dict(history)
    for workload, seconds in samples:
        # Put in anew, so that it is the last in order.
        known = found.pop(workload, ())
        found[workload] = (*known, round(seconds, 3))[-MOST_SAMPLES:]
    return dict(list(found.items())[-MOST_WORKLOADS:])


def encoded(history: History) -> str:
    return msgspec.json.encode(history).decode()


def decoded(text: str) -> dict[str, Samples] | None:
    """Return the history that a text holds, within its bounds; None if it cannot be read."""
    try:
        read = _DECODER.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    kept = list(read.items())[-MOST_WORKLOADS:]
    return {workload: tuple(samples[-MOST_SAMPLES:]) for workload, samples in kept}
