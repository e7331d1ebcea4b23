"""The signals between a Machine and its Node: from the labels of both to the labels that each should have."""

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
    """What the labels of a Machine and its Node say about maintenance and deletion.

    `managed`: a maintenance controller looks after the Node, in any state.
    """

    managed: bool
    enabled: bool
    deleting: bool
    deletion_approved: bool
    request: str | None
    maintenance_approved: bool


class Targets(msgspec.Struct, frozen=True):
    """The labels and annotations that a Machine and its Node should have.

    `hook` on the Machine, `deleted` and `maintenance` on the Node; `approve`: the request is to be approved now.
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
        # An approval from before the request does not count.
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
    """Return what other Machines want of the same Node: a Machine may replace another before that one is gone.

    Each says its own, and takes away nothing that another still says, or they would quarrel.
    """
    aims = [targets_of(signals(machine, node, options)) for machine in machines]
    return Targets(deleted=any(aim.deleted for aim in aims), maintenance=any(aim.maintenance for aim in aims))


def is_taken_back(machine: MachineRow, node: NodeRow, options: Options) -> bool:
    """Whether the workload cluster withdrew a request that it made: an approval of it has no effect."""
    ours = machine.annotations.get(REQUESTED_BY) == BY_WORKLOAD
    wished = node.labels.get(MAINTENANCE_WISHED) == "true"
    return options.workload_requests and ours and not wished and machine.request == REQUESTED


def overdue_at(machine: MachineRow, options: Options) -> datetime | None:
    """Return when a deletion has waited for its approval for as long as it should."""
    if machine.deleting_at is None or options.deletion_approval_timeout <= timedelta():
        return None
    return machine.deleting_at + options.deletion_approval_timeout


def is_overdue(machine: MachineRow, options: Options, now: datetime) -> bool:
    """Whether a deletion goes on without approval. Once it does, a longer timeout does not hold it again."""
    at = overdue_at(machine, options)
    return (at is not None and now >= at) or is_let_go(machine)


def is_let_go(machine: MachineRow) -> bool:
    return machine.deleting_at is not None and machine.annotations.get(LET_GO) == wire_time(machine.deleting_at)
