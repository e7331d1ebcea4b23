"""The status of a Skyhook on the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from haulout.base import bounds
from haulout.base.patch import merge_diff
from haulout.model.meta import Condition, wire_time
from haulout.surfaces.packages.entries.entry import PackageEntry

T = TypeVar("T")
# Kubernetes limits the message of a condition to 32 KiB.
CONDITION_BOUNDS = bounds.TreeBounds(longest=32_768, most=64)
# A policy has at most 100 compartments. Those of a former policy may still be in the status.
MOST_COMPARTMENTS, LONGEST_COMPARTMENT = 256, 1024
LONGEST_LIST = 65_536
# The nodes of a batch. Their names are those of Nodes.
BATCH_BOUNDS = bounds.TreeBounds(longest=bounds.LONGEST_NAME, most=20_000, characters=1 << 21)


class BatchState(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The progress of a compartment's rollout: the number of its batch, failures so far, and the last batch."""

    current_batch: int = 0
    consecutive_failures: int = 0
    completed_nodes: int = 0
    failed_nodes: int = 0
    should_stop: bool = False
    last_batch_size: int = 0
    last_batch_failed: bool = False


FRESH_BATCH = BatchState(current_batch=1)


class AwaitedGate(Struct, frozen=True, rename="camel"):
    """A wave that has ended and has not passed its gate yet.

    `wave`: its number. `nodes`: its members. `since`: when it ended. `generation`: that of the Skyhook at that time.
    """

    wave: int = 0
    nodes: tuple[str, ...] = ()
    since: str = ""
    generation: int = 0


# The progress of a rollback, which restores the last complete version after a halt. Empty: there is none.
PENDING, RUNNING, DONE = "pending", "running", "done"


class Halt(Struct, frozen=True, rename="camel"):
    """Why a rollout was halted. It is in force while the Skyhook still has this `generation`.

    `compartment`, `wave`: the wave that failed its gate. `reason`, `message`: why it failed.
    `rollback`: the progress of restoring the last complete version; empty if nothing is restored.
    """

    generation: int = 0
    compartment: str = ""
    wave: int = 0
    reason: str = ""
    message: str = ""
    at: str = ""
    rollback: str = ""


class LastComplete(Struct, frozen=True, rename="camel"):
    """The packages that were last complete on all nodes, in the form of a spec."""

    generation: int = 0
    packages: dict[str, dict[str, Any]] = {}


class CompartmentStatus(Struct, frozen=True, rename="camel"):
    """The numbers of one compartment, and the record of its batches.

    `batch_nodes`: the members of the current batch. `gate`: the last batch, until it has passed its gate.
    """

    matched: int = 0
    ceiling: int = 0
    in_progress: int = 0
    completed: int = 0
    progress_percent: int = 0
    batch_state: BatchState | None = None
    batch_nodes: tuple[str, ...] = ()
    gate: AwaitedGate | None = None


class SkyhookStatus(Struct, frozen=True, rename="camel"):
    """The status of a Skyhook: the states of its nodes, and the record of the rollout.

    `node_priority`: for each picked node, when it was picked.
    `config_updates`: for each package, the keys of its ConfigMap that its last change touched.
    `node_order_offset`: how many nodes have left `node_priority` in this rollout.
    `last_complete`: the packages that a rollback would restore; None if the policy asks for none.
    """

    observed_generation: int = 0
    status: str = ""
    node_state: dict[str, dict[str, PackageEntry]] = {}
    node_status: dict[str, str] = {}
    conditions: tuple[Condition, ...] = ()
    node_boot_ids: dict[str, str] = {}
    node_priority: dict[str, str] = {}
    config_updates: dict[str, tuple[str, ...]] = {}
    compartment_statuses: dict[str, CompartmentStatus] = {}
    nodes_in_progress: int = 0
    complete_nodes: str = ""
    package_list: str = ""
    node_order_offset: int = 0
    halt: Halt | None = None
    last_complete: LastComplete | None = None

    def condition(self, kind: str) -> Condition | None:
        return next((each for each in self.conditions if each.type == kind), None)


def bound_status(status: SkyhookStatus) -> SkyhookStatus:
    """Return the status with bounded times, counts and texts, because people can write any value.

    The states of nodes are kept as they are. They take what a fleet takes, and the next write replaces them.
    """
    conditions = tuple(
        msgspec.structs.replace(each, last_transition_time=bounds.instant(each.last_transition_time))
        for each in bounds.trim(status.conditions, CONDITION_BOUNDS)
    )
    some = islice(status.compartment_statuses.items(), MOST_COMPARTMENTS)
    compartments = {bounds.text(name, LONGEST_COMPARTMENT): _bounded_compartment(each) for name, each in some}
    last = status.last_complete
    return msgspec.structs.replace(
        status,
        status=bounds.text(status.status, bounds.LONGEST_NAME),
        conditions=conditions,
        compartment_statuses=compartments,
        node_order_offset=bounds.count(status.node_order_offset),
        config_updates=bounds.trim(status.config_updates, bounds.LARGE),
        complete_nodes=bounds.text(status.complete_nodes, bounds.LONGEST_NAME),
        package_list=bounds.text(status.package_list, LONGEST_LIST),
        halt=bounds.trim(status.halt),
        # A part of the packages must not be restored.
        last_complete=last if bounds.is_within(last, bounds.LARGE) else None,
    )


