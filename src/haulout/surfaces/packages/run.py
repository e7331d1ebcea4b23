"""The next pods of a picked node: which packages may run, at which stage, and behind which gate."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from haulout.core.action import Tell
from haulout.surfaces.packages import names, node_names, pods
from haulout.surfaces.packages.applied import for_uninstall
from haulout.surfaces.packages.changes import new_entry
from haulout.surfaces.packages.image_rules import package_problem
from haulout.surfaces.packages.interrupts import Group, group_of, interrupts_of
from haulout.surfaces.packages.node_state import (
    COMPLETE,
    CONFIG,
    ERRORING,
    IN_PROGRESS,
    INTERRUPT,
    POST_INTERRUPT,
    SKIPPED,
    UNINSTALL,
    UNINSTALL_INTERRUPT,
    Entry,
    NodeState,
    entry_key,
)
from haulout.surfaces.packages.options import ImageRules
from haulout.surfaces.packages.plan import PlanRow
from haulout.surfaces.packages.reruns import reruns_of
from haulout.surfaces.packages.runnable import runnable
from haulout.surfaces.packages.situation import NewPod, Scene, Work
from haulout.surfaces.packages.stages import LEAVING, complete_keys, has_interrupt, is_unwanted, next_stage
from haulout.surfaces.packages.wire import Interrupt, Package

replace = msgspec.structs.replace


class Run(msgspec.Struct, frozen=True):
    """One package to run on a node, with the stage that is next.

    `entry`: its entry on the node; None if it has none.
    """

    package: Package
    stage: str
    entry: Entry | None

    @property
    def key(self) -> str:
        return entry_key(self.package.name, self.package.version)


def to_run(scene: Scene, state: NodeState) -> list[Run]:
    """Return the packages to run, sorted by name: those to uninstall, and those whose dependencies are complete."""
    plan = scene.plan
    done = complete_keys(plan.packages.values(), state, plan.updates)
    leaving = [
        Run(_to_uninstall(entry, plan), entry.stage, entry)
        for entry in state.values()
        if entry.stage in LEAVING and entry.state in (IN_PROGRESS, ERRORING)
    ]
    if plan.is_uninstalling:
        return sorted(leaving, key=lambda run: run.key)
    leaving_keys = {run.key for run in leaving}
    others = [
        Run(package, stage, state.get(package.key))
        for package in runnable(plan.packages.values(), done)
        if package.key not in leaving_keys
        and (stage := next_stage(state.get(package.key), package, plan.updates)) is not None
    ]
    return sorted([*leaving, *others], key=lambda run: (run.package.name, run.key))


def refusals_of(scene: Scene, state: NodeState) -> Iterator[str]:
    """Yield why packages are not uninstalled: their images, as the node or the record has them, are not allowed."""
    rules = scene.options.images
    if scene.plan.acts and rules != ImageRules():
        leaving = (run.package for run in to_run(scene, state) if run.stage in LEAVING)
        yield from filter(None, (package_problem(package, rules) for package in leaving))


def _to_uninstall(entry: Entry, plan: PlanRow) -> Package:
    """Return the package to uninstall an entry with: that of the Skyhook if it has the version, else the record."""
    package = plan.packages.get(entry.name)
    if package is not None and package.version == entry.version and is_unwanted(package):
        return package
    return for_uninstall(entry, plan.departed.get(entry.key))


def needs_gate(scene: Scene, run: Run) -> bool:
    """Whether the node has to be cordoned and drained before this stage.

    The uninstallation of a removed or replaced version never needs that.
    """
    if run.stage == UNINSTALL_INTERRUPT:
        return True
    return run.stage not in (POST_INTERRUPT, UNINSTALL) and has_interrupt(run.package, scene.plan.updates)


def group_interrupt(scene: Scene, runs: list[Run]) -> Group | None:
    """Return the interrupt that serves all packages that still need one; None if no package does."""
    updates = scene.plan.updates
    waiting = [run for run in runs if run.stage not in (POST_INTERRUPT, *LEAVING)]
    return group_of((run.package, interrupts_of(run.package, updates.get(run.package.name, ()))) for run in waiting)


def advance(scene: Scene, state: NodeState) -> Work:
    """Return the next pods of a picked node, with the entries that record them."""
    runs = to_run(scene, state)
    group = group_interrupt(scene, runs)
    current, new_pods, taken = dict(state), list[NewPod](), list[str]()
    busy = bool(scene.pods)
    for run in runs:
        if scene.plan.spec.serial and (busy or new_pods):
            break
        step = _step(scene, current, run, runs, group)
        if step is None:
            continue
        entry, pod = step
        if pod is not None and scene.has_pod(pod.key):
            # The pod belongs to another Skyhook or node. This one is made when that is gone.
            taken.append(pod.key.name)
            continue
        current[entry.key] = entry
        new_pods += [pod] if pod is not None else []
    return Work(current, new_pods=tuple(new_pods), taken_names=tuple(taken))


def _step(
    scene: Scene, state: NodeState, run: Run, runs: list[Run], group: Group | None
) -> tuple[Entry, NewPod | None] | None:
    """Return the new entry of one package, and its pod if it gets one; None if the package waits."""
    entry, package = run.entry, run.package
    if entry is not None and entry.state == SKIPPED:
        # No interrupt will serve this skipped package, because its carrier has continued without it. It goes back to
        # before its interrupt.
        stuck = entry.stage == INTERRUPT and (group is None or group.carrier == run.key)
        return (replace(entry, stage=CONFIG, state=COMPLETE), None) if stuck else None
    if _has_pod(scene, package) or package_problem(package, scene.options.images):
        return None
    if needs_gate(scene, run) and not scene.gate(package):
        return None
    if run.stage == UNINSTALL_INTERRUPT:
        assert package.interrupt is not None
        return _interrupted(scene, state, run, package.interrupt)
    if run.stage == INTERRUPT:
        return _interrupting(scene, state, run, runs, group)
    if not _is_published(scene.plan, run):
        return None
    return _started(scene, run)


def _is_published(plan: PlanRow, run: Run) -> bool:
    """Whether the package's ConfigMap is ready for its pod.

    An uninstallation that a person asked for runs with the ConfigMap as it is.
    """
    key = run.package.key
    return key in plan.published or (run.stage == UNINSTALL and key not in plan.departed)


def _has_pod(scene: Scene, package: Package) -> bool:
    label = names.package_label(package.name, package.version)
    return any(pod.package == label for pod in scene.pods)


def _interrupting(
    scene: Scene, state: NodeState, run: Run, runs: list[Run], group: Group | None
) -> tuple[Entry, NewPod | None] | None:
    interrupted = run.entry is not None and run.entry.stage == INTERRUPT
    if group is not None and group.carrier != run.key and not interrupted:
        assert run.entry is not None
        return replace(run.entry, stage=INTERRUPT, state=SKIPPED, restarts=0), None
    if scene.all_pods or not all(_awaits_interrupt(scene, state, other) for other in runs if other.key != run.key):
        return None
    own = interrupts_of(run.package, scene.plan.updates.get(run.package.name, ()))
    chosen = group if group is not None and group.carrier == run.key else group_of([(run.package, own)])
    return _interrupted(scene, state, run, chosen.interrupt) if chosen is not None else None


def _awaits_interrupt(scene: Scene, state: NodeState, run: Run) -> bool:
    """Whether a package needs no other stage before the common interrupt may run."""
    if not has_interrupt(run.package, scene.plan.updates) or run.stage in (POST_INTERRUPT, *LEAVING):
        return True
    return run.stage == INTERRUPT


def _interrupted(scene: Scene, state: NodeState, run: Run, interrupt: Interrupt) -> tuple[Entry, NewPod]:
    package, node = run.package, scene.node.key.name
    directory = recorded_directory(scene, package) or pods.copy_dir(scene.place, package)
    body = pods.interrupt_pod(scene.place_in_order, package, interrupt, directory, run.stage)
    note = f"Interrupting node [{node}] package [{package.name}:{package.version}] from [skyhook:{scene.plan.skyhook}]"
    entry = _entered(run, scene)
    return entry, NewPod(body, (scene.tell_skyhook("Interrupt", note),))


def _started(scene: Scene, run: Run) -> tuple[Entry, NewPod]:
    package, node, skyhook = run.package, scene.node.key.name, scene.plan.skyhook
    named = f"[{package.name}:{package.version}]"
    tells: tuple[Tell, ...] = ()
    if not scene.plan.is_crowded:
        tells = (
            scene.tell_node("Apply", f"Applying package {named} from [skyhook:{skyhook}] stage [{run.stage}]"),
            scene.tell_skyhook("Apply", f"Applying package {named} to node [{node}] stage [{run.stage}]"),
        )
    reruns = package.name in reruns_of(scene.node, skyhook)
    body = pods.package_pod(scene.place_in_order, package, run.stage, reruns=reruns)
    return _entered(run, scene), NewPod(body, tells, pods.copy_dir(scene.place, package))


def _entered(run: Run, scene: Scene) -> Entry:
    """Return the entry with its stage in progress.

    An entry that is being uninstalled keeps all fields but its state. Any other entry is made from the package.
    """
    if run.entry is None or run.stage not in LEAVING:
        known = run.entry
        kept = known.restarts if known is not None and _is_retry(known, run, scene) else 0
        return new_entry(run.package, run.stage, IN_PROGRESS, kept)
    return replace(run.entry, state=IN_PROGRESS)


def _is_retry(entry: Entry, run: Run, scene: Scene) -> bool:
    """Whether the restarts of the entry are kept: the stage took too long and is tried again."""
    return scene.options.stage_retries > 0 and entry.stage == run.stage and entry.state != COMPLETE


def recorded_directory(scene: Scene, package: Package) -> str:
    """Return the directory that the first pod of the package was given, from the node's annotation; empty if none."""
    return next((each for each in recorded_directories(scene) if is_directory_of(scene, package, each)), "")


def recorded_directories(scene: Scene) -> Iterator[str]:
    text = scene.node.annotations.get(node_names.copy_dir(scene.plan.skyhook), "")
    return iter(filter(None, text.split(",")))


def is_directory_of(scene: Scene, package: Package, directory: str) -> bool:
    stem = f"{scene.options.copy_dir_root}/{scene.plan.skyhook}/{package.name}-{package.version}-"
    return directory.startswith(stem)
