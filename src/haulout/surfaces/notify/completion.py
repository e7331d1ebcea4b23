"""The end of a maintenance: its message, its mark, the labels of its node, its finalizer."""

from __future__ import annotations

from haulout.cluster.rows import NodeRow
from haulout.core.action import Annotate, Finalize, Label, Measure, Send, Step
from haulout.core.decision import Decision
from haulout.model.meta import wire_time
from haulout.surfaces.notify import messages
from haulout.surfaces.notify.deliver import CONTINUE, PATIENT_CHANNEL, announcement, delivery, noted, notifiers
from haulout.surfaces.notify.metrics import STATUS_GAUGE
from haulout.surfaces.notify.situation import COMPLETED, Situation, events_of, timed
from haulout.surfaces.notify.states import awaits_completion, is_final
from haulout.surfaces.notify.wire import COMPLETED_AT, CORDONED_PREFIX, FINALIZER, PREFIX, NoticeRow


def complete(given: Situation) -> Decision:
    """Announce the completion, then mark it: a restart goes on from the mark without another message."""
    row, event = given.row, messages.COMPLETE
    state = delivery(given, event)
    goes_on = state.failed and given.options.notifications.failure_policy == CONTINUE
    if not state.done and not goes_on:
        return Decision(actions=(state.sends,) if state.sends else (), until=state.until)
    statements: Step = (
        *events_of(given, event, messages.text_of(row, event)),
        *timed(given, COMPLETED, row.deleting_at or row.status.last_at),
        Measure(STATUS_GAUGE, (*labels_of(row), ("maintenance_status", COMPLETED))),
    )
    if _needs_no_mark(given):
        return finish(given, statements)
    remembered = noted(row, event) if goes_on and not is_final(row) else ()
    patient = tuple(_patiently(given, event)) if goes_on and is_final(row) else ()
    mark: Step = (Annotate(row.key, COMPLETED_AT, wire_time(given.now)), *remembered)
    return Decision(actions=((*mark, *statements, *patient),))


def _needs_no_mark(given: Situation) -> bool:
    """Whether a restart in the middle does no harm: one that is deleted completes again, and no message is sent twice.

    Other maintenances of the node look for the mark to see which of them is the last.
    """
    heard = any(notifiers(given.row, given.options, messages.COMPLETE))
    return is_final(given.row) and not heard and not given.siblings()


def finish(given: Situation, statements: Step = ()) -> Decision:
    """Clean the node, then let the object go. `statements`: the events and counts of the completion, if no mark was set before."""
    row, node = given.row, given.node
    labels: Step = _labels(given, node) if node is not None else ()
    release: Step = (Finalize(row.key, FINALIZER, present=False), *statements)
    return Decision(actions=(*((labels,) if labels else ()), release))


def labels_of(row: NoticeRow) -> tuple[tuple[str, str], ...]:
    """Return the labels that the gauge of a maintenance has beside its status."""
    return (
        ("maintenance_id", row.maintenance),
        ("maintenance_type", row.type),
        ("node", row.node),
        ("owner", row.owner),
    )


def _labels(given: Situation, node: NodeRow) -> tuple[Label, ...]:
    """Return the removals of labels. As long as another maintenance needs its own to complete, only ours goes."""
    if any(awaits_completion(other, node) for other in given.siblings()):
        return (Label(node.key, given.row.label, None),) if given.row.label in node.labels else ()
    return removed_labels(node)


def removed_labels(node: NodeRow) -> tuple[Label, ...]:
    """Return the removals of all labels that the last completion of a node clears."""
    names = [name for name in node.labels if name.startswith((PREFIX, CORDONED_PREFIX))]
    return tuple(Label(node.key, name, None) for name in sorted(names))


def _patiently(given: Situation, event: str) -> list[Send]:
    """Hand the last message over: the object that could remember it is about to go."""
    return [
        Send(f"patient/{given.row.uid}/{notifier}", PATIENT_CHANNEL, announcement(given.row, notifier, event))
        for notifier in notifiers(given.row, given.options, event)
    ]
