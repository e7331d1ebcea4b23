"""How long the stages of packages took on a node, for forecasts. It is stored in the write that records a result."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta

import msgspec

from haulout.base import bounds
from haulout.surfaces.packages.entries.entry import go_json
from haulout.surfaces.packages.node.names import STAGE_TIMES_PREFIX
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.pods.verdict import PodResult

# For each package and stage, the seconds that its last run took.
Times = dict[str, dict[str, int]]
_DECODER = msgspec.json.Decoder(dict[str, dict[str, int]])


def with_runs(text: str | None, pods: Iterable[PackagePodRow], packages: Collection[str]) -> str | None:
    """Return the annotation with the times of these pods added; unchanged if none of them has a time.

    `packages`: the packages to keep in it.
    """
    times, found = _read(text), False
    for pod in pods:
        seconds = _seconds(pod)
        if seconds is not None and pod.about is not None and pod.about.name in packages:
            times.setdefault(pod.about.name, {})[pod.about.stage] = seconds
            found = True
    if not found:
        return text
    return go_json({name: dict(sorted(times[name].items())) for name in sorted(times) if name in packages})


def _seconds(pod: PackagePodRow) -> int | None:
    """Return the time from a pod's creation to its success, which includes pulls, waits and reboots; None if unknown.

    A package with restarts has failed before, so its time says nothing about the next node.
    """
    verdict = pod.verdict
    if verdict.result is not PodResult.SUCCEEDED or pod.created_at is None or verdict.container.ended_at is None:
        return None
    if pod.is_package and any(each.restarts for each in pod.containers):
        return None
    return max(0, int((verdict.container.ended_at - pod.created_at).total_seconds()))


def seen_times(nodes: Iterable[Mapping[str, str]]) -> dict[tuple[str, str], tuple[timedelta, int]]:
    """Return, for each package and stage, the median time over these nodes and the number of nodes.

    `nodes`: the annotations of each node.
    """
    found: dict[tuple[str, str], list[int]] = {}
    for notes in nodes:
        for name, text in notes.items():
            if name.startswith(STAGE_TIMES_PREFIX):
                for package, stages in _read(text).items():
                    for stage, seconds in stages.items():
                        found.setdefault((package, stage), []).append(bounds.seconds(max(0, seconds)))
    return {key: (timedelta(seconds=statistics.median(times)), len(times)) for key, times in found.items()}


def _read(text: str | None) -> Times:
    try:
        return _DECODER.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        return {}
