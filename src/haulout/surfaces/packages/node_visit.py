"""One Skyhook on one node that it selects: pod results, changes of the spec, the next pods, and the node's status."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from itertools import filterfalse

import msgspec

from haulout.cluster.rows import NodeRow, Value
from haulout.core.action import Create, Patch, Tell
from haulout.core.cordon import DRAIN_TAINT
from haulout.core.decision import earliest
from haulout.core.holds import is_held, is_wanted_by_others
from haulout.model.meta import wire_time
from haulout.surfaces.packages import failure_log, migration, names, node_names, node_status, present, reboots
from haulout.surfaces.packages.around import Around, Visit
from haulout.surfaces.packages.changes import with_versions, without_replaced
from haulout.surfaces.packages.config_maps import (
    MetadataRow,
    digest,
    host_digest,
    metadata_key,
    metadata_of,
    node_metadata,
)
from haulout.surfaces.packages.cordoning import cordoning, releasing
from haulout.surfaces.packages.eligibility import CORDONED, is_ignored, tolerated, toleration_of
from haulout.surfaces.packages.gate import Gate, gate_of, is_cordoned
from haulout.surfaces.packages.kept_configs import configured, kept_configs, noted, untouched
from haulout.surfaces.packages.node_draft import NodeDraft
from haulout.surfaces.packages.node_state import Entry, MalformedNodeState, NodeState, parse, to_text
from haulout.surfaces.packages.options import STAMP_VERSION
from haulout.surfaces.packages.outcome import Result
from haulout.surfaces.packages.plan import IMAGE_NOT_ALLOWED, NAME_TAKEN, Pick, PlanRow, held_key, order_of, pick_key
from haulout.surfaces.packages.pod_results import with_results
from haulout.surfaces.packages.pod_rows import PackagePodRow, failure_of
from haulout.surfaces.packages.prepull import Pull, pull_of
from haulout.surfaces.packages.reruns import RERUN, without
from haulout.surfaces.packages.run import advance, is_directory_of, refusals_of
from haulout.surfaces.packages.situation import Scene, Work, event
from haulout.surfaces.packages.stage_history import with_runs
from haulout.surfaces.packages.stages import has_begun, has_interrupt, is_package_complete
from haulout.surfaces.packages.standing import Standing, is_failing, standing_key
from haulout.surfaces.packages.taints import has_taint
from haulout.surfaces.packages.validation import is_valid
from haulout.surfaces.packages.wave_gates import instant_of
from haulout.surfaces.packages.wire import COMPLETE, ERRORING, IN_PROGRESS, PACKAGE, STATUSES, SURFACE, WAITING, Package

replace = msgspec.structs.replace


class _LazyGate:
    """The gate of one Skyhook on one node, worked out when the first package asks for it.

    Images are pulled first, so `pull` must be over before the gate is looked at.
    """

    def __init__(self, node: NodeRow, plan: PlanRow, around: Around, pick: Pick | None, state: NodeState) -> None:
        self._node, self._plan, self._around, self._state = node, plan, around, state
        self.pull = Pull()
        self._has_looked = False
        self.picked_at = pick.picked_at if pick is not None else None
        self.gate: Gate | None = None
        self.package: Package | None = None

    def __call__(self, package: Package) -> bool:
        around = self._around
        if not self._has_looked:
            self._has_looked = True
            self.pull = pull_of(self._plan, self._node, self._state, around.pods, around.options, around.now)
        if not self.pull.is_over:
            return False
        if self.gate is None:
            self.gate = gate_of(around.view, self._node, self._plan, around.options, around.now, self.picked_at)
            self.package = package
        return self.gate.is_open


def visit(plan: PlanRow, draft: NodeDraft, node: NodeRow, around: Around, *, is_ready: bool) -> Visit:
    """Apply a Skyhook to a node. The edits of the node go into the draft, and all else is returned."""
    name = node_names.node_state(plan.skyhook)
    try:
        state = parse(node.annotations.get(name, "{}"))
    except MalformedNodeState:
        # It is not known whether the Skyhook has begun, so that it counts as begun.
        standing = _standing(plan, node, around, {}, is_ready=is_ready, is_malformed=True)
        return Visit(has_begun=True, marks=(standing,))
    if around.options.reapply_on_reboot and reboots.needs_reset(around.view, plan, node, state):
        return _reset(plan, draft, node, around, state)
    is_eligible = is_ready and not is_ignored(node) and _tolerates(draft.node, plan, around)
    pick = around.view.get(pick_key(plan.skyhook, node.key.name), Pick)
    if pick is None and around.view.get(held_key(plan.skyhook, node.key.name), Value) is not None:
        is_eligible = False
    has_void_pick = pick is not None and _is_void(pick, plan, node, state)
    is_picked = pick is not None and not has_void_pick
    lazy_gate = _LazyGate(node, plan, around, pick, state)
    metadata = metadata_key(around.options.namespace, plan.skyhook, node.key.name)
    scene = Scene(
        plan,
        node,
        around.options,
        around.now,
        pods=tuple(pod for pod in around.pods if pod.skyhook == plan.skyhook and pod.about is not None),
        all_pods=tuple(
            pod for pod in (*around.pods, *filterfalse(_has_succeeded, around.foreign)) if pod.about is not None
        ),
        is_picked=is_picked,
        has_void_pick=has_void_pick,
        order=lambda: order_of(around.view, plan.skyhook, node.key.name),
        metadata=around.view.get(metadata, MetadataRow) if plan.acts else None,
        has_pod=lambda key: around.view.get(key, PackagePodRow) is not None,
        gate=lazy_gate,
    )
    may_run = is_eligible and is_picked and plan.has_compartments and not scene.has_foreign_metadata
    scene = replace(scene, may_run=may_run)
    work = _work(scene, state)
    return _visited(scene, draft, around, work, lazy_gate, state, is_ready=is_ready, is_eligible=is_eligible)


def _is_void(pick: Pick, plan: PlanRow, node: NodeRow, state: NodeState) -> bool:
    """Whether a node was picked for a version that has failed on it, while the Skyhook wants another version now.

    A failed node takes no place under the budget, so it must not continue by itself. It shows its failure until the
    pick is removed, and is picked again when there is a place. A cordoned node has kept its place and continues. A
    changed configuration does not void a pick, because it is what repairs nodes that failed with the old one.
    """
    if node_names.cordon(plan.skyhook) in node.annotations or not _is_taken_up(plan, node, state):
        return False
    if with_versions(state, plan.packages) == state:
        return False
    # If changes wait for a pick, the annotation of the node's last pick tells whether this pick is the one that failed.
    return not plan.defers_changes or _changed_at(plan, node) == pick.picked_at


def _is_taken_up(plan: PlanRow, node: NodeRow, state: NodeState) -> bool:
    """Whether a node still shows the failure of a version or configuration that the Skyhook has replaced."""
    if not plan.acts or _shown_status(plan, node) != ERRORING or not is_failing(state):
        return False
    return not is_failing(without_replaced(announced(plan, state, node), plan.packages))


def _tolerates(node: NodeRow, plan: PlanRow, around: Around) -> bool:
    runtime = (toleration_of(around.options.runtime_required),) if plan.spec.runtime_required else ()
    draining = (toleration_of(DRAIN_TAINT),) if _is_drained_by_another(node, around) else ()
    return tolerated(node, (CORDONED, *plan.spec.additional_tolerations, *runtime, *draining))


def _is_drained_by_another(node: NodeRow, around: Around) -> bool:
    """Whether a NodeMaintenance that waits for its turn has set the drain taint.

    That taint must be tolerated, or the Skyhook and the NodeMaintenance would wait for each other forever.
    """
    is_tainted = not around.options.alone and has_taint(node, DRAIN_TAINT)
    return is_tainted and is_wanted_by_others(around.view, node.key, SURFACE)


def _work(scene: Scene, stored: NodeState) -> Work:
    """Return the changes for one Skyhook on one node: by pod results, by changes of the spec, then the next pods."""
    plan = scene.plan
    done = with_results(stored, scene)
    if _is_migrated(scene):
        done = replace(done, state=migration.migrated(done.state, plan.packages))
    if not plan.acts or scene.has_void_pick:
        return done
    state = dict(done.state)
    over = list(done.old_pods)
    before = with_versions(state, plan.packages) if _may_change(scene) else state
    state = configured(plan, before, kept_configs(scene.node, plan.skyhook))
    for name in sorted(plan.changing):
        key = plan.packages[name].key
        if before.get(key) != state.get(key):
            over += [pod for pod in _living(scene, over) if pod.about is not None and pod.about.name == name]
    over += [pod for pod in _living(scene, over) if not is_valid(pod, scene.place, plan.packages, state)]
    if scene.may_run and not plan.is_done(state):
        following = advance(scene, state)
        until = earliest(done.until, following.until)
        return Work(following.state, done.tells, following.new_pods, tuple(over), until, following.taken_names)
    return Work(state, done.tells, old_pods=tuple(over), until=done.until)


def _is_migrated(scene: Scene) -> bool:
    """Whether the node's entries are those of an older operator, and are to be migrated now."""
    stamp = scene.node.annotations.get(node_names.version(scene.plan.skyhook))
    return scene.plan.migrates and migration.is_due(stamp)


