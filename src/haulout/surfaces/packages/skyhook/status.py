"""The status of a Skyhook, from its nodes and its rollout."""

from __future__ import annotations

import msgspec

from haulout.model.meta import Condition, wire_time
from haulout.surfaces.packages.skyhook import conditions as skyhook_conditions
from haulout.surfaces.packages.skyhook import halts, status_size
from haulout.surfaces.packages.skyhook.batches import CompartmentBatch
from haulout.surfaces.packages.skyhook.conditions import Conditions
from haulout.surfaces.packages.skyhook.config_changes import ConfigChanges
from haulout.surfaces.packages.skyhook.halts import GateCourse
from haulout.surfaces.packages.skyhook.situation import SkyhookSituation
from haulout.surfaces.packages.wire import (
    COMPLETE,
    ERRORING,
    IN_PROGRESS,
    UNKNOWN,
    SkyhookRow,
)
from haulout.surfaces.packages.wire_status import (
    FRESH_BATCH,
    RUNNING,
    CompartmentStatus,
    Halt,
    LastComplete,
    SkyhookStatus,
)

replace = msgspec.structs.replace


def rollout_status(
    situation: SkyhookSituation,
    status: str,
    picked: dict[str, str],
    batches: list[CompartmentBatch],
    chosen: frozenset[str],
    configs: ConfigChanges,
    course: GateCourse,
    *,
    is_complete: bool,
    is_too_large: bool,
) -> SkyhookStatus:
    """Return the status to store.

    `picked`: the nodes that stay picked. `chosen`: the nodes that are picked now.
    `is_complete`: the current spec is complete on all nodes.
    `is_too_large`: the API server has refused the status for its size.
    """
    row, nodes, stored = situation.row, situation.nodes, situation.row.status
    states, left_out = ({}, "all nodes") if is_too_large else status_size.node_states(nodes)
    departed = len(stored.node_priority.keys() - picked.keys())
    compartment_statuses = {batch.name: _compartment(batch, chosen, course) for batch in batches}
    if _begins_rollback(row, course.halt):
        # A rollback begins without picks: even nodes that have failed wait until they are picked for it.
        picked, compartment_statuses = {}, fresh_record(compartment_statuses)
    return replace(
        stored,
        observed_generation=row.generation if is_complete else stored.observed_generation,
        status=status,
        node_state=states,
        node_status={node.node: node.status for node in nodes if node.status},
        conditions=conditions_of(situation, status, course, left_out),
        node_boot_ids=_boot_ids(situation),
        node_priority={**picked, **dict.fromkeys(sorted(chosen), wire_time(situation.now))},
        node_order_offset=0 if status == COMPLETE else stored.node_order_offset + departed,
        config_updates=configs.updates,
        compartment_statuses=compartment_statuses if situation.intent.has_compartments else stored.compartment_statuses,
        nodes_in_progress=sum(node.status in (IN_PROGRESS, ERRORING) for node in nodes),
        complete_nodes=f"{sum(node.status == COMPLETE for node in nodes)}/{len(nodes)}",
        package_list=_package_list(situation),
        halt=course.halt,
        last_complete=_last_complete(situation, course, is_complete=is_complete),
    )


def _compartment(batch: CompartmentBatch, chosen: frozenset[str], course: GateCourse) -> CompartmentStatus:
    members = tuple(node.node for node in batch.candidates if node.node in chosen)
    return replace(batch.status, batch_nodes=members or batch.status.batch_nodes, gate=course.gate(batch.name))


def _begins_rollback(row: SkyhookRow, halt: Halt | None) -> bool:
    return halt is not None and halt.rollback == RUNNING and halt != row.status.halt


def _last_complete(situation: SkyhookSituation, course: GateCourse, *, is_complete: bool) -> LastComplete | None:
    """Return the packages that a rollback would restore: the last that were complete with all gates passed."""
    gate = situation.policy.gate if situation.policy is not None else None
    stored = situation.row.status.last_complete
    if not is_complete or course.waiting or not situation.nodes:
        return stored
    return (
        halts.complete_record(situation.row, situation.row.spec.packages)
        if gate is not None and gate.rollback
        else None
    )


def _package_list(situation: SkyhookSituation) -> str:
    """Return the packages with their versions as text.

    While the Skyhook may not act, the stored list stays, so that a change is noticed once it may.
    """
    stored = situation.row.status.package_list
    if stored and not situation.intent.acts:
        return stored
    packages = situation.desired.spec.packages.values()
    return ",".join(sorted(f"{package.name}:{package.version}" for package in packages))


def _boot_ids(situation: SkyhookSituation) -> dict[str, str]:
    stored = situation.row.status.node_boot_ids
    ids = {node.node: stored.get(node.node, "") if node.keeps_boot_id else node.boot_id for node in situation.nodes}
    return {name: boot or stored.get(name, "") for name, boot in ids.items() if boot or stored.get(name)}


def conditions_of(
    situation: SkyhookSituation, status: str, course: GateCourse | None, left_out: str
) -> tuple[Condition, ...]:
    row, intent, nodes = situation.row, situation.intent, situation.nodes
    conditions = Conditions(row.status.conditions, row.generation, situation.now, row.group)
    before = row.status.status or UNKNOWN
    if status != before:
        text = f"Transitioned [{before}] -> [{status}]"
        conditions.set(skyhook_conditions.TRANSITION, status == COMPLETE, status, text, observed=True)
    latest = max(((*node.latest, node.node) for node in nodes if node.latest is not None), default=None)
    if latest is not None:
        text = f"Applying package [{latest[1]}] to node [{latest[2]}]"
        conditions.set(skyhook_conditions.APPLY_PACKAGE, True, "ApplyPackage", text, observed=True)
    if status != COMPLETE and intent.acts:
        skyhook_conditions.about_nodes(conditions, nodes)
    if intent.has_compartments:
        conditions.remove(skyhook_conditions.NO_POLICY)
    else:
        text = f'DeploymentPolicy "{row.spec.deployment_policy}" not found'
        conditions.set(skyhook_conditions.NO_POLICY, True, "DeploymentPolicyNotFound", text, observed=True)
    skyhook_conditions.about_problem(conditions, intent, nodes)
    if left_out:
        text = f"the state of {left_out} is left out, as the status would grow too large"
        conditions.set(skyhook_conditions.TRUNCATED, True, "StatusTruncated", text)
    else:
        conditions.remove(skyhook_conditions.TRUNCATED)
    skyhook_conditions.about_deletion(conditions, intent, nodes)
    skyhook_conditions.about_malformed(conditions, nodes)
    skyhook_conditions.about_uninstall(conditions, nodes)
    skyhook_conditions.about_pods(conditions, nodes)
    skyhook_conditions.about_blocks(conditions, intent, nodes)
    skyhook_conditions.about_drains(conditions, nodes)
    if course is not None:
        skyhook_conditions.about_course(conditions, row, course)
    skyhook_conditions.about_ready(conditions, status, nodes)
    if not situation.options.alone:
        skyhook_conditions.for_tools(conditions, intent, course)
    return conditions.all()


def fresh_record(stored: dict[str, CompartmentStatus]) -> dict[str, CompartmentStatus]:
    """Return the compartments' records with their batch states reset."""
    return {name: replace(each, batch_state=FRESH_BATCH) for name, each in stored.items()}
