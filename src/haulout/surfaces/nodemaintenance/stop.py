"""Letting a node go: taints, cordon, lease, label, in the order in which others rely on them."""

from __future__ import annotations

from haulout.cluster.rows import LeaseRow, NodeRow
from haulout.core import cordon
from haulout.core.action import Cordon, Delete, Edit, Label, SetTaint, Step, Tell
from haulout.surfaces.nodemaintenance import conditions
from haulout.surfaces.nodemaintenance.counts import is_marked
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.wire import (
    DRAIN_TAINT,
    EXCLUDE_LABEL,
    LEASE_HOLDER,
    REPORTER,
    UNSCHEDULABLE_TAINT,
    MaintenanceRow,
)


def stop_steps(
    row: MaintenanceRow, node: NodeRow | None, lease: LeaseRow | None, options: Options, others: bool
) -> tuple[Step, ...]:
    """`others`: another surface wants the node to stay cordoned. A node that carries no mark of ours is left alone."""
    owned = node is not None and (is_marked(node) or node.labels.get(EXCLUDE_LABEL) == "true")
    steps: list[Step] = []
    if node is not None and owned:
        said = Tell(node.key, "UncordonNode", "UncordonNode", "Uncordon a node", REPORTER, core=True)
        steps.append((*_returned(row, node, options, others), said))
        if options.node_conditions:
            steps.append(conditions.cleared(node))
    # One without a holder goes, too; another's stays, even where it has run out.
    if lease is not None and lease.holder in (None, "", LEASE_HOLDER):
        steps.append((Delete(lease.key, lease.uid),))
    if node is not None and owned and not _remembered(row, node, options):
        steps.append((Label(node.key, EXCLUDE_LABEL, None),) if node.labels.get(EXCLUDE_LABEL) == "true" else ())
    return tuple(steps)


def _restores(row: MaintenanceRow, options: Options) -> bool:
    return options.restore if row.drain.restore_node_state is None else row.drain.restore_node_state


def _returned(row: MaintenanceRow, node: NodeRow, options: Options, others: bool) -> tuple[Edit, ...]:
    present = {(taint.key, taint.effect) for taint in node.taints}
    edits: list[Edit] = []
    if options.alone and not _restores(row, options):
        stays = False
        if node.unschedulable:
            edits.append(Cordon(node.key, unschedulable=False))
    else:
        released = cordon.release(node, "nodemaintenance", others=others, restore=_restores(row, options))
        stays = node.unschedulable and not any(isinstance(edit, Cordon) for edit in released)
        edits += released
        # The ledger that remembers it goes with this patch, so that the label is put back by the same.
        edits += _remembered(row, node, options)
    gone = (DRAIN_TAINT,) if stays else (UNSCHEDULABLE_TAINT, DRAIN_TAINT)
    removals = [SetTaint(node.key, taint, present=False) for taint in gone if (taint.key, taint.effect) in present]
    edits += [edit for edit in removals if edit not in edits]
    return tuple(edits)


def _remembered(row: MaintenanceRow, node: NodeRow, options: Options) -> tuple[Label, ...]:
    """The label as it was before, where that is to be restored and known."""
    stood = cordon.ledger(node) if _restores(row, options) else None
    if stood is None or EXCLUDE_LABEL not in stood.labels:
        return ()
    return (Label(node.key, EXCLUDE_LABEL, stood.labels[EXCLUDE_LABEL]),)
