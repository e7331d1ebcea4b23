"""How the results of a node's pods change its entries."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import msgspec

from haulout.core.action import Tell
from haulout.core.decision import earliest
from haulout.surfaces.packages import stage_time
from haulout.surfaces.packages.changes import after_success, unskipped
from haulout.surfaces.packages.node_state import (
    COMPLETE,
    ERRORING,
    IN_PROGRESS,
    INTERRUPT,
    Entry,
    NodeState,
    entry_key,
)
from haulout.surfaces.packages.outcome import Result
from haulout.surfaces.packages.pod_rows import PackagePodRow
from haulout.surfaces.packages.pods import About
from haulout.surfaces.packages.situation import Scene, Work
from haulout.surfaces.packages.wire import Package

replace = msgspec.structs.replace


def with_results(state: NodeState, scene: Scene) -> Work:
    """Return the entries after the results of the pods, and the pods that can be deleted."""
    current, tells, over = dict(state), list[Tell](), list[PackagePodRow]()
    until: datetime | None = None
    for pod in scene.pods:
        if pod.about is None or pod.deleting_at is not None:
            continue
        if pod.about.invalid:
            over.append(pod)
            continue
        entry = current.get(entry_key(pod.about.name, pod.about.version))
        if entry is None or entry.stage != pod.about.stage:
            # The pod's stage is not the one that the entry is at. `validation` decides whether it is deleted.
            continue
        changed = recorded(current, entry, pod, scene.plan.packages)
        if pod.verdict.result is Result.SUCCEEDED:
            over.append(pod)
        tells += _events(scene, entry, changed, pod)
        current = changed
        package = scene.plan.packages.get(entry.name)
        limit_at = stage_time.ends_at(pod, package, scene.options)
        if limit_at is not None and limit_at <= scene.now:
            late, is_retried = stage_time.overdue(entry, scene.options)
            current = {**current, entry.key: late}
            over += [pod] if is_retried else []
        until = earliest(until, limit_at if limit_at is not None and limit_at > scene.now else None)
    return Work(current, tuple(tells), old_pods=tuple(over), until=until)


def recorded(state: NodeState, entry: Entry, pod: PackagePodRow, packages: Mapping[str, Package]) -> dict[str, Entry]:
    """Return the entries after the result of one pod. `entry`: the entry of the pod's package, at the pod's stage."""
    verdict = pod.verdict
    restarts = verdict.container.restarts
    match verdict.result:
        case Result.SUCCEEDED:
            done = replace(entry, restarts=restarts) if entry.stage != INTERRUPT else entry
            changed = after_success(state, done, packages)
            return unskipped(changed, packages.values()) if not pod.is_package else changed
        case Result.FAILED:
            return {**state, entry.key: replace(entry, state=ERRORING, restarts=max(restarts, 0))}
        case Result.RUNNING if entry.state == ERRORING and not entry.restarts and not restarts:
            # A pod that could not be started runs now, so it has recovered. A crashed one that runs again has restarts,
            # and has not.
            return {**state, entry.key: replace(entry, state=IN_PROGRESS)}
        case _:
            return dict(state)


def _events(scene: Scene, before: Entry, after: NodeState, pod: PackagePodRow) -> tuple[Tell, ...]:
    result = pod.verdict.result
    if result is Result.SUCCEEDED and not scene.plan.is_crowded:
        word = COMPLETE
    elif result is Result.FAILED and before.state != ERRORING:
        word = ERRORING
    else:
        return ()
    if after.get(before.key) == before:
        return ()
    named = f"Package [{before.name}:{before.version}]"
    tells = [scene.tell_node("Apply", f"{named} state {word} on [skyhook:{scene.plan.skyhook}]")]
    if word == ERRORING and (failure := pod.verdict.container.failure):
        tells.append(scene.tell_node("Failed", f"{named} failed in stage [{before.stage}]: {failure}", warning=True))
    return tuple(tells)


def orphaned(state: NodeState, pod: PackagePodRow, about: About) -> dict[str, Entry]:
    """Return the entries after the result of a pod whose Skyhook does not exist."""
    entry = state.get(entry_key(about.name, about.version)) or Entry(
        about.name, about.version, about.image, about.container_sha
    )
    staged = replace(entry, stage=about.stage, state=entry.state or IN_PROGRESS)
    changed = recorded(state, staged, pod, {})
    return changed if pod.verdict.result in (Result.SUCCEEDED, Result.FAILED) else dict(state)
