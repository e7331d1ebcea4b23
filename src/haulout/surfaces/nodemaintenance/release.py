"""The release of a node: taints, cordon, lease and label, in the order that other operators rely on."""

from __future__ import annotations

from http import HTTPStatus

from haulout.cluster.rows import LeaseRow, NodeRow
from haulout.cluster.view import View
from haulout.core import cordon
from haulout.core.action import Delete, Label, NodeEdit, Patch, Release, SetTaint, Step, Tell
from haulout.core.holds import is_kept_by_others
from haulout.core.refusals import find_refusal
from haulout.surfaces.nodemaintenance import node_conditions
from haulout.surfaces.nodemaintenance.counts import has_drain_taint, is_taken_over
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.situation import SURFACE
from haulout.surfaces.nodemaintenance.wire import (
    DRAIN_TAINT,
    EXCLUDE_LABEL,
    LEASE_HOLDER,
    REPORTER,
    UNSCHEDULABLE_TAINT,
    MaintenanceRow,
)


def stop_steps(
    row: MaintenanceRow, node: NodeRow | None, lease: LeaseRow | None, options: Options, view: View
) -> tuple[Step, ...]:
    """Return the steps that release a node. A node without our marks is left alone."""
    owned = node is not None and _is_owned(row, node, options)
    steps: list[Step] = []
    if node is not None and owned:
        event = Tell(node.key, "UncordonNode", "UncordonNode", "Uncordon a node", REPORTER, core=True)
        steps.append((*_returned(row, node, options, view), *(() if _is_kept(node, options, view) else (event,))))
        if options.node_conditions:
            steps.append(node_conditions.clear_conditions(node))
    # A lease without a holder is deleted too. One with another holder stays, even if it has expired.
    if lease is not None and lease.holder in (None, "", LEASE_HOLDER):
        steps.append(give_up_lease(lease, view))
    if node is not None and owned and not _remembered(row, node, options):
        steps.append((Label(node.key, EXCLUDE_LABEL, None),) if node.labels.get(EXCLUDE_LABEL) == "true" else ())
    return tuple(steps)


def give_up_lease(lease: LeaseRow, view: View) -> Step:
    """Return the step that gives up a lease: it deletes it, or empties it where the role does not allow to delete.

    The role that the original publishes allows to create and to change leases, not to delete them.
    """
    name = lease_outcome(lease)
    refusal = find_refusal(view, name)
    if refusal is None or refusal.code != HTTPStatus.FORBIDDEN:
        return (Delete(lease.key, lease.uid, outcome=name),)
    # For all holders of leases, one without a time of renewal is free.
    nothing = {"holderIdentity": None, "acquireTime": None, "renewTime": None}
    return (Patch(lease.key, {"spec": nothing}),) if lease.holder or lease.renewed_at is not None else ()


def lease_outcome(lease: LeaseRow) -> str:
    """Return the name of the outcome of a refused deletion of a node's lease."""
    return f"nodemaintenance/lease-deletion/{lease.key.name}"


def _restores(row: MaintenanceRow, options: Options) -> bool:
    return options.restore_node_state if row.drain.restore_node_state is None else row.drain.restore_node_state


def _is_owned(row: MaintenanceRow, node: NodeRow, options: Options) -> bool:
    """Whether the node has our marks.

    That is the taint, else the label or, if the former state is restored, the ledger entry.
    """
    if has_drain_taint(node):
        return True
    if not _restores(row, options):
        return node.labels.get(EXCLUDE_LABEL) == "true"
    return _remembers(cordon.ledger(node))


def _remembers(stood: cordon.Ledger | None) -> bool:
    return stood is not None and EXCLUDE_LABEL in stood.labels


def _is_kept(node: NodeRow, options: Options, view: View) -> bool:
    """Whether another surface keeps the node cordoned."""
    if options.alone:
        return False
    return is_kept_by_others(view, node.key, SURFACE) or cordon.others_noted(node, SURFACE)


def _returned(row: MaintenanceRow, node: NodeRow, options: Options, view: View) -> tuple[NodeEdit, ...]:
    restores = _restores(row, options)
    release = Release(
        node.key,
        SURFACE,
        restore=restores and not is_taken_over(node),
        labels=(EXCLUDE_LABEL,),
        remembers=restores,
    )
    released = cordon.foreseen(release, node, view, keeps_ledger=not options.alone)
    edits: list[NodeEdit] = [release] if released != node else []
    # The ledger that remembers the label is removed by this patch, so the same patch restores the label.
    edits += _remembered(row, node, options)
    present = {(taint.key, taint.effect) for taint in node.taints}
    taints = (DRAIN_TAINT,) if released.unschedulable else (UNSCHEDULABLE_TAINT, DRAIN_TAINT)
    edits += [SetTaint(node.key, taint, present=False) for taint in taints if (taint.key, taint.effect) in present]
    return tuple(edits)


def _remembered(row: MaintenanceRow, node: NodeRow, options: Options) -> tuple[Label, ...]:
    """Return the edit that restores the label to its former value, if that is wanted and known."""
    if not _restores(row, options):
        return ()
    stood = cordon.ledger(node)
    if stood is None or EXCLUDE_LABEL not in stood.labels:
        return (Label(node.key, EXCLUDE_LABEL, None),) if has_drain_taint(node) else ()
    return (Label(node.key, EXCLUDE_LABEL, stood.labels[EXCLUDE_LABEL], disrupts=False),)