def _may_change(scene: Scene) -> bool:
    """Whether changes of versions may be stored on the node. If a rollback may follow, they wait until it is picked."""
    return not scene.plan.defers_changes or scene.is_picked


def announced(plan: PlanRow, state: NodeState, node: NodeRow) -> dict[str, Entry]:
    """Return the entries with all changes that the Skyhook wants now, whether or not they may be stored yet."""
    return configured(plan, with_versions(state, plan.packages), kept_configs(node, plan.skyhook))


def _living(scene: Scene, over: list[PackagePodRow]) -> list[PackagePodRow]:
    return [pod for pod in scene.pods if pod.deleting_at is None and pod not in over]


def _visited(
    scene: Scene,
    draft: NodeDraft,
    around: Around,
    work: Work,
    lazy_gate: _LazyGate,
    stored: NodeState,
    *,
    is_ready: bool,
    is_eligible: bool,
) -> Visit:
    plan, node, skyhook = scene.plan, scene.node, scene.plan.skyhook
    complete = plan.is_done(announced(plan, work.state, node) if plan.defers_changes and plan.acts else work.state)
    before = node.annotations.get(node_names.status(skyhook), "")
    gate = lazy_gate.gate
    status = node_status.status_of(
        before,
        shows=plan.shows,
        is_complete=complete,
        is_ready=is_ready,
        is_eligible=is_eligible,
        is_failing=is_failing(without_replaced(work.state, plan.packages)) or (gate is not None and gate.is_late),
        is_picked=scene.is_picked,
        has_pods=bool(work.new_pods or scene.pods or lazy_gate.pull.new_pods or lazy_gate.pull.kept),
        has_compartments=plan.has_compartments,
    )
    draft.tells += work.tells
    reran = {pod.about.name for pod in work.old_pods if pod.about and pod.reruns and _has_succeeded(pod)}
    draft.annotate(RERUN, without(draft.node, skyhook, reran))
    if work.state != stored:
        draft.annotate(node_names.node_state(skyhook), to_text(work.state))
        times = node_names.stage_times(skyhook)
        draft.annotate(times, with_runs(draft.node.annotations.get(times), work.old_pods, plan.packages))
    if gate is not None and not gate.is_cordoned and lazy_gate.package is not None:
        held = not around.options.alone and is_held(around.view, draft.node.key)
        if draft.apply(cordoning(draft.node, skyhook, is_held=held)):
            draft.tells += [_draining(scene, lazy_gate.package), *lazy_gate.pull.tells]
    if plan.acts:
        _note_kept_configs(scene, draft, work)
    if plan.defers_changes and lazy_gate.picked_at is not None and not complete:
        draft.annotate(node_names.picked(skyhook), wire_time(lazy_gate.picked_at))
    # A new Skyhook often picks the node in its first status. Waiting for that saves a write that would only show
    # `waiting`.
    is_shown = not (plan.is_new and not before and status == WAITING)
    if is_shown:
        _show(scene, draft, work, status, before, is_complete=complete)
    if complete and status == COMPLETE:
        draft.apply(releasing(draft.node, skyhook, alone=around.options.alone))
    failed = failure_log.keep(scene, draft, around.view) if not complete else ()
    refusals = tuple(_refusals(scene, work))
    standing = _standing(plan, node, around, stored, is_ready=is_ready, gate=gate, scene=scene, refusals=refusals)
    return Visit(
        is_complete=complete,
        has_begun=standing.has_begun,
        marks=(standing, *(gate.drains if gate is not None and not complete else ())),
        config_maps=_metadata(scene, draft.node, around, work) if is_shown else (),
        new_pods=(*work.new_pods, *lazy_gate.pull.new_pods),
        old_pods=work.old_pods,
        conditions=node_status.changed_conditions(
            node,
            skyhook,
            around.now,
            is_complete=complete,
            is_failing=is_failing(work.state) or (gate is not None and gate.is_late),
        )
        if is_shown
        else (),
        statements=(*_blocked(scene, gate), *failed, *lazy_gate.pull.statements),
        until=earliest(work.until, lazy_gate.pull.until, gate.until if gate is not None else None),
        kept_pull=lazy_gate.pull.kept,
        reasons=present.node_reasons(
            scene, (*lazy_gate.pull.reasons, *(gate.reasons if gate else ())), refusals, is_ready=is_ready
        )
        if around.view.explaining and not complete
        else (),
    )


