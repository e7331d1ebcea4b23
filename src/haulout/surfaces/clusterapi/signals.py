"""The signals between a Machine and its Node: from the labels that both have to the labels that each should have."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from haulout.cluster.rows import NodeRow
from haulout.model.meta import wire_time
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    APPROVED,
    BY_WORKLOAD,
    DELETED,
    DELETION_APPROVED,
    LET_GO,
    MAINTENANCE_APPROVED,
    MAINTENANCE_WISHED,
    REQUESTED,
    REQUESTED_BY,
    STATE,
    MachineRow,
)


class Signals(msgspec.Struct, frozen=True):
    """The current labels of a Machine and its Node about maintenance and deletion.

    `managed`: the Node has a maintenance state, so a maintenance controller is responsible for it.
    """

    managed: bool
    enabled: bool
    deleting: bool
    deletion_approved: bool
    request: str | None
    maintenance_approved: bool


class Targets(msgspec.Struct, frozen=True):
    """The labels and annotations that a Machine and its Node should have.

    `hook`: on the Machine. `deleted`, `maintenance`: on the Node.
    `approve`: the maintenance request has to be approved now.
    """

    hook: bool = False
    deleted: bool = False
    maintenance: bool = False
    approve: bool = False


def targets_of(signals: Signals) -> Targets:
    if not (signals.managed and signals.enabled):
        return Targets()
    return Targets(
        hook=not signals.deletion_approved,
        deleted=signals.deleting,
        maintenance=signals.request in (REQUESTED, APPROVED),
        approve=signals.request == REQUESTED and signals.maintenance_approved,
    )


def signals(machine: MachineRow, node: NodeRow, options: Options) -> Signals:
    approved = node.labels.get(DELETION_APPROVED) == "true"
    if options.approval_hygiene and DELETED not in node.labels:
        # An approval that is older than the deletion does not count.
        approved = False
    return Signals(
        managed=STATE in node.labels,
        enabled=machine.enabled,
        deleting=machine.deleting_at is not None,
        deletion_approved=approved,
        request=None if is_taken_back(machine, node, options) else machine.request,
        maintenance_approved=node.labels.get(MAINTENANCE_APPROVED) == "true",
    )


def wanted_by(machines: Iterable[MachineRow], node: NodeRow, options: Options) -> Targets:
    """Return what other Machines want of the same Node. A new Machine may name the Node before the old one is gone.

    Each Machine sets its own labels, and removes none that another one wants. Otherwise they would undo each other.
    """
    aims = [targets_of(signals(machine, node, options)) for machine in machines]
    return Targets(deleted=any(aim.deleted for aim in aims), maintenance=any(aim.maintenance for aim in aims))


def is_taken_back(machine: MachineRow, node: NodeRow, options: Options) -> bool:
    """Whether the workload cluster has withdrawn its own request. An approval then has no effect."""
    ours = machine.annotations.get(REQUESTED_BY) == BY_WORKLOAD
    wished = node.labels.get(MAINTENANCE_WISHED) == "true"
    return options.workload_requests and ours and not wished and machine.request == REQUESTED


def overdue_at(machine: MachineRow, options: Options) -> datetime | None:
    """Return when a deletion has waited for its approval for the configured time; None if there is no limit."""
    if machine.deleting_at is None or options.deletion_approval_timeout <= timedelta():
        return None
    return machine.deleting_at + options.deletion_approval_timeout


def is_overdue(machine: MachineRow, options: Options, now: datetime) -> bool:
    """Whether a deletion continues without approval. Once it does, a longer timeout does not stop it again."""
    at = overdue_at(machine, options)
    return (at is not None and now >= at) or is_let_go(machine)


def is_let_go(machine: MachineRow) -> bool:
    return machine.deleting_at is not None and machine.annotations.get(LET_GO) == wire_time(machine.deleting_at)
