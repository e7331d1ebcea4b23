"""The start of a maintenance: label and cordon in one write, so that neither is ever visible without the other."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow
from haulout.core import cordon
from haulout.core.action import Annotate, KeepCordoned, Label, Measure, NodeEdit, Step
from haulout.core.holds import is_held
from haulout.surfaces.notify.scheduler.score import Score
from haulout.surfaces.notify.situation import NoticeSituation, events_of
from haulout.surfaces.notify.wire import CORDONED_BY, NODE_UID, SURFACE

STARTED = "nm_scheduler_started_total"


def start_step(situation: NoticeSituation, rank: str, score: Score) -> Step:
    """Return the step that starts a maintenance: the edits of its node, events and a metric."""
    node = situation.node
    assert node is not None
    note = f"Node {node.key.name} was chosen for maintenance {situation.row.maintenance}: {score}"
    return (
        *claim_edits(situation, node),
        *events_of(situation, "MaintenanceSelected", note),
        Measure(STARTED, (("class", rank),)),
    )


def claim_edits(situation: NoticeSituation, node: NodeRow) -> tuple[NodeEdit, ...]:
    """Return the edits that mark a Node as in this maintenance: label, cordon, and who cordoned it."""
    edits: list[NodeEdit] = [Label(node.key, situation.row.label, "")] if situation.row.label not in node.labels else []
    edits.append(KeepCordoned(node.key, SURFACE, is_visible=True))
    was_cordoned = node.unschedulable
    if not situation.options.alone:
        was_cordoned = cordon.was_cordoned(node, is_held=is_held(situation.view, node.key))
    if not was_cordoned and CORDONED_BY not in node.annotations:
        edits.append(Annotate(node.key, CORDONED_BY, situation.row.place))
    return tuple(edits)


def keep_steps(situation: NoticeSituation) -> tuple[Step, ...]:
    """Return the steps that label and cordon the Node again after its object was deleted and created again.

    If a person uncordons the same object, that ends the maintenance, and the cordon is not set again.
    """
    node, row = situation.node, situation.row
    assert node is not None
    known = row.annotations.get(NODE_UID)
    if known == node.uid:
        return ()
    noted: Step = (Annotate(row.key, NODE_UID, node.uid),)
    is_claimed = row.label in node.labels and node.unschedulable
    if known is None or is_claimed or not situation.options.operators.scheduler.reassert_cordon:
        return (noted,)
    return (claim_edits(situation, node), noted)