def _bounded_compartment(status: CompartmentStatus) -> CompartmentStatus:
    status = bounds.trim(status, BATCH_BOUNDS)
    state = status.batch_state
    if state is None:
        return status
    numbers = {name: bounds.count(value) for name, value in _numbers(state).items()}
    return msgspec.structs.replace(status, batch_state=msgspec.structs.replace(state, **numbers))


def _numbers(state: BatchState) -> dict[str, int]:
    fields = ("current_batch", "consecutive_failures", "completed_nodes", "failed_nodes", "last_batch_size")
    return {name: getattr(state, name) for name in fields}


def _record_form(status: SkyhookStatus) -> dict[str, Any]:
    """Return the status without its nodes, as Go writes it.

    Empty members are left out, except `nodesInProgress`, `completeNodes` and `packageList`.
    """
    form: dict[str, Any] = {}
    form |= {"observedGeneration": status.observed_generation} if status.observed_generation else {}
    form |= {"status": status.status} if status.status else {}
    form |= {"conditions": [condition_form(each) for each in status.conditions]} if status.conditions else {}
    form |= {"configUpdates": {k: list(v) for k, v in status.config_updates.items()}} if status.config_updates else {}
    if status.compartment_statuses:
        form["compartmentStatuses"] = {name: _compartment(each) for name, each in status.compartment_statuses.items()}
    form["nodesInProgress"] = status.nodes_in_progress
    form["completeNodes"] = status.complete_nodes
    form["packageList"] = status.package_list
    form |= {"nodeOrderOffset": status.node_order_offset} if status.node_order_offset else {}
    form |= {"halt": msgspec.to_builtins(status.halt)} if status.halt is not None else {}
    form |= {"lastComplete": msgspec.to_builtins(status.last_complete)} if status.last_complete is not None else {}
    return form


def status_patch(stored: SkyhookStatus, wanted: SkyhookStatus) -> dict[str, Any]:
    """Return the merge patch of the status subresource; empty if nothing changes.

    Only nodes that differ are converted, because a status has thousands of nodes, of which few change at a time.
    """
    changes: dict[str, Any] = merge_diff(_record_form(stored), _record_form(wanted))
    changes |= _changed_nodes("nodeState", stored.node_state, wanted.node_state, _entries)
    changes |= _changed_nodes("nodeStatus", stored.node_status, wanted.node_status)
    changes |= _changed_nodes("nodeBootIds", stored.node_boot_ids, wanted.node_boot_ids)
    changes |= _changed_nodes("nodePriority", stored.node_priority, wanted.node_priority)
    return {"status": changes} if changes else {}


def _changed_nodes(
    member: str, stored: Mapping[str, T], wanted: Mapping[str, T], form: Callable[[T], Any] = lambda value: value
) -> dict[str, Any]:
    """Return the merge patch for a member that maps node names to values. Like in Go, an empty map is left out."""
    if stored == wanted:
        return {}
    if not wanted:
        return {member: None}
    changes: dict[str, Any] = dict.fromkeys(name for name in stored if name not in wanted)
    for name, value in wanted.items():
        known = stored.get(name)
        if known != value:
            changes[name] = form(value) if known is None else merge_diff(form(known), form(value))
    return {member: changes}


def _entries(entries: Mapping[str, PackageEntry]) -> dict[str, Any]:
    return {key: _entry(entry) for key, entry in entries.items()}


def _entry(entry: PackageEntry) -> dict[str, Any]:
    """Return an entry with the members that the schema requires."""
    form: dict[str, Any] = {"name": entry.name, "version": entry.version, "image": entry.image}
    form |= {"containerSHA": entry.container_sha} if entry.container_sha else {}
    return form | {"stage": entry.stage, "state": entry.state or "unknown", "restarts": entry.restarts}


def condition_form(condition: Condition) -> dict[str, Any]:
    form: dict[str, Any] = {"type": condition.type, "status": condition.status, "reason": condition.reason}
    form |= {"message": condition.message, "lastTransitionTime": _time(condition.last_transition_time)}
    return form | ({"observedGeneration": condition.observed_generation} if condition.observed_generation else {})


def _compartment(status: CompartmentStatus) -> dict[str, Any]:
    form = {
        "matched": status.matched,
        "ceiling": status.ceiling,
        "inProgress": status.in_progress,
        "completed": status.completed,
        "progressPercent": status.progress_percent,
    }
    more: dict[str, Any] = {}
    if status.batch_state is not None:
        more["batchState"] = msgspec.to_builtins(status.batch_state)
    if status.batch_nodes:
        more["batchNodes"] = list(status.batch_nodes)
    if status.gate is not None:
        more["gate"] = msgspec.to_builtins(status.gate) | {"nodes": list(status.gate.nodes)}
    return form | more


def _time(at: datetime | None) -> str:
    return wire_time(at or bounds.EARLIEST)