def _refusals(scene: Scene, work: Work) -> Iterator[tuple[str, str]]:
    """Yield what may not run on the node, as reason codes and texts."""
    known = scene.metadata
    if known is not None and scene.has_foreign_metadata:
        text = f"ConfigMap {known.key.name} has the metadata of node {known.node} for Skyhook {known.skyhook}"
        yield NAME_TAKEN, text
    for name in work.taken_names:
        yield NAME_TAKEN, f"pod {name} of another Skyhook or node is waited for, because the next pod has its name"
    for text in refusals_of(scene, work.state):
        yield IMAGE_NOT_ALLOWED, text


def _note_kept_configs(scene: Scene, draft: NodeDraft, work: Work) -> None:
    plan = scene.plan
    labels = {pod.body["metadata"]["labels"][PACKAGE] for pod in work.new_pods}
    started = {each.name for each in work.state.values() if names.package_label(each.name, each.version) in labels}
    kept = kept_configs(scene.node, plan.skyhook)
    draft.annotate(node_names.kept_config(plan.skyhook), noted(plan, kept, work.state, started))


def _has_succeeded(pod: PackagePodRow) -> bool:
    return pod.verdict.result is Result.SUCCEEDED


def _show(scene: Scene, draft: NodeDraft, work: Work, status: str, before: str, *, is_complete: bool) -> None:
    """Bring the Skyhook's status, version and directory annotations on the node up to date."""
    skyhook = scene.plan.skyhook
    draft.annotate(node_names.status(skyhook), status)
    draft.label(node_names.status(skyhook), status)
    if _is_migrated(scene):
        draft.annotate(node_names.version(skyhook), STAMP_VERSION)
    directories = draft.node.annotations.get(node_names.copy_dir(skyhook), "")
    if is_complete:
        draft.annotate(node_names.copy_dir(skyhook), None)
        draft.annotate(node_names.last_error(skyhook), None)
    elif (known := _directories(scene, directories, work)) != directories:
        draft.annotate(node_names.copy_dir(skyhook), known)
    if status == COMPLETE and before != COMPLETE:
        draft.tells.append(scene.tell_node("State", f"Skyhook [{skyhook}] complete."))


