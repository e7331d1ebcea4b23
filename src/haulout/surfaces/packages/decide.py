"""The decision about one Skyhook: which nodes are worked on, its ConfigMaps, its status and its end."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.project import within
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK, View
from haulout.core.action import Annotate, Edit, Finalize, Patch, Step, Tell
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.holds import Claim
from haulout.model.meta import Condition, wire_time
from haulout.surfaces.packages import claims, compartments, halts, hearing, skyhook_conditions, skyhook_status
from haulout.surfaces.packages.applied import APPLIED, AppliedRow, applied_key, recording
from haulout.surfaces.packages.batches import Batch, batch_of
from haulout.surfaces.packages.config_maps import NODE_METADATA, PACKAGE_CONFIG, PackageConfigRow, configs_of_skyhook
from haulout.surfaces.packages.configs import ConfigChanges, config_changes
from haulout.surfaces.packages.halts import Course, course_of
from haulout.surfaces.packages.options import STAMP_VERSION, Options
from haulout.surfaces.packages.plan import PlanRow, changed_packages, held_key, plan_key
from haulout.surfaces.packages.pod_rows import PACKAGE_POD
from haulout.surfaces.packages.present import skyhook_reasons
from haulout.surfaces.packages.situation import told
from haulout.surfaces.packages.skyhook_conditions import Conditions
from haulout.surfaces.packages.standing import NODES_OF_SKYHOOK, Standing
from haulout.surfaces.packages.wire import (
    COMPLETE,
    ERRORING,
    FINALIZER,
    IN_PROGRESS,
    STAMP,
    SURFACE,
    UNKNOWN,
    SkyhookRow,
)
from haulout.surfaces.packages.wire_policy import PolicyRow, policy_key
from haulout.surfaces.packages.wire_status import (
    FRESH_BATCH,
    RUNNING,
    CompartmentStatus,
    Halt,
    LastComplete,
    SkyhookStatus,
    status_patch,
)

replace = msgspec.structs.replace
# What only mirrors the nodes is written no more often, and less often where these are many.
STATUS_EVERY_FOR = timedelta(seconds=1)
MIRRORED_FOR_EACH_NODE = timedelta(milliseconds=2)
NONE_FOR = timedelta()


class Situation(msgspec.Struct, frozen=True):
    """What one decision about a Skyhook is made upon.

    `desired`: the Skyhook with the packages that its nodes are to have. `policy`: its DeploymentPolicy; None where it names
    none.
    """

    row: SkyhookRow
    desired: SkyhookRow
    plan: PlanRow
    view: View
    now: datetime
    options: Options
    nodes: tuple[Standing, ...]
    configs: tuple[PackageConfigRow, ...]
    policy: PolicyRow | None

    @property
    def resets(self) -> bool:
        """Whether the record of batches starts anew when the Skyhook is complete or a version changes."""
        own = self.row.spec.deployment_policy_options
        if own is not None and own.reset_batch_state_on_completion is not None:
            return own.reset_batch_state_on_completion
        return self.policy.resets if self.policy is not None else False

    @property
    def is_restoring(self) -> bool:
        return self.desired is not self.row


def decide(key: Key, view: View, now: datetime) -> Decision:
    row, setting = view.get(key, SkyhookRow), view.config(SURFACE)
    if row is None or setting is None:
        return NOTHING
    assert isinstance(setting.value, Options)
    # Without these the decisions about plans and nodes are put off, and what they tell is missing or out of date.
    own = (PACKAGE_POD, NODE_METADATA, PACKAGE_CONFIG, APPLIED)
    for kind in ("Node", "Pod", *(within(kind, setting.value.namespace) for kind in own)):
        view.require(kind)
    name = row.spec.deployment_policy
    policy = view.get(policy_key(name), PolicyRow) if name else None
    plan = view.get(plan_key(row.name), PlanRow)
    wanted = halts.desired(row)
    if plan is None or not _is_of(plan, row, is_restored=wanted is not row):
        return NOTHING
    hearing.await_first_answers(view, hearing.NODE_DECISION)
    standings = view.rows(NODES_OF_SKYHOOK, row.name, Standing)
    nodes = hearing.current(view, plan, standings, row.status.node_priority)
    if row.deleting_at is not None and not (plan.is_uninstalling and any(not node.is_complete for node in nodes)):
        return _ending(row, plan, view)
    configs = tuple(view.rows(configs_of_skyhook(setting.value.namespace), row.name, PackageConfigRow))
    return _going_on(Situation(row, wanted, plan, view, now, setting.value, nodes, configs, policy))


def _is_of(plan: PlanRow, row: SkyhookRow, *, is_restored: bool) -> bool:
    """Whether a plan is that of the Skyhook as it is now."""
    is_deleting = row.deleting_at is not None
    return (plan.generation, plan.is_deleting, plan.is_restored) == (row.generation, is_deleting, is_restored)


def _ending(row: SkyhookRow, plan: PlanRow, view: View) -> Decision:
    """Let the Skyhook go once no node carries anything of it that has to go."""
    if not hearing.are_released(view, plan):
        return NOTHING
    return Decision(actions=((Finalize(row.key, FINALIZER, present=False),),))


def _unreadable(given: Situation) -> Decision:
    """Say that the nodes of a Skyhook cannot be told. What it has done on nodes stays as it is."""
    stored = given.row.status
    conditions = _conditions(given, stored.status or UNKNOWN, None, "")
    none = ConfigChanges(stored.config_updates)
    steps, marks, until = _writes(given, replace(stored, conditions=conditions), none, is_urgent=False, may_wait=False)
    return Decision(actions=tuple(step for step in steps if step), marks=marks, until=until)


def _going_on(given: Situation) -> Decision:
    row, plan = given.row, given.plan
    if plan.selector is None:
        return _unreadable(given)
    status = skyhook_status.status_of(
        row, [node for node in given.nodes if node.is_heard], has_compartments=plan.has_compartments
    )
    is_heard = status != COMPLETE or _is_heard(given)
    if not is_heard:
        status = row.status.status or UNKNOWN
    picked = _kept_picks(given)
    batches = _batches(given, status, picked)
    gate = given.policy.gate if given.policy is not None else None
    configs = _configs(given)
    # Nodes that have not heard of a new configuration yet are complete for the one before.
    is_changing = bool(configs.announced or configs.is_queued or plan.changing)
    course = course_of(row, gate, batches, given.view, given.now, acts=plan.acts, is_changing=is_changing)
    if course.halt is not None:
        status = skyhook_status.halted(status)
    # Before nodes have heard which configuration is restored, it is not known which of them a rollback concerns.
    waits = given.is_restoring and is_changing
    batches = [replace(each, size=0, candidates=()) if waits or course.holds(each.name) else each for each in batches]
    wanted = [claim for batch in batches for claim in claims.wanted(row, batch, given.options, given.view)]
    chosen, is_answered = claims.chosen(given.view, wanted, batches, given.options)
    holds: tuple[Claim, ...] = (*claims.begun(row, given.nodes, picked, given.options, given.view), *wanted)
    is_complete = status == COMPLETE and is_heard and not is_changing
    new_status = _status(given, status, picked, batches, chosen, configs, course, is_complete=is_complete)
    is_urgent = bool(chosen) or course.halt != row.status.halt
    steps, marks, until = _writes(given, new_status, configs, is_urgent=is_urgent, may_wait=not is_answered)
    return Decision(
        actions=tuple(step for step in steps if step),
        claims=holds,
        marks=(*marks, *(Value(key=held_key(row.name, name)) for name in claims.refused(given.view, wanted))),
        until=earliest(until, course.until),
        reasons=skyhook_reasons(row, given.nodes, batches, course)
        if given.view.explaining and (status != COMPLETE or course.waiting)
        else (),
    )


def _is_heard(given: Situation) -> bool:
    """Whether all nodes have taken in the Skyhook as it is now. Once it is stored as complete, new nodes speak for themselves."""
    stored = given.row.status
    if (stored.status, stored.observed_generation) == (COMPLETE, given.row.generation):
        return all(node.is_heard for node in given.nodes)
    return hearing.has_heard_all(given.view, given.plan, given.nodes)


def _kept_picks(given: Situation) -> dict[str, str]:
    """Return the nodes that stay picked: not those that are complete or gone, nor those that never started and may not."""
    known = {node.node: node for node in given.nodes}
    kept = {}
    for name, at in given.row.status.node_priority.items():
        node = known.get(name)
        if node is None or node.is_complete:
            continue
        if node.has_begun or node.is_eligible or not given.plan.acts:
            kept[name] = at
    return kept


def _batches(given: Situation, status: str, picked: dict[str, str]) -> list[Batch]:
    row, plan = given.row, given.plan
    if not plan.has_compartments:
        return []
    named = {node.node: node for node in given.nodes}
    groups = (
        compartments.of_policy(given.policy)
        if given.policy is not None
        else compartments.without_policy(row.spec.interruption_budget, len(named))
    )
    if given.is_restoring:
        # Nothing could make a rollback go on that was stopped for its failures.
        groups = tuple(replace(each, strategy=replace(each.strategy, failure_threshold=None)) for each in groups)
    members = compartments.assign(groups, {name: node.labels for name, node in named.items()})
    stored = _stored(given, status)
    is_rolling = status != COMPLETE and plan.acts
    return [
        batch_of(
            each,
            [named[name] for name in members[each.name]],
            stored.get(each.name),
            picked,
            given.options,
            is_rolling=is_rolling,
            is_rollback=given.is_restoring,
        )
        for each in groups
    ]


def _stored(given: Situation, status: str) -> dict[str, CompartmentStatus]:
    """Return the records of batches, fresh where a version has changed or the rollout has just been completed.

    A new spec after a halt starts afresh, too.
    """
    stored = given.row.status.compartment_statuses
    if given.row.status.halt is not None and halts.halt_of(given.row) is None:
        return _fresh(stored)
    has_changed = given.plan.acts and bool(changed_packages(given.desired))
    has_completed = status == COMPLETE and given.row.status.status != COMPLETE
    if not given.resets or not (has_changed or has_completed):
        return stored
    return _fresh(stored)


def _fresh(stored: dict[str, CompartmentStatus]) -> dict[str, CompartmentStatus]:
    return {name: replace(each, batch_state=FRESH_BATCH) for name, each in stored.items()}


def _configs(given: Situation) -> ConfigChanges:
    plan = given.plan
    if not plan.acts:
        return ConfigChanges(given.row.status.config_updates)
    place = plan.place("", given.options)
    changes = config_changes(plan, place, given.configs, given.nodes, plan.updates)
    if plan.is_deleting:
        return changes
    entries = (entry for node in given.nodes for entry in node.state.values())
    record = given.view.get(applied_key(given.options.namespace, given.row.name), AppliedRow)
    written = recording(place, record, plan.packages, entries)
    return replace(changes, published=(written, *changes.published)) if written is not None else changes


def _status(
    given: Situation,
    status: str,
    picked: dict[str, str],
    batches: list[Batch],
    chosen: frozenset[str],
    configs: ConfigChanges,
    course: Course,
    *,
    is_complete: bool,
) -> SkyhookStatus:
    """Return the status to be stored. `is_complete`: the spec as it is now is complete on all nodes."""
    row, nodes, stored = given.row, given.nodes, given.row.status
    is_refused = skyhook_status.is_refused_for_size(given.view, row)
    states, left_out = ({}, "all nodes") if is_refused else skyhook_status.node_states(nodes)
    departed = len(stored.node_priority.keys() - picked.keys())
    compartment_statuses = {batch.name: _compartment(batch, chosen, course) for batch in batches}
    if _begins_rollback(row, course.halt):
        # Every node waits for its turn, those that have failed among them.
        picked, compartment_statuses = {}, _fresh(compartment_statuses)
    return replace(
        stored,
        observed_generation=row.generation if is_complete else stored.observed_generation,
        status=status,
        node_state=states,
        node_status={node.node: node.status for node in nodes if node.status},
        conditions=_conditions(given, status, course, left_out),
        node_boot_ids=_boot_ids(given),
        node_priority={**picked, **dict.fromkeys(sorted(chosen), wire_time(given.now))},
        node_order_offset=0 if status == COMPLETE else stored.node_order_offset + departed,
        config_updates=configs.updates,
        compartment_statuses=compartment_statuses if given.plan.has_compartments else stored.compartment_statuses,
        nodes_in_progress=sum(node.status in (IN_PROGRESS, ERRORING) for node in nodes),
        complete_nodes=f"{sum(node.status == COMPLETE for node in nodes)}/{len(nodes)}",
        package_list=_package_list(given),
        halt=course.halt,
        last_complete=_last_complete(given, course, is_complete=is_complete),
    )


def _compartment(batch: Batch, chosen: frozenset[str], course: Course) -> CompartmentStatus:
    members = tuple(node.node for node in batch.candidates if node.node in chosen)
    return replace(batch.status, batch_nodes=members or batch.status.batch_nodes, gate=course.gate(batch.name))


def _begins_rollback(row: SkyhookRow, halt: Halt | None) -> bool:
    return halt is not None and halt.rollback == RUNNING and halt != row.status.halt


def _last_complete(given: Situation, course: Course, *, is_complete: bool) -> LastComplete | None:
    """Return what a rollback would restore: the packages that were complete everywhere and whose last wave passed."""
    gate = given.policy.gate if given.policy is not None else None
    stored = given.row.status.last_complete
    if not is_complete or course.waiting or not given.nodes:
        return stored
    return halts.recorded(given.row, given.row.spec.packages) if gate is not None and gate.rollback else None


def _package_list(given: Situation) -> str:
    """Return the packages with their versions. While nothing may begin, the last list stays: a change is not seen yet."""
    stored = given.row.status.package_list
    if stored and not given.plan.acts:
        return stored
    packages = given.desired.spec.packages.values()
    return ",".join(sorted(f"{package.name}:{package.version}" for package in packages))


def _boot_ids(given: Situation) -> dict[str, str]:
    stored = given.row.status.node_boot_ids
    ids = {node.node: stored.get(node.node, "") if node.keeps_boot_id else node.boot_id for node in given.nodes}
    return {name: boot or stored.get(name, "") for name, boot in ids.items() if boot or stored.get(name)}


def _conditions(given: Situation, status: str, course: Course | None, left_out: str) -> tuple[Condition, ...]:
    row, plan, nodes = given.row, given.plan, given.nodes
    conditions = Conditions(row.status.conditions, row.generation, given.now)
    before = row.status.status or UNKNOWN
    if status != before:
        text = f"Transitioned [{before}] -> [{status}]"
        conditions.set(skyhook_conditions.TRANSITION, status == COMPLETE, status, text, observed=True)
    latest = max(((*node.latest, node.node) for node in nodes if node.latest is not None), default=None)
    if latest is not None:
        text = f"Applying package [{latest[1]}] to node [{latest[2]}]"
        conditions.set(skyhook_conditions.APPLY_PACKAGE, True, "ApplyPackage", text, observed=True)
    if status != COMPLETE and plan.acts:
        skyhook_conditions.about_nodes(conditions, nodes)
    if plan.has_compartments:
        conditions.remove(skyhook_conditions.NO_POLICY)
    else:
        text = f'DeploymentPolicy "{row.spec.deployment_policy}" not found'
        conditions.set(skyhook_conditions.NO_POLICY, True, "DeploymentPolicyNotFound", text, observed=True)
    if plan.problem:
        conditions.set(skyhook_conditions.INVALID, True, "SpecInvalid", plan.problem, observed=True)
    else:
        conditions.remove(skyhook_conditions.INVALID)
    if left_out:
        text = f"the state of {left_out} is left out, as the status would grow too large"
        conditions.set(skyhook_conditions.TRUNCATED, True, "StatusTruncated", text)
    else:
        conditions.remove(skyhook_conditions.TRUNCATED)
    skyhook_conditions.about_deletion(conditions, plan, nodes)
    skyhook_conditions.about_malformed(conditions, nodes)
    skyhook_conditions.about_pods(conditions, nodes)
    if course is not None:
        skyhook_conditions.about_course(conditions, row, course)
    skyhook_conditions.about_ready(conditions, status, nodes)
    return conditions.all()


def _writes(
    given: Situation, wanted: SkyhookStatus, configs: ConfigChanges, *, is_urgent: bool, may_wait: bool
) -> tuple[list[Step], tuple[Value, ...], datetime | None]:
    """Return the steps: finalizer and stamp, the status where it says something new, then the ConfigMaps.

    `is_urgent`: nodes were picked, which has to be stored before they start. `may_wait`: the arbiter is about to answer,
    so that one write can say both.
    """
    row, now = given.row, given.now
    key = Key("", MARK, "packages-status-write", row.name)
    last = given.view.recall(key, Value)
    next_at = last.value if last is not None and isinstance(last.value, datetime) else now
    only_mirrors = last is not None and _outline(wanted) == _outline(row.status)
    due_at = next_at + (mirror_delay(len(given.nodes)) if only_mirrors else NONE_FOR)
    announces = bool(configs.announced)
    is_due = not may_wait and (is_urgent or announces or now >= due_at)
    # What is not written yet need not be worked out: at its time this decision runs again.
    body = status_patch(row.status, wanted) if is_due else {}
    steps: list[Step] = [_marks(row)]
    if configs.published:
        steps.append(tuple(configs.published))
    if body:
        patch = Patch(
            row.key, body, "status", becomes=replace(row, status=wanted), outcome=skyhook_status.outcome_name(row)
        )
        steps.append((patch, *_transition(row, wanted)))
    if announces:
        steps.append(tuple(configs.announced))
    if body:
        # A write that could not wait is made up for by the next one, which waits longer.
        next_at = min(max(next_at, now), now + STATUS_EVERY_FOR) + STATUS_EVERY_FOR
        return steps, (Value(key=key, value=next_at),), None
    if now >= due_at or last is None:
        return steps, (), None
    return steps, (last,), None if may_wait else due_at


def _outline(status: SkyhookStatus) -> tuple[str, int]:
    """Return what a status says of the Skyhook as a whole."""
    return status.status, status.observed_generation


def mirror_delay(nodes: int) -> timedelta:
    """Return for how much longer than usual a status waits that only mirrors its nodes.

    Working it out and storing it takes time for each node. So its share of the work does not grow with the fleet.
    """
    return max(NONE_FOR, nodes * MIRRORED_FOR_EACH_NODE - STATUS_EVERY_FOR)


def _marks(row: SkyhookRow) -> tuple[Edit, ...]:
    edits: list[Edit] = []
    if FINALIZER not in row.finalizers:
        edits.append(Finalize(row.key, FINALIZER, present=True))
    if STAMP not in row.annotations:
        edits.append(Annotate(row.key, STAMP, STAMP_VERSION))
    return tuple(edits)


def _transition(row: SkyhookRow, wanted: SkyhookStatus) -> tuple[Tell, ...]:
    before = row.status.status or UNKNOWN
    events = []
    if before != wanted.status:
        events.append(told(row.key, "State", f"Skyhook transitioned [{before}] -> [{wanted.status}]"))
    if wanted.halt is not None and wanted.halt != row.status.halt:
        # An event has room for 1 KiB.
        events.append(told(row.key, "Halt", halts.account(row, wanted.halt)[:1024], warning=True))
    return tuple(events)
