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
from haulout.core.holds import is_held, is_wanted_by, is_wanted_by_others
from haulout.model.meta import wire_time
from haulout.surfaces.packages import present
from haulout.surfaces.packages.entries import migration
from haulout.surfaces.packages.entries.changes import with_versions, without_replaced
from haulout.surfaces.packages.entries.entry import MalformedNodeState, NodeState, PackageEntry, parse, to_text
from haulout.surfaces.packages.entries.stage_history import with_runs
from haulout.surfaces.packages.entries.stages import has_begun, has_interrupt, is_package_complete
from haulout.surfaces.packages.events import event
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.node import failure_log, reboots, taints
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.node import status as node_status
from haulout.surfaces.packages.node.cordoning import cordoning, releasing
from haulout.surfaces.packages.node.draft import NodeDraft
from haulout.surfaces.packages.node.eligibility import CORDONED, is_ignored, is_tolerated, toleration_of
from haulout.surfaces.packages.node.identities import identities_of, identities_text
from haulout.surfaces.packages.node.interrupt_gate import InterruptGate, gate_of, is_cordoned
from haulout.surfaces.packages.node.job_writes import given_up, job_patches, needless_jobs
from haulout.surfaces.packages.node.kept_configs import (
    apply_config_changes,
    kept_configs,
    kept_digests,
    untouched_packages,
)
from haulout.surfaces.packages.node.next_pods import advance, is_directory_of, refusals_of
from haulout.surfaces.packages.node.pod_results import with_results
from haulout.surfaces.packages.node.pulls import Pull, pull_of
from haulout.surfaces.packages.node.reruns import RERUN, without
from haulout.surfaces.packages.node.situation import NodeSituation, VisitSituation
from haulout.surfaces.packages.node.standing import NodeStanding, is_failing, standing_key
from haulout.surfaces.packages.node.work import VisitResult, VisitWork
from haulout.surfaces.packages.options import STAMP_VERSION
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.pods.bodies import about_text
from haulout.surfaces.packages.pods.config_maps import (
    MetadataRow,
    digest,
    host_digest,
    metadata_key,
    metadata_of,
    node_metadata,
)
from haulout.surfaces.packages.pods.jobs import PackageJobRow
from haulout.surfaces.packages.pods.owners import taking_over
from haulout.surfaces.packages.pods.rows import PackagePodRow, failure_of
from haulout.surfaces.packages.pods.validity import is_valid
from haulout.surfaces.packages.pods.verdict import PodResult
from haulout.surfaces.packages.skyhook.intent import (
    IMAGE_NOT_ALLOWED,
    NAME_TAKEN,
    Intent,
    NodePick,
    held_key,
    order_of,
    pick_key,
)
from haulout.surfaces.packages.skyhook.wave_gates import instant_of
from haulout.surfaces.packages.wire import (
    COMPLETE,
    ERRORING,
    IN_PROGRESS,
    INTERRUPT_LABEL,
    NAME,
    NODE_META,
    NODE_NAME,
    PACKAGE,
    PAUSED,
    STATUSES,
    SURFACE,
    WAITING,
    Package,
)

replace = msgspec.structs.replace


class _LazyGate:
    """The gate of one Skyhook on one node, worked out when the first package asks for it.

    Images are pulled first, so `pull` must be over before the gate is looked at.
    """

    def __init__(
        self, node: NodeRow, intent: Intent, shared: NodeSituation, pick: NodePick | None, state: NodeState
    ) -> None:
        self._node, self._intent, self._shared, self._state = node, intent, shared, state
        self.pull = Pull()
        self._has_looked = False
        self.picked_at = pick.picked_at if pick is not None else None
        self.gate: InterruptGate | None = None
        self.package: Package | None = None

    def __call__(self, package: Package) -> bool:
        shared = self._shared
        if not self._has_looked:
            self._has_looked = True
            self.pull = pull_of(self._intent, self._node, self._state, shared.pods, shared.options, shared.now)
        if not self.pull.is_over:
            return False
        if self.gate is None:
            self.gate = gate_of(shared.view, self._node, self._intent, shared.options, shared.now, self.picked_at)
            self.package = package
        return self.gate.is_open