def _directories(scene: Scene, known: str, work: Work) -> str:
    """Return the directories of packages that need an interrupt: for each, the one that its first pod got."""
    found = list(filter(None, known.split(",")))
    for pod in work.new_pods:
        if not pod.directory:
            continue
        owners = (each for each in scene.plan.packages.values() if is_directory_of(scene, each, pod.directory))
        package = next(owners, None)
        if package is None or not has_interrupt(package, scene.plan.updates):
            continue
        if not any(is_directory_of(scene, package, each) for each in found):
            found.append(pod.directory)
    return ",".join(found)


def _draining(scene: Scene, package: Package) -> Tell:
    name = scene.node.key.name
    note = f"draining node [{name}] package [{package.name}:{package.version}] from [skyhook:{scene.plan.skyhook}]"
    return scene.tell_node("Interrupt", note)


def _blocked(scene: Scene, gate: Gate | None) -> tuple[Tell, ...]:
    """Return one event for each pod that holds up the drain."""
    if gate is None:
        return ()
    return tuple(
        event(
            scene.node.key,
            "Drain",
            f"pod {pod} holds up the drain for [skyhook:{scene.plan.skyhook}]: {why}",
            warning=True,
        )
        for why, pod in gate.blocked_by
    )


def _metadata(scene: Scene, node: NodeRow, around: Around, work: Work) -> tuple[Create | Patch, ...]:
    """Return the write that brings the ConfigMap of the node's metadata up to date."""
    plan, known = scene.plan, scene.metadata
    if not plan.acts or scene.has_foreign_metadata:
        return ()
    key = metadata_key(around.options.namespace, plan.skyhook, node.key.name)
    if known is None:
        return (Create(key, node_metadata(scene.place, metadata_of(node, plan.packages_text))),)
    is_stale = known.packages != digest(plan.packages_text) or (work.new_pods and known.host != host_digest(node))
    return (Patch(key, {"data": metadata_of(node, plan.packages_text)}),) if is_stale else ()


