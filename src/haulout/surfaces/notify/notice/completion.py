"""The end of a maintenance: its message, its mark, the labels of its node and its finalizer."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow
from haulout.core.action import Annotate, Finalize, Label, Measure, Step
from haulout.core.decision import NOTHING, Decision
from haulout.model.meta import wire_time
from haulout.surfaces.notify.declared_metrics import STATUS_GAUGE
from haulout.surfaces.notify.notice import messages
from haulout.surfaces.notify.notice.deliver import CONTINUE, delivery, handed_over, is_sending, note_events, notifiers
from haulout.surfaces.notify.notice.states import awaits_completion, is_final
from haulout.surfaces.notify.situation import COMPLETED, NoticeSituation, events_of, time_in_status
from haulout.surfaces.notify.wire import COMPLETED_AT, CORDONED_PREFIX, FINALIZER, PREFIX, NoticeRow


def complete(situation: NoticeSituation) -> Decision:
    """Send the message of completion, then set the mark. After a restart the mark prevents a second message."""
    row, event = situation.row, messages.COMPLETE
    state = delivery(situation, event)
    goes_on = state.failed and situation.options.notifications.failure_policy == CONTINUE
    if not state.done and not goes_on:
        return Decision(actions=(state.sends,) if state.sends else (), until=state.until)
    if is_final(row) and is_sending(situation):
        return NOTHING
    statements: Step = (
        *events_of(situation, event, messages.text_of(row, event)),
        *time_in_status(situation, COMPLETED, row.deleting_at or row.status.last_at),
        Measure(STATUS_GAUGE, (*labels_of(row), ("maintenance_status", COMPLETED))),
    )
    owed = (event,) if goes_on else ()
    handed = handed_over(situation, *owed) if is_final(row) else ()
    if _needs_no_mark(situation):
        return finish(situation, (*statements, *handed))
    remembered = note_events(row, event) if goes_on and not is_final(row) else ()
    mark: Step = (Annotate(row.key, COMPLETED_AT, wire_time(situation.now)), *remembered)
    return Decision(actions=((*mark, *statements, *handed),))


def _needs_no_mark(situation: NoticeSituation) -> bool:
    """Whether the completion needs no mark.

    That is so for a deleted maintenance that completes again after a restart and has no message to repeat. Other
    maintenances of the node would need the mark to see which of them is the last.
    """
    heard = any(notifiers(situation.row, situation.options, messages.COMPLETE))
    return is_final(situation.row) and not heard and not situation.siblings()


def finish(situation: NoticeSituation, statements: Step = ()) -> Decision:
    """Remove the labels from the node, then the finalizer. `statements`: what to report if no mark was set before."""
    row, node = situation.row, situation.node
    labels: Step = _labels(situation, node) if node is not None else ()
    release: Step = (Finalize(row.key, FINALIZER, present=False), *statements)
    return Decision(actions=(*((labels,) if labels else ()), release))


def labels_of(row: NoticeRow) -> tuple[tuple[str, str], ...]:
    """Return the labels of a maintenance's gauge, except its status."""
    return (
        ("maintenance_id", row.maintenance),
        ("maintenance_type", row.type),
        ("node", row.node),
        ("owner", row.owner),
    )


def _labels(situation: NoticeSituation, node: NodeRow) -> tuple[Label, ...]:
    """Return the removals of labels.

    While another maintenance of the node needs its own label to complete, only this maintenance's is removed.
    """
    if any(awaits_completion(other, node) for other in situation.siblings()):
        return (Label(node.key, situation.row.label, None),) if situation.row.label in node.labels else ()
    return removed_labels(node)


def removed_labels(node: NodeRow) -> tuple[Label, ...]:
    """Return the removals of all labels that the last maintenance of a node clears."""
    names = [name for name in node.labels if name.startswith((PREFIX, CORDONED_PREFIX))]
    return tuple(Label(node.key, name, None) for name in sorted(names))