def visit(intent: Intent, draft: NodeDraft, node: NodeRow, shared: NodeSituation, *, is_ready: bool) -> VisitResult:
    """Apply a Skyhook to a node. The edits of the node go into the draft, and all else is returned."""
    name = node_names.node_state(intent.skyhook)
    try:
        state = parse(node.annotations.get(name, "{}"))
    except MalformedNodeState:
        standing = _standing(intent, node, shared, {}, is_ready=is_ready, is_malformed=True)
        pods = tuple(pod for pod in shared.pods if pod.skyhook == intent.skyhook)
        return VisitResult(is_at_work=_is_at_work(intent, node, pods), is_malformed=True, marks=(standing,))
    if shared.options.reapply_on_reboot and reboots.needs_reset(shared.view, intent, node, state):
        return _reset(intent, draft, node, shared, state)
    is_eligible = is_ready and not is_ignored(node) and _tolerates(draft.node, intent, shared)
    pick = shared.view.get(pick_key(intent.owner, node.key.name), NodePick)
    if pick is None and shared.view.get(held_key(intent.owner, node.key.name), Value) is not None:
        is_eligible = False
    has_void_pick = pick is not None and _is_void(pick, intent, node, state)
    is_picked = pick is not None and not has_void_pick
    lazy_gate = _LazyGate(node, intent, shared, pick, state)
    metadata = metadata_key(shared.options.namespace, intent.skyhook, node.key.name)
    situation = VisitSituation(
        intent,
        node,
        shared.options,
        shared.now,
        pods=tuple(pod for pod in shared.pods if pod.skyhook == intent.skyhook and pod.about is not None),
        all_pods=tuple(
            pod for pod in (*shared.pods, *filterfalse(_has_succeeded, shared.foreign)) if pod.about is not None
        ),
        is_picked=is_picked,
        has_void_pick=has_void_pick,
        order=lambda: order_of(shared.view, intent.owner, node.key.name),
        metadata=shared.view.get(metadata, MetadataRow) if intent.acts or intent.former else None,
        pod_at=lambda key: shared.view.get(key, PackagePodRow),
        runs_jobs=shared.can_run_jobs and shared.options.runs_jobs(intent.group),
        gate=lazy_gate,
    )
    situation = replace(situation, identities=identities_of(intent, node, draft.stored, state, situation.pods))
    may_run = is_eligible and is_picked and intent.has_compartments and not situation.has_foreign_metadata
    situation = replace(situation, may_run=may_run)
    work = _work(situation, state)
    return _visited(situation, draft, shared, work, lazy_gate, state, is_ready=is_ready, is_eligible=is_eligible)


def _is_void(pick: NodePick, intent: Intent, node: NodeRow, state: NodeState) -> bool:
    """Whether a node was picked for a version that has failed on it, while the Skyhook wants another version now.

    A failed node takes no place under the budget, so it must not continue by itself. It shows its failure until the
    pick is removed, and is picked again when there is a place. A cordoned node has kept its place and continues. A
    changed configuration does not void a pick, because it is what repairs nodes that failed with the old one.
    """
    if node_names.cordon(intent.skyhook) in node.annotations or not _is_taken_up(intent, node, state):
        return False
    if with_versions(state, intent.packages, intent.removal) == state:
        return False
    # If changes wait for a pick, the annotation of the node's last pick tells whether this pick is the one that failed.
    return not intent.defers_changes or _changed_at(intent, node) == pick.picked_at


def _is_taken_up(intent: Intent, node: NodeRow, state: NodeState) -> bool:
    """Whether a node still shows the failure of a version or configuration that the Skyhook has replaced."""
    if not intent.acts or _shown_status(intent, node) != ERRORING or not is_failing(state):
        return False
    return not is_failing(without_replaced(announced(intent, state, node), intent.packages))


def _tolerates(node: NodeRow, intent: Intent, shared: NodeSituation) -> bool:
    runtime = tuple(map(toleration_of, shared.options.taints)) if intent.spec.runtime_required else ()
    draining = (toleration_of(DRAIN_TAINT),) if _is_drained_by_another(node, shared) else ()
    return is_tolerated(node, (CORDONED, *intent.spec.additional_tolerations, *runtime, *draining))


def _is_drained_by_another(node: NodeRow, shared: NodeSituation) -> bool:
    """Whether a NodeMaintenance that waits for its turn has set the drain taint.

    That taint must be tolerated, or the Skyhook and the NodeMaintenance would wait for each other forever.
    """
    is_tainted = not shared.options.alone and taints.has_taint(node, DRAIN_TAINT)
    return is_tainted and is_wanted_by_others(shared.view, node.key, SURFACE)


