"""The time limit of a stage: a pod that exceeds it has failed, and is created again as often as the settings allow."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.base import duration
from haulout.surfaces.packages.node_state import ERRORING, Entry
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.outcome import Result
from haulout.surfaces.packages.pod_rows import PackagePodRow
from haulout.surfaces.packages.wire import Package


def ends_at(pod: PackagePodRow, package: Package | None, options: Options) -> datetime | None:
    """Return when a pod exceeds the time limit of its stage; None if it has none or has succeeded."""
    limit = _limit(package) if package is not None and package.stage_timeout is not None else options.stage_for
    if not limit or pod.created_at is None or pod.verdict.result is Result.SUCCEEDED:
        return None
    return pod.created_at + limit


def overdue(entry: Entry, options: Options) -> tuple[Entry, bool]:
    """Return the entry of a stage that exceeded its time limit, and whether its pod is to be created again."""
    if entry.restarts < options.stage_retries:
        return msgspec.structs.replace(entry, state=ERRORING, restarts=entry.restarts + 1), True
    return msgspec.structs.replace(entry, state=ERRORING), False


def _limit(package: Package) -> timedelta | None:
    try:
        return duration.parse(package.stage_timeout or "0s")
    except duration.DurationError:
        return None
