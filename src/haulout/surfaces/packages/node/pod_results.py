"""How the results of a node's pods, and the time limits of their stages, change its entries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

import msgspec

from haulout.base import duration
from haulout.core.action import Tell
from haulout.core.decision import earliest
from haulout.surfaces.packages.entries.changes import after_interrupt, after_success
from haulout.surfaces.packages.entries.entry import (
    COMPLETE,
    ERRORING,
    IN_PROGRESS,
    INTERRUPT,
    NodeState,
    PackageEntry,
    entry_key,
)
from haulout.surfaces.packages.node.situation import VisitSituation
from haulout.surfaces.packages.node.work import VisitWork
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.bodies import About
from haulout.surfaces.packages.pods.jobs import PackageJobRow
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.pods.verdict import PodResult
from haulout.surfaces.packages.wire import Package

replace = msgspec.structs.replace


def with_results(state: NodeState, situation: VisitSituation) -> VisitWork:
    """Return the entries after the results of the pods, and the pods that can be deleted."""
    current, tells, over = dict(state), list[Tell](), list[PackagePodRow]()
    until: datetime | None = None
    for pod in situation.pods:
        if pod.about is None or pod.deleting_at is not None:
            continue
        if pod.about.invalid:
            over.append(pod)
            continue
        entry = current.get(entry_key(pod.about.name, pod.about.version))
        if entry is None or entry.stage != pod.about.stage:
            # The pod's stage is not the one that the entry is at. `pods.validity` decides whether it is deleted.
            continue
        if isinstance(pod, PackageJobRow) and pod.is_refused:
            # The kubelet has started none of its pods, so that the package has not failed.
            over.append(pod)
            continue
        packages = situation.intent.packages
        result = _result_of(pod, situation.options)
        changed = _recorded(current, entry, pod, result, packages)
        if result is PodResult.SUCCEEDED:
            over.append(pod)
        tells += _events(situation, entry, changed, pod, result)
        current = changed
        package = packages.get(entry.name)
        limit_at = _ends_at(pod, package, situation)
        if limit_at is not None and limit_at <= situation.now:
            late, is_retried = _overdue(entry, situation)
            current = {**current, entry.key: late}
            over += [pod] if is_retried else []
        until = earliest(until, limit_at if limit_at is not None and limit_at > situation.now else None)
    return VisitWork(current, tuple(tells), old_pods=tuple(over), until=until)


def _ends_at(pod: PackagePodRow, package: Package | None, situation: VisitSituation) -> datetime | None:
    """Return when a pod exceeds the time limit of its stage; None if it has none or has succeeded.

    A Job has its own limit. A pod that was made before its stages were to run in Jobs has only that of its package.
    """
    options, group = situation.options, situation.intent.group
    limit = timedelta() if options.runs_jobs(group) else options.stage_limit(group)
    if package is not None and package.stage_timeout is not None:
        limit = _limit(package) or timedelta()
    if pod.is_job or not limit or pod.created_at is None or pod.verdict.result is PodResult.SUCCEEDED:
        return None
    return pod.created_at + limit


def _overdue(entry: PackageEntry, situation: VisitSituation) -> tuple[PackageEntry, bool]:
    """Return the entry of a stage that exceeded its time limit, and whether its pod is to be created again."""
    if entry.restarts < situation.options.retries(situation.intent.group):
        return replace(entry, state=ERRORING, restarts=entry.restarts + 1), True
    return replace(entry, state=ERRORING), False


def _limit(package: Package) -> timedelta | None:
    try:
        return duration.parse(package.stage_timeout or "0s")
    except duration.DurationError:
        return None


def _result_of(pod: PackagePodRow, options: Options) -> PodResult:
    """Return the result of a pod. A container that cannot be started fails unless the settings say otherwise."""
    found = pod.verdict
    return PodResult.WAITING if found.container.is_unstartable and not options.unstartable_fails else found.result


def _recorded(
    state: NodeState, entry: PackageEntry, pod: PackagePodRow, result: PodResult, packages: Mapping[str, Package]
) -> dict[str, PackageEntry]:
    """Return the entries after the result of one pod. `entry`: the entry of the pod's package, at the pod's stage."""
    restarts = pod.verdict.container.restarts
    match result:
        case PodResult.SUCCEEDED:
            done = replace(entry, restarts=restarts) if entry.stage != INTERRUPT else entry
            changed = after_success(state, done, packages)
            return after_interrupt(changed, packages.values()) if not pod.is_package else changed
        case PodResult.FAILED:
            return {**state, entry.key: replace(entry, state=ERRORING, restarts=max(restarts, 0))}
        case PodResult.RUNNING if entry.state == ERRORING and not entry.restarts and not restarts:
            # A pod that could not be started runs now, so it has recovered. A crashed one that runs again has restarts,
            # and has not.
            return {**state, entry.key: replace(entry, state=IN_PROGRESS)}
        case _:
            return dict(state)


def _events(
    situation: VisitSituation, before: PackageEntry, after: NodeState, pod: PackagePodRow, result: PodResult
) -> tuple[Tell, ...]:
    if result is PodResult.SUCCEEDED and not situation.intent.is_crowded:
        word = COMPLETE
    elif result is PodResult.FAILED and before.state != ERRORING:
        word = ERRORING
    else:
        return ()
    if after.get(before.key) == before:
        return ()
    named = f"Package [{before.name}:{before.version}]"
    tells = [situation.tell_node("Apply", f"{named} state {word} on [skyhook:{situation.intent.skyhook}]")]
    if word == ERRORING and (failure := pod.verdict.container.failure):
        tells.append(
            situation.tell_node("Failed", f"{named} failed in stage [{before.stage}]: {failure}", warning=True)
        )
    return tuple(tells)


def orphan_result(state: NodeState, pod: PackagePodRow, about: About, options: Options) -> dict[str, PackageEntry]:
    """Return the entries after the result of a pod whose Skyhook does not exist."""
    entry = state.get(entry_key(about.name, about.version)) or PackageEntry(
        about.name, about.version, about.image, about.container_sha
    )
    staged = replace(entry, stage=about.stage, state=entry.state or IN_PROGRESS)
    result = _result_of(pod, options)
    changed = _recorded(state, staged, pod, result, {})
    return changed if result in (PodResult.SUCCEEDED, PodResult.FAILED) else dict(state)