def _work(situation: VisitSituation, stored: NodeState) -> VisitWork:
    """Return the changes for one Skyhook on one node: by pod results, by changes of the spec, then the next pods."""
    intent = situation.intent
    done = with_results(stored, situation)
    if _is_migrated(situation):
        done = replace(done, state=migration.migrate_entries(done.state, intent.packages))
    if intent.shows == PAUSED and intent.group is NODEWRIGHT:
        # A pause of a NodeWright stops the running stage, too. Jobs are suspended instead.
        stopped = (pod for pod in _living(situation, list(done.old_pods)) if not pod.is_job)
        return replace(done, old_pods=(*done.old_pods, *stopped))
    if not intent.acts or situation.has_void_pick:
        return done
    state = dict(done.state)
    over = list(done.old_pods)
    over += needless_jobs(situation, state, over)
    before = with_versions(state, intent.packages, intent.removal) if _may_change(situation) else state
    state = apply_config_changes(intent, before, kept_configs(situation.node, intent.skyhook))
    for name in sorted(intent.changing):
        key = intent.packages[name].key
        if before.get(key) != state.get(key):
            over += [pod for pod in _living(situation, over) if pod.about is not None and pod.about.name == name]
    over += [pod for pod in _living(situation, over) if not is_valid(pod, situation.place, intent.packages, state)]
    if situation.may_run and not intent.is_done(state):
        following = advance(situation, state)
        until = earliest(done.until, following.until)
        over += following.old_pods
        return VisitWork(following.state, done.tells, following.new_pods, tuple(over), until, following.taken_names)
    return VisitWork(state, done.tells, old_pods=tuple(over), until=done.until)


def _is_migrated(situation: VisitSituation) -> bool:
    """Whether the node's entries are those of an older operator, and are to be migrated now."""
    stamp = situation.node.annotations.get(node_names.version(situation.intent.skyhook))
    return situation.intent.migrates and migration.is_due(stamp)


def _may_change(situation: VisitSituation) -> bool:
    """Whether changes of versions may be stored on the node. If a rollback may follow, they wait until it is picked."""
    return not situation.intent.defers_changes or situation.is_picked


def announced(intent: Intent, state: NodeState, node: NodeRow) -> dict[str, PackageEntry]:
    """Return the entries with all changes that the Skyhook wants now, whether or not they may be stored yet."""
    return apply_config_changes(
        intent, with_versions(state, intent.packages, intent.removal), kept_configs(node, intent.skyhook)
    )


def _without_trying(situation: VisitSituation, state: NodeState) -> dict[str, PackageEntry]:
    """Return the entries without those whose Job tries again by itself: they have not failed for good."""
    pods = (pod for pod in situation.pods if isinstance(pod, PackageJobRow) and pod.is_trying)
    trying = {(about.name, about.version, about.stage) for pod in pods if (about := pod.about) is not None}
    return {key: each for key, each in state.items() if (each.name, each.version, each.stage) not in trying}


def _may_cordon(shared: NodeSituation, node: NodeRow) -> bool:
    """Whether the claim on the node wants it out of service.

    A node that has completed gives that up. If a new change interrupts the node, its standing asks for the claim first.
    """
    return shared.options.alone or is_wanted_by(shared.view, node.key, SURFACE)


def _living(situation: VisitSituation, over: list[PackagePodRow]) -> list[PackagePodRow]:
    return [pod for pod in situation.pods if pod.deleting_at is None and pod not in over]


