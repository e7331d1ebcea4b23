"""The decision about one Skyhook: which nodes are picked, and the writes to its ConfigMaps, status and finalizer."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.project import within
from haulout.cluster.rows import Value
from haulout.cluster.view import View
from haulout.core.action import Finalize, Step
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.holds import Claim
from haulout.surfaces.packages.events import event
from haulout.surfaces.packages.groups import SKYHOOK
from haulout.surfaces.packages.node.interrupt_gate import NON_INTERRUPT
from haulout.surfaces.packages.node.standing import NODES_OF_SKYHOOK, NodeStanding
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.config_maps import (
    NODE_METADATA,
    PACKAGE_CONFIG,
    PackageConfigRow,
    configs_of_skyhook,
)
from haulout.surfaces.packages.pods.rows import PACKAGE_POD
from haulout.surfaces.packages.pods.unlabelled import labelled_configs
from haulout.surfaces.packages.present import skyhook_reasons
from haulout.surfaces.packages.skyhook import claims, compartments, halts, hearing, status_size, status_word
from haulout.surfaces.packages.skyhook.applied import APPLIED, AppliedRow, applied_key, recording
from haulout.surfaces.packages.skyhook.batches import CompartmentBatch, batch_of
from haulout.surfaces.packages.skyhook.conditions import MOST_NAMED, deletion_block
from haulout.surfaces.packages.skyhook.config_changes import ConfigChanges, config_changes
from haulout.surfaces.packages.skyhook.halts import course_of
from haulout.surfaces.packages.skyhook.intent import Intent, changed_packages, held_key, intent_key
from haulout.surfaces.packages.skyhook.situation import SkyhookSituation
from haulout.surfaces.packages.skyhook.status import conditions_of, fresh_record, rollout_status
from haulout.surfaces.packages.skyhook.writes import outline_of, writes_of
from haulout.surfaces.packages.units.following import follow
from haulout.surfaces.packages.units.hand_over import note_of, owned_config_maps, taking_lead
from haulout.surfaces.packages.units.remains import is_note_due, note_of_remains, note_without_installed
from haulout.surfaces.packages.units.unit import Unit, unit_of
from haulout.surfaces.packages.wire import (
    COMPLETE,
    SURFACE,
    UNKNOWN,
    SkyhookRow,
)
from haulout.surfaces.packages.wire_policy import Compartment, policy_of
from haulout.surfaces.packages.wire_status import FRESH_BATCH, CompartmentStatus

replace = msgspec.structs.replace


def decide(key: Key, view: View, now: datetime) -> Decision:
    setting = view.config(SURFACE)
    unit = unit_of(view, key.name)
    if setting is None or unit is None:
        return NOTHING
    if unit.stored.key != key:
        return follow(unit, key, view, now)
    row = unit.leader
    assert isinstance(setting.value, Options)
    # While one of these tables cannot be read, the decisions about intents and nodes are put off, and the rows that they
    # make are missing or out of date.
    own = (PACKAGE_POD, NODE_METADATA, PACKAGE_CONFIG, APPLIED)
    for kind in ("Node", "Pod", *(within(kind, setting.value.namespace) for kind in own)):
        view.require(kind)
    policy = policy_of(view, row)
    intent = view.get(intent_key(row.key), Intent)
    wanted = halts.desired_skyhook(row)
    if intent is None or not _is_of(intent, row, is_restored=wanted is not row):
        return NOTHING
    hearing.await_first_answers(view, hearing.NODE_DECISION)
    standings = view.rows(NODES_OF_SKYHOOK, row.name, NodeStanding)
    nodes = hearing.current(view, intent, standings, row.status.node_priority)
    if row.deleting_at is not None and not (intent.is_uninstalling and any(not node.is_complete for node in nodes)):
        return _ending(unit, intent, view) if unit.is_settled else Decision(actions=tuple(taking_lead(unit, view)))
    configs = tuple(view.rows(configs_of_skyhook(setting.value.namespace), row.name, PackageConfigRow))
    named = {node.node: node for node in nodes}
    situation = SkyhookSituation(row, wanted, intent, view, now, setting.value, nodes, named, configs, policy)
    decision = _decided(situation, unit)
    if unlabelled := labelled_configs(view, setting.value.namespace, row.name):
        # Without these labels the ConfigMaps are not seen, and would be created again.
        return replace(decision, actions=(unlabelled,))
    return decision


def _decided(situation: SkyhookSituation, unit: Unit) -> Decision:
    if not unit.is_settled:
        return _taking_lead(situation, unit)
    claimed = (*note_of(unit), *note_without_installed(unit.stored))
    if is_note_due(unit):
        if not hearing.has_heard_all(situation.view, situation.intent, situation.nodes):
            # The note has to come before our first status, which hides that another operator wrote the last one.
            return Decision(claims=_begun(situation))
        claimed = (*note_of(unit), *note_of_remains(unit, situation.nodes))
    going_on = _going_on(msgspec.structs.replace(situation, claimed=claimed))
    return _with_other(going_on, situation, unit) if unit.other is not None else going_on


def _begun(situation: SkyhookSituation) -> tuple[Claim, ...]:
    """Return the claims on nodes that the rollout has begun."""
    row = situation.row
    return tuple(claims.claims_begun(row, situation.nodes, row.status.node_priority, situation.options, situation.view))


def _is_of(intent: Intent, row: SkyhookRow, *, is_restored: bool) -> bool:
    """Whether an intent was made of the Skyhook as it is now."""
    is_deleting = row.deleting_at is not None
    return (intent.generation, intent.is_deleting, intent.is_restored) == (row.generation, is_deleting, is_restored)


def _taking_lead(situation: SkyhookSituation, unit: Unit) -> Decision:
    """Take over what the other object of the unit has led so far. Nothing new begins before that is stored."""
    claimed = _begun(situation)
    steps = list(taking_lead(unit, situation.view))
    if unit.stored.group is SKYHOOK:
        # What the NodeWright has left on nodes is noted before the Skyhook leads, which would uninstall it.
        if not hearing.has_heard_all(situation.view, situation.intent, situation.nodes):
            return Decision(claims=claimed)
        steps = [step for step in (note_of_remains(unit, situation.nodes), *steps) if step]
    return Decision(actions=tuple(steps), claims=claimed)


def _with_other(decision: Decision, situation: SkyhookSituation, unit: Unit) -> Decision:
    """Return the decision with what the leader does for the other object: ConfigMaps get the leader as owner."""
    record = situation.view.get(applied_key(situation.options.namespace, situation.row.name), AppliedRow)
    patches = tuple(owned_config_maps(unit, situation.intent.place("", situation.options), situation.configs, record))
    return replace(decision, actions=(*decision.actions, patches)) if patches else decision


def _ending(unit: Unit, intent: Intent, view: View) -> Decision:
    """Remove the finalizer of a deleted Skyhook once no node carries marks of it, and no other object of its name is left."""
    if unit.other is not None or not hearing.are_released(view, intent):
        return NOTHING
    row = unit.stored
    return Decision(actions=((Finalize(row.key, row.group.finalizer, present=False),),))


def _unreadable(situation: SkyhookSituation) -> Decision:
    """Return the decision for a Skyhook whose node selector is invalid: report that, and change nothing on nodes."""
    stored = situation.row.status
    conditions = conditions_of(situation, stored.status or UNKNOWN, None, "")
    none = ConfigChanges(stored.config_updates)
    status = replace(stored, conditions=conditions)
    steps, marks, until = writes_of(
        situation, outline_of(stored), lambda: status, none, is_urgent=False, may_wait=False
    )
    return Decision(actions=tuple(step for step in steps if step), marks=marks, until=until)


def _going_on(situation: SkyhookSituation) -> Decision:
    row, intent = situation.row, situation.intent
    if intent.selector is None:
        return _unreadable(situation)
    status = status_word.status_of(
        row, [node for node in situation.nodes if node.is_heard], has_compartments=intent.has_compartments
    )
    is_heard = status != COMPLETE or _is_heard(situation)
    if not is_heard or (status == COMPLETE and _hides_last_completion(situation)):
        status = row.status.status or UNKNOWN
    picked = _kept_picks(situation)
    batches = _batches(situation, status, picked)
    gate = situation.policy.gate if situation.policy is not None else None
    configs = _configs(situation)
    # Until a new configuration reaches them, nodes are complete for the old one. That must not count as a complete
    # rollout.
    is_changing = bool(configs.announced or configs.is_queued or intent.changing)
    course = course_of(row, gate, batches, situation.view, situation.now, acts=intent.acts, is_changing=is_changing)
    if course.halt is not None:
        status = status_word.halted_status(status)
    # Which nodes a rollback concerns is known only when every node's entry shows the restored configuration.
    waits = situation.is_restoring and is_changing
    batches = [replace(each, size=0, candidates=()) if waits or course.holds(each.name) else each for each in batches]
    wanted = [
        claim for batch in batches for claim in claims.wanted_claims(row, batch, situation.options, situation.view)
    ]
    chosen, is_answered = claims.chosen_nodes(situation.view, wanted, batches, situation.options)
    holds: tuple[Claim, ...] = (
        *claims.claims_begun(row, situation.nodes, picked, situation.options, situation.view),
        *wanted,
    )
    is_complete = status == COMPLETE and is_heard and not is_changing
    outline = status, row.generation if is_complete else row.status.observed_generation
    # This is read on every run, even if no status is due, because an outcome that a decision stops reading is
    # forgotten.
    is_too_large = status_size.is_refused_for_size(situation.view, row)
    new_status = functools.partial(
        rollout_status,
        *(situation, status, picked, batches, chosen, configs, course),
        is_complete=is_complete,
        is_too_large=is_too_large,
    )
    # A failed node with a void pick does nothing, not even delete pods of a replaced version, until the pick is
    # removed.
    has_void_picks = any(node.has_void_pick for node in situation.nodes)
    is_urgent = bool(chosen) or has_void_picks or course.halt != row.status.halt
    steps, marks, until = writes_of(
        situation, outline, new_status, configs, is_urgent=is_urgent, may_wait=not is_answered
    )
    return Decision(
        actions=(*(step for step in steps if step), *_told(situation)),
        claims=holds,
        marks=(*marks, *(Value(key=held_key(row.key, name)) for name in claims.refused_nodes(situation.view, wanted))),
        until=earliest(until, course.until),
        reasons=skyhook_reasons(row, intent, situation.nodes, batches, course)
        if situation.view.explaining and (status != COMPLETE or course.waiting or intent.problem)
        else (),
    )


def _told(situation: SkyhookSituation) -> Iterator[Step]:
    """Yield the events about what keeps the Skyhook from being deleted, and about pods that it waits for."""
    owner, nodes = situation.row.key, situation.nodes
    why, reason = deletion_block(situation.intent, nodes)
    tells = (
        [event(owner, "DeletionBlocked", f"{reason}: packages cannot be uninstalled: {why}", warning=True)]
        if why
        else []
    )
    waits = sorted({node.node for node in nodes for cause, _ in node.blocked_by if cause == NON_INTERRUPT})
    if waits:
        text = f"non-interrupt pods run on {', '.join(waits[:MOST_NAMED])}. Waiting."
        tells.append(event(owner, "Drain", text, warning=True))
    if tells:
        yield tuple(tells)


def _is_heard(situation: SkyhookSituation) -> bool:
    """Whether the decisions of all nodes have seen the Skyhook as it is now.

    Once the status says that this generation is complete, only nodes with a standing count: a new node gets its own.
    """
    stored = situation.row.status
    if (stored.status, stored.observed_generation) == (COMPLETE, situation.row.generation):
        return all(node.is_heard for node in situation.nodes)
    return hearing.has_heard_all(situation.view, situation.intent, situation.nodes)


def _hides_last_completion(situation: SkyhookSituation) -> bool:
    """Whether the stored compartments do not show all nodes as complete yet.

    The status is first written with the last batch in it, and then completed, which resets the batches. So people and
    programs that follow the batches see how the last one ended.
    """
    stored, records = situation.row.status, situation.row.status.compartment_statuses.values()
    if stored.status == COMPLETE or not situation.resets or not situation.intent.has_compartments:
        return False
    has_batches = any(each.batch_nodes or each.batch_state not in (None, FRESH_BATCH) for each in records)
    return has_batches and sum(each.completed for each in records) < len(situation.nodes)


def _kept_picks(situation: SkyhookSituation) -> dict[str, str]:
    """Return the nodes that stay picked, each with the time of its pick.

    A node loses its pick if it is complete or gone, if it never began and is no longer eligible, or if its pick is
    void.
    """
    kept = {}
    for name, at in situation.row.status.node_priority.items():
        node = situation.named.get(name)
        if node is None or node.is_complete or node.has_void_pick:
            continue
        if node.has_begun or node.is_eligible or not situation.intent.acts:
            kept[name] = at
    return kept


def _batches(situation: SkyhookSituation, status: str, picked: dict[str, str]) -> list[CompartmentBatch]:
    row, intent = situation.row, situation.intent
    if not intent.has_compartments:
        return []
    groups = (
        compartments.of_policy(situation.policy)
        if situation.policy is not None
        else compartments.without_policy(row.spec.interruption_budget, len(situation.nodes))
    )
    if situation.is_restoring:
        # A rollback must not stop after failures, because nothing could resume it.
        groups = tuple(replace(each, strategy=replace(each.strategy, failure_threshold=None)) for each in groups)
    members = _members(groups, situation)
    stored = _stored(situation, status)
    is_rolling = status != COMPLETE and intent.acts
    return [
        batch_of(
            each,
            members[each.name],
            stored.get(each.name),
            picked,
            situation.options,
            is_rolling=is_rolling,
            is_rollback=situation.is_restoring,
        )
        for each in groups
    ]


def _members(groups: Sequence[Compartment], situation: SkyhookSituation) -> Mapping[str, Sequence[NodeStanding]]:
    """Return the nodes of each compartment. A single compartment has all nodes."""
    if len(groups) == 1:
        return {groups[0].name: situation.nodes}
    assigned = compartments.assign(groups, {name: node.labels for name, node in situation.named.items()})
    return {group: [situation.named[name] for name in names] for group, names in assigned.items()}


def _stored(situation: SkyhookSituation, status: str) -> dict[str, CompartmentStatus]:
    """Return the stored records of the compartments, with their batch states reset where a new rollout begins.

    That is after a version has changed, when the rollout has just been completed, and for a new spec after a halt.
    """
    stored = situation.row.status.compartment_statuses
    if situation.row.status.halt is not None and halts.halt_of(situation.row) is None:
        return fresh_record(stored)
    has_changed = situation.intent.acts and bool(changed_packages(situation.desired))
    has_completed = status == COMPLETE and situation.row.status.status != COMPLETE
    if not situation.resets or not (has_changed or has_completed):
        return stored
    return fresh_record(stored)


def _configs(situation: SkyhookSituation) -> ConfigChanges:
    intent = situation.intent
    if not intent.acts:
        return ConfigChanges(situation.row.status.config_updates)
    place = intent.place("", situation.options)
    changes = config_changes(intent, place, situation.configs, situation.nodes, intent.updates)
    if intent.is_deleting:
        return changes
    entries = (entry for node in situation.nodes for entry in node.state.values())
    record = situation.view.get(applied_key(situation.options.namespace, situation.row.name), AppliedRow)
    written = recording(place, record, intent.packages, entries)
    return replace(changes, published=(written, *changes.published)) if written is not None else changes
