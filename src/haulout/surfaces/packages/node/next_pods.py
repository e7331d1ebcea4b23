"""The next pods of a picked node: which packages may run, at which stage, and behind which gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from haulout.core.action import Tell
from haulout.surfaces.packages.entries.changes import new_entry
from haulout.surfaces.packages.entries.entry import (
    COMPLETE,
    CONFIG,
    ERRORING,
    IN_PROGRESS,
    INTERRUPT,
    POST_INTERRUPT,
    SKIPPED,
    UNINSTALL,
    UNINSTALL_INTERRUPT,
    NodeState,
    PackageEntry,
    entry_key,
)
from haulout.surfaces.packages.entries.interrupts import Group, group_of, interrupts_of
from haulout.surfaces.packages.entries.stages import LEAVING, complete_keys, has_interrupt, is_unwanted, next_stage
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.node.reruns import reruns_of
from haulout.surfaces.packages.node.situation import VisitSituation
from haulout.surfaces.packages.node.work import NewPod, VisitWork
from haulout.surfaces.packages.pods import bodies, names
from haulout.surfaces.packages.pods.job_bodies import job_of
from haulout.surfaces.packages.pods.jobs import PackageJobRow
from haulout.surfaces.packages.pods.rows import PackagePodRow
from haulout.surfaces.packages.skyhook.applied import for_uninstall
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.specs.image_rules import package_problem
from haulout.surfaces.packages.wire import Interrupt, Package

replace = msgspec.structs.replace


class StageRun(msgspec.Struct, frozen=True):
    """One package to run on a node, with the stage that is next.

    `entry`: its entry on the node; None if it has none.
    """

    package: Package
    stage: str
    entry: PackageEntry | None

    @property
    def key(self) -> str:
        return entry_key(self.package.name, self.package.version)


def to_run(situation: VisitSituation, state: NodeState) -> list[StageRun]:
    """Return the packages to run, sorted by name: those to uninstall, and those whose dependencies are complete."""
    intent = situation.intent
    done = complete_keys(intent.packages.values(), state, intent.updates)
    leaving = [
        StageRun(_to_uninstall(entry, intent), entry.stage, entry)
        for entry in state.values()
        if entry.stage in LEAVING and entry.state in (IN_PROGRESS, ERRORING)
    ]
    if intent.is_uninstalling:
        return sorted(leaving, key=lambda run: run.key)
    leaving_keys = {run.key for run in leaving}
    others = [
        StageRun(package, stage, state.get(package.key))
        for package in _runnable(intent.packages.values(), done)
        if package.key not in leaving_keys
        and (stage := next_stage(state.get(package.key), package, intent.updates)) is not None
    ]
    return sorted([*leaving, *others], key=lambda run: (run.package.name, run.key))


def _runnable(packages: Iterable[Package], complete: frozenset[str]) -> list[Package]:
    """Return the packages that may run, sorted by name. Packages without dependencies all come before the others."""
    missing = [package for package in sorted(packages, key=lambda each: each.name) if package.key not in complete]
    roots = [package for package in missing if not package.depends_on]
    return roots or [package for package in missing if _needs(package) <= complete]


def _needs(package: Package) -> frozenset[str]:
    return frozenset(entry_key(name, version) for name, version in package.depends_on.items())


def refusals_of(situation: VisitSituation, state: NodeState) -> Iterator[str]:
    """Yield why packages are not uninstalled: their images, as the node or the record has them, are not allowed."""
    if situation.intent.acts and situation.options.has_image_rules:
        leaving = (run.package for run in to_run(situation, state) if run.stage in LEAVING)
        yield from filter(None, (package_problem(package, situation.options) for package in leaving))


def _to_uninstall(entry: PackageEntry, intent: Intent) -> Package:
    """Return the package to uninstall an entry with: that of the Skyhook if it has the version, else the record."""
    package = intent.packages.get(entry.name)
    if package is not None and package.version == entry.version and is_unwanted(package):
        return package
    return for_uninstall(entry, intent.departed.get(entry.key))


def needs_gate(situation: VisitSituation, run: StageRun) -> bool:
    """Whether the node has to be cordoned and drained before this stage.

    The uninstallation of a removed or replaced version never needs that.
    """
    if run.stage == UNINSTALL_INTERRUPT:
        return True
    return run.stage not in (POST_INTERRUPT, UNINSTALL) and has_interrupt(run.package, situation.intent.updates)


def group_interrupt(situation: VisitSituation, runs: list[StageRun]) -> Group | None:
    """Return the interrupt that serves all packages that still need one; None if no package does."""
    updates = situation.intent.updates
    waiting = [run for run in runs if run.stage not in (POST_INTERRUPT, *LEAVING)]
    return group_of((run.package, interrupts_of(run.package, updates.get(run.package.name, ()))) for run in waiting)


def advance(situation: VisitSituation, state: NodeState) -> VisitWork:
    """Return the next pods of a picked node, with the entries that record them."""
    runs = to_run(situation, state)
    group = group_interrupt(situation, runs)
    current, new_pods, taken, over = dict(state), list[NewPod](), list[str](), list[PackagePodRow]()
    busy = bool(situation.pods)
    for run in runs:
        if situation.intent.spec.serial and (busy or new_pods):
            break
        step = _step(situation, current, run, runs, group)
        if step is None:
            continue
        entry, pod = step
        if pod is not None and (found := situation.pod_at(pod.key)) is not None:
            # The name is free when the pod or Job of that name is gone: one of another Skyhook or node, or a Job of an
            # earlier run of the same stage.
            if not _is_earlier_run(found, situation):
                taken.append(pod.key.name)
            elif found.deleting_at is None:
                over.append(found)
            continue
        current[entry.key] = entry
        new_pods += [pod] if pod is not None else []
    return VisitWork(current, new_pods=tuple(new_pods), old_pods=tuple(over), taken_names=tuple(taken))


def _is_earlier_run(found: PackagePodRow, situation: VisitSituation) -> bool:
    own = situation.intent.skyhook, situation.node.key.name
    return isinstance(found, PackageJobRow) and (found.skyhook, found.node) == own


def _step(
    situation: VisitSituation, state: NodeState, run: StageRun, runs: list[StageRun], group: Group | None
) -> tuple[PackageEntry, NewPod | None] | None:
    """Return the new entry of one package, and its pod if it gets one; None if the package waits."""
    entry, package = run.entry, run.package
    if entry is not None and entry.state == SKIPPED:
        # No interrupt will serve this skipped package, because its carrier has continued without it. It goes back to
        # before its interrupt.
        stuck = entry.stage == INTERRUPT and (group is None or group.carrier == run.key)
        return (replace(entry, stage=CONFIG, state=COMPLETE), None) if stuck else None
    if _has_pod(situation, package) or package_problem(package, situation.options):
        return None
    if needs_gate(situation, run) and not situation.gate(package):
        return None
    if run.stage == UNINSTALL_INTERRUPT:
        assert package.interrupt is not None
        return _interrupted(situation, state, run, package.interrupt)
    if run.stage == INTERRUPT:
        return _interrupting(situation, state, run, runs, group)
    if not _is_published(situation.intent, run):
        return None
    return _started(situation, run)


def _is_published(intent: Intent, run: StageRun) -> bool:
    """Whether the package's ConfigMap is ready for its pod.

    An uninstallation that a person asked for runs with the ConfigMap as it is.
    """
    key = run.package.key
    return key in intent.published or (run.stage == UNINSTALL and key not in intent.departed)


def _has_pod(situation: VisitSituation, package: Package) -> bool:
    label = names.package_label(package.name, package.version)
    return any(pod.package == label for pod in situation.pods)


def _interrupting(
    situation: VisitSituation, state: NodeState, run: StageRun, runs: list[StageRun], group: Group | None
) -> tuple[PackageEntry, NewPod | None] | None:
    interrupted = run.entry is not None and run.entry.stage == INTERRUPT
    if group is not None and group.carrier != run.key and not interrupted:
        assert run.entry is not None
        return replace(run.entry, stage=INTERRUPT, state=SKIPPED, restarts=0), None
    if situation.all_pods or not all(
        _awaits_interrupt(situation, state, other) for other in runs if other.key != run.key
    ):
        return None
    own = interrupts_of(run.package, situation.intent.updates.get(run.package.name, ()))
    chosen = group if group is not None and group.carrier == run.key else group_of([(run.package, own)])
    return _interrupted(situation, state, run, chosen.interrupt) if chosen is not None else None


def _awaits_interrupt(situation: VisitSituation, state: NodeState, run: StageRun) -> bool:
    """Whether a package needs no other stage before the common interrupt may run."""
    if not has_interrupt(run.package, situation.intent.updates) or run.stage in (POST_INTERRUPT, *LEAVING):
        return True
    return run.stage == INTERRUPT


def _interrupted(
    situation: VisitSituation, state: NodeState, run: StageRun, interrupt: Interrupt
) -> tuple[PackageEntry, NewPod]:
    package, node = run.package, situation.node.key.name
    directory = recorded_directory(situation, package) or bodies.copy_dir(situation.place, package)
    body = bodies.interrupt_pod(situation.place_in_order, package, interrupt, directory, run.stage)
    note = f"Interrupting node [{node}] package [{package.name}:{package.version}] from [skyhook:{situation.intent.skyhook}]"
    entry = _entered(run, situation)
    return entry, NewPod(_executor(situation, run, body), (situation.tell_skyhook("Interrupt", note),))


def _executor(situation: VisitSituation, run: StageRun, body: dict[str, Any]) -> dict[str, Any]:
    """Return what runs a stage: the pod of this body, or a Job of such pods."""
    return job_of(situation.place, run.package, run.stage, body) if situation.runs_jobs else body


def _started(situation: VisitSituation, run: StageRun) -> tuple[PackageEntry, NewPod]:
    package, node, skyhook = run.package, situation.node.key.name, situation.intent.skyhook
    named = f"[{package.name}:{package.version}]"
    tells: tuple[Tell, ...] = ()
    if not situation.intent.is_crowded:
        tells = (
            situation.tell_node("Apply", f"Applying package {named} from [skyhook:{skyhook}] stage [{run.stage}]"),
            situation.tell_skyhook("Apply", f"Applying package {named} to node [{node}] stage [{run.stage}]"),
        )
    reruns = package.name in reruns_of(situation.node, skyhook)
    body = bodies.package_pod(situation.place_in_order, package, run.stage, reruns=reruns)
    made = _executor(situation, run, body)
    return _entered(run, situation), NewPod(made, tells, bodies.copy_dir(situation.place, package))


def _entered(run: StageRun, situation: VisitSituation) -> PackageEntry:
    """Return the entry with its stage in progress.

    An entry that is being uninstalled keeps all fields but its state. Any other entry is made from the package.
    """
    if run.entry is None or run.stage not in LEAVING:
        known = run.entry
        kept = known.restarts if known is not None and _is_retry(known, run, situation) else 0
        return new_entry(run.package, run.stage, IN_PROGRESS, kept)
    return replace(run.entry, state=IN_PROGRESS)


def _is_retry(entry: PackageEntry, run: StageRun, situation: VisitSituation) -> bool:
    """Whether the restarts of the entry are kept: the stage took too long and is tried again."""
    return (
        situation.options.retries(situation.intent.group) > 0 and entry.stage == run.stage and entry.state != COMPLETE
    )


def recorded_directory(situation: VisitSituation, package: Package) -> str:
    """Return the directory that the first pod of the package was given, from the node's annotation; empty if none."""
    return next((each for each in recorded_directories(situation) if is_directory_of(situation, package, each)), "")


def recorded_directories(situation: VisitSituation) -> Iterator[str]:
    text = situation.node.annotations.get(node_names.copy_dir(situation.intent.skyhook), "")
    return iter(filter(None, text.split(",")))


def is_directory_of(situation: VisitSituation, package: Package, directory: str) -> bool:
    stem = f"{situation.options.copy_dir_root}/{situation.intent.skyhook}/{package.name}-{package.version}-"
    return directory.startswith(stem)