def _visited(
    situation: VisitSituation,
    draft: NodeDraft,
    shared: NodeSituation,
    work: VisitWork,
    lazy_gate: _LazyGate,
    stored: NodeState,
    *,
    is_ready: bool,
    is_eligible: bool,
) -> VisitResult:
    intent, node, skyhook = situation.intent, situation.node, situation.intent.skyhook
    complete = intent.is_done(
        announced(intent, work.state, node) if intent.defers_changes and intent.acts else work.state
    )
    before = node.annotations.get(node_names.status(skyhook), "")
    gate = lazy_gate.gate
    is_late = gate is not None and gate.is_late
    failed_for_good = _without_trying(situation, work.state)
    status = node_status.status_of(
        before,
        shows=intent.shows,
        is_complete=complete,
        is_ready=is_ready,
        is_eligible=is_eligible,
        is_failing=is_failing(without_replaced(failed_for_good, intent.packages)) or is_late,
        is_picked=situation.is_picked,
        has_pods=bool(work.new_pods or situation.pods or lazy_gate.pull.new_pods or lazy_gate.pull.kept),
        has_compartments=intent.has_compartments,
    )
    draft.tells += work.tells
    identities = identities_text(intent, situation.identities, work.state)
    draft.annotate(node_names.resource_ids(skyhook), identities)
    reran = {pod.about.name for pod in work.old_pods if pod.about and pod.reruns and _has_succeeded(pod)}
    draft.annotate(RERUN, without(draft.node, skyhook, reran))
    if work.state != stored:
        draft.annotate(node_names.node_state(skyhook), to_text(work.state))
        times = node_names.stage_times(skyhook)
        draft.annotate(times, with_runs(draft.node.annotations.get(times), work.old_pods, intent.packages))
    if gate is not None and not gate.is_cordoned and lazy_gate.package is not None and _may_cordon(shared, node):
        held = not shared.options.alone and is_held(shared.view, draft.node.key)
        if draft.apply(cordoning(draft.node, skyhook, is_held=held)):
            draft.tells += [_draining(situation, lazy_gate.package), *lazy_gate.pull.tells]
    if intent.acts:
        _note_kept_configs(situation, draft, work)
    if intent.defers_changes and lazy_gate.picked_at is not None and not complete:
        draft.annotate(node_names.picked_annotation(skyhook), wire_time(lazy_gate.picked_at))
    # A new Skyhook often picks the node in its first status. Waiting for that saves a write that would only show
    # `waiting`.
    is_shown = not (intent.is_new and not before and status == WAITING)
    if is_shown:
        _show(situation, draft, work, status, before, is_complete=complete)
    if complete and status == COMPLETE:
        draft.apply(releasing(draft.node, skyhook, alone=shared.options.alone))
    failed = failure_log.keep(situation, draft, shared.view) if not complete else ()
    refusals = tuple(_refusals(situation, work))
    standing = _standing(
        intent, node, shared, stored, is_ready=is_ready, gate=gate, situation=situation, refusals=refusals
    )
    return VisitResult(
        is_complete=complete,
        is_at_work=_is_at_work(intent, node, situation.pods),
        marks=(standing, *(gate.drains if gate is not None and not complete else ())),
        config_maps=_metadata(situation, draft.outer, shared, work) if is_shown else (),
        patches=(
            *(_taken_over(situation, work) if intent.former else ()),
            *job_patches(situation, work, shared.view),
        ),
        new_pods=(*work.new_pods, *lazy_gate.pull.new_pods),
        old_pods=work.old_pods,
        surplus=tuple(each for pod in situation.pods if isinstance(pod, PackageJobRow) for each in pod.surplus),
        conditions=node_status.changed_conditions(
            node,
            skyhook,
            shared.now,
            is_complete=complete,
            is_failing=is_failing(failed_for_good) or is_late,
        )
        if is_shown
        else (),
        statements=(*_blocked(situation, gate), *given_up(situation), *failed, *lazy_gate.pull.statements),
        until=earliest(work.until, lazy_gate.pull.until, gate.until if gate is not None else None),
        kept_pull=lazy_gate.pull.kept,
        reasons=present.node_reasons(
            situation, (*lazy_gate.pull.reasons, *(gate.reasons if gate else ())), refusals, is_ready=is_ready
        )
        if shared.view.explaining and not complete
        else (),
    )


def _is_at_work(intent: Intent, node: NodeRow, pods: tuple[PackagePodRow, ...]) -> bool:
    return bool(pods) or is_cordoned(node, intent.skyhook)


def _refusals(situation: VisitSituation, work: VisitWork) -> Iterator[tuple[str, str]]:
    """Yield what may not run on the node, as reason codes and texts."""
    known = situation.metadata
    if known is not None and situation.has_foreign_metadata:
        text = f"ConfigMap {known.key.name} has the metadata of node {known.node} for Skyhook {known.skyhook}"
        yield NAME_TAKEN, text
    for name in work.taken_names:
        yield NAME_TAKEN, f"pod {name} of another Skyhook or node is waited for, because the next pod has its name"
    for text in refusals_of(situation, work.state):
        yield IMAGE_NOT_ALLOWED, text


def _note_kept_configs(situation: VisitSituation, draft: NodeDraft, work: VisitWork) -> None:
    intent = situation.intent
    labels = {pod.body["metadata"]["labels"][PACKAGE] for pod in work.new_pods}
    started = {each.name for each in work.state.values() if names.package_label(each.name, each.version) in labels}
    kept = kept_configs(situation.node, intent.skyhook)
    draft.annotate(node_names.kept_config(intent.skyhook), kept_digests(intent, kept, work.state, started))