def _reset(plan: PlanRow, draft: NodeDraft, node: NodeRow, around: Around, state: NodeState) -> Visit:
    """Remove the entries of a rebooted node, so that all packages run again once the new boot is recorded."""
    skyhook = plan.skyhook
    names = (node_names.node_state(skyhook), node_names.status(skyhook))
    if any(name in node.annotations for name in names):
        draft.tells += reboots.told_of(plan, node)
    for name in names:
        draft.annotate(name, None)
    draft.label(node_names.status(skyhook), None)
    standing = _standing(plan, node, around, state, is_ready=False)
    return Visit(marks=(replace(standing, keeps_boot_id=any(name in node.annotations for name in names)),))


def _standing(
    plan: PlanRow,
    node: NodeRow,
    around: Around,
    state: NodeState,
    *,
    is_ready: bool,
    is_malformed: bool = False,
    gate: Gate | None = None,
    scene: Scene | None = None,
    refusals: tuple[tuple[str, str], ...] = (),
) -> Standing:
    """Return the standing of the node: the row that tells the Skyhook's decision how far this node is."""
    name = node.key.name
    packages = tuple(plan.packages.values())
    pods = scene.pods if scene is not None else ()
    needs_drain = any(
        has_interrupt(each, plan.updates) and not is_package_complete(each, state, plan.updates) for each in packages
    )
    made = [(pod.created_at, pod) for pod in pods if pod.is_package and pod.created_at is not None]
    latest = max(made, key=lambda each: (each[0], each[1].key), default=None)
    about = latest[1].about if latest is not None else None
    return Standing(
        key=standing_key(plan.skyhook, name),
        skyhook=plan.skyhook,
        node=name,
        created_at=node.created_at,
        labels=node.labels,
        status=_standing_status(plan, node, state, scene),
        state=state,
        # A change of the spec makes the node incomplete before its entries show that change.
        is_complete=not is_malformed and plan.is_done(announced(plan, state, node) if plan.acts else state),
        is_ready=is_ready,
        is_ignored=is_ignored(node),
        is_tainted=not _tolerates(node, plan, around),
        has_begun=bool(pods) or is_cordoned(node, plan.skyhook) or has_begun(packages, state, plan.updates),
        is_cordoned=node_names.cordon(plan.skyhook) in node.annotations,
        needs_drain=needs_drain,
        is_malformed=is_malformed,
        revision=plan.revision,
        boot_id=node.boot_id,
        pods=frozenset(pod.about.name for pod in pods if pod.about is not None),
        latest=(latest[0], f"{about.name}:{about.version}") if latest is not None and about is not None else None,
        blocked_by=gate.blocked_by if gate is not None else (),
        changed_at=_changed_at(plan, node),
        has_void_pick=scene is not None and scene.has_void_pick,
        untouched=untouched(plan, kept_configs(node, plan.skyhook)),
        failures=tuple(sorted(filter(None, map(failure_of, pods)))),
        refusals=refusals,
    )


def _standing_status(plan: PlanRow, node: NodeRow, state: NodeState, scene: Scene | None) -> str:
    """Return the status that counts for budgets. A failed node that is picked again counts at once as in progress."""
    if scene is not None and scene.is_picked and _is_taken_up(plan, node, state):
        return IN_PROGRESS
    return _shown_status(plan, node)


def _shown_status(plan: PlanRow, node: NodeRow) -> str:
    """Return the status in the node's annotation; empty if it is not a known word.

    An unknown text is not kept, because it may be as long as 256 KiB.
    """
    found = node.annotations.get(node_names.status(plan.skyhook), "")
    return found if found in STATUSES else ""


def _changed_at(plan: PlanRow, node: NodeRow) -> datetime | None:
    return instant_of(node.annotations.get(node_names.picked(plan.skyhook), "")) if plan.defers_changes else None