def _has_succeeded(pod: PackagePodRow) -> bool:
    return pod.verdict.result is PodResult.SUCCEEDED


def _show(
    situation: VisitSituation, draft: NodeDraft, work: VisitWork, status: str, before: str, *, is_complete: bool
) -> None:
    """Bring the Skyhook's status, version and directory annotations on the node up to date."""
    skyhook = situation.intent.skyhook
    draft.annotate(node_names.status(skyhook), status)
    draft.label(node_names.status(skyhook), status)
    if _is_migrated(situation):
        draft.annotate(node_names.version(skyhook), STAMP_VERSION)
    directories = draft.node.annotations.get(node_names.copy_dir(skyhook), "")
    if is_complete:
        for name in (node_names.copy_dir, node_names.last_error, node_names.drain_start, node_names.drain_blocks):
            draft.annotate(name(skyhook), None)
    elif (known := _directories(situation, directories, work)) != directories:
        draft.annotate(node_names.copy_dir(skyhook), known)
    if status == COMPLETE and before != COMPLETE:
        draft.tells.append(situation.tell_node("State", f"Skyhook [{skyhook}] complete."))


def _directories(situation: VisitSituation, known: str, work: VisitWork) -> str:
    """Return the directories of packages that need an interrupt: for each, the one that its first pod got."""
    found = list(filter(None, known.split(",")))
    for pod in work.new_pods:
        if not pod.directory:
            continue
        owners = (
            each for each in situation.intent.packages.values() if is_directory_of(situation, each, pod.directory)
        )
        package = next(owners, None)
        if package is None or not has_interrupt(package, situation.intent.updates):
            continue
        if not any(is_directory_of(situation, package, each) for each in found):
            found.append(pod.directory)
    return ",".join(found)


def _draining(situation: VisitSituation, package: Package) -> Tell:
    name = situation.node.key.name
    note = (
        f"draining node [{name}] package [{package.name}:{package.version}] from [skyhook:{situation.intent.skyhook}]"
    )
    return situation.tell_node("Interrupt", note)


def _blocked(situation: VisitSituation, gate: InterruptGate | None) -> tuple[Tell, ...]:
    """Return one event for each pod that holds up the drain."""
    if gate is None:
        return ()
    late = f"the drain for [skyhook:{situation.intent.skyhook}] has taken longer than its timeout"
    timed_out = (situation.tell_node("DrainTimeout", late, warning=True),) if gate.is_late else ()
    return timed_out + tuple(
        event(
            situation.node.key,
            "Drain",
            f"pod {pod} holds up the drain for [skyhook:{situation.intent.skyhook}]: {why}",
            warning=True,
        )
        for why, pod in gate.blocked_by
    )


def _taken_over(situation: VisitSituation, work: VisitWork) -> Iterator[Patch]:
    """Yield the patches by which what the other object of the unit owns on the node becomes the leader's."""
    intent, place = situation.intent, situation.place
    for pod in situation.pods:
        if (
            pod.owner == intent.former
            and pod.deleting_at is None
            and pod.about is not None
            and pod not in work.old_pods
        ):
            interrupt = {} if pod.is_package else {INTERRUPT_LABEL: "True"}
            labels = {NAME: intent.skyhook, PACKAGE: pod.package, **interrupt}
            yield taking_over(place, pod.key, labels, {PACKAGE: about_text(pod.about)})
    known = situation.metadata
    if known is not None and known.owner == intent.former and not situation.has_foreign_metadata:
        annotations = {NAME: intent.skyhook, NODE_NAME: situation.node.key.name}
        yield taking_over(place, known.key, {NODE_META: intent.skyhook}, annotations)


def _metadata(
    situation: VisitSituation, node: NodeRow, shared: NodeSituation, work: VisitWork
) -> tuple[Create | Patch, ...]:
    """Return the write that brings the ConfigMap of the node's metadata up to date, at the latest before each stage.

    Packages read the state of their node in it.
    """
    intent, known = situation.intent, situation.metadata
    if not intent.acts or situation.has_foreign_metadata:
        return ()
    key = metadata_key(shared.options.namespace, intent.skyhook, node.key.name)
    if known is None:
        return (Create(key, node_metadata(situation.place, metadata_of(node, intent.packages_text))),)
    if not work.new_pods and known.packages == digest(intent.packages_text):
        return ()
    data = metadata_of(node, intent.packages_text)
    is_stale = (known.packages, known.host) != (digest(intent.packages_text), host_digest(data))
    return (Patch(key, {"data": data}),) if is_stale else ()


def _reset(intent: Intent, draft: NodeDraft, node: NodeRow, shared: NodeSituation, state: NodeState) -> VisitResult:
    """Remove the entries of a rebooted node, so that all packages run again once the new boot is recorded."""
    skyhook = intent.skyhook
    names = (node_names.node_state(skyhook), node_names.status(skyhook))
    if any(name in node.annotations for name in names):
        draft.tells += reboots.told_of(intent, node)
    for name in names:
        draft.annotate(name, None)
    draft.label(node_names.status(skyhook), None)
    draft.apply(taints.added_after_reboot(draft.node, intent, shared.options))
    standing = _standing(intent, node, shared, state, is_ready=False)
    return VisitResult(marks=(replace(standing, keeps_boot_id=any(name in node.annotations for name in names)),))


def _standing(
    intent: Intent,
    node: NodeRow,
    shared: NodeSituation,
    state: NodeState,
    *,
    is_ready: bool,
    is_malformed: bool = False,
    gate: InterruptGate | None = None,
    situation: VisitSituation | None = None,
    refusals: tuple[tuple[str, str], ...] = (),
) -> NodeStanding:
    """Return the standing of the node: the row that tells the Skyhook's decision how far this node is."""
    name = node.key.name
    packages = tuple(intent.packages.values())
    pods = situation.pods if situation is not None else ()
    # A change of the spec makes the node incomplete before its entries show that change. It may interrupt the node, too,
    # and without a claim to drain the node could not be cordoned.
    due = announced(intent, state, node) if intent.acts else state
    needs_drain = any(
        has_interrupt(each, intent.updates) and not is_package_complete(each, due, intent.updates) for each in packages
    )
    made = [(pod.created_at, pod) for pod in pods if pod.is_package and pod.created_at is not None]
    latest = max(made, key=lambda each: (each[0], each[1].key), default=None)
    about = latest[1].about if latest is not None else None
    return NodeStanding(
        key=standing_key(intent.skyhook, name),
        skyhook=intent.skyhook,
        node=name,
        created_at=node.created_at,
        labels=node.labels,
        status=_standing_status(intent, node, state, situation),
        state=state,
        is_complete=not is_malformed and intent.is_done(due),
        is_ready=is_ready,
        is_ignored=is_ignored(node),
        is_tainted=not _tolerates(node, intent, shared),
        has_begun=_is_at_work(intent, node, pods) or has_begun(packages, state, intent.updates),
        is_cordoned=node_names.cordon(intent.skyhook) in node.annotations,
        needs_drain=needs_drain,
        has_annotation=node_names.node_state(intent.skyhook) in node.annotations,
        is_malformed=is_malformed,
        revision=intent.revision,
        boot_id=node.boot_id,
        pods=frozenset(pod.about.name for pod in pods if pod.about is not None),
        latest=(latest[0], f"{about.name}:{about.version}") if latest is not None and about is not None else None,
        blocked_by=gate.blocked_by if gate is not None else (),
        drain_blocks=gate.drain_blocks if gate is not None else (),
        changed_at=_changed_at(intent, node),
        has_void_pick=situation is not None and situation.has_void_pick,
        untouched=untouched_packages(intent, kept_configs(node, intent.skyhook)),
        failures=tuple(sorted(filter(None, map(failure_of, pods)))),
        refusals=refusals,
    )


def _standing_status(intent: Intent, node: NodeRow, state: NodeState, situation: VisitSituation | None) -> str:
    """Return the status that counts for budgets. A failed node that is picked again counts at once as in progress."""
    if situation is not None and situation.is_picked and _is_taken_up(intent, node, state):
        return IN_PROGRESS
    return _shown_status(intent, node)


def _shown_status(intent: Intent, node: NodeRow) -> str:
    """Return the status in the node's annotation; empty if it is not a known word.

    An unknown text is not kept, because it may be as long as 256 KiB.
    """
    found = node.annotations.get(node_names.status(intent.skyhook), "")
    return found if found in STATUSES else ""


def _changed_at(intent: Intent, node: NodeRow) -> datetime | None:
    return (
        instant_of(node.annotations.get(node_names.picked_annotation(intent.skyhook), ""))
        if intent.defers_changes
        else None
    )
