"""The returner: it deletes validated maintenances, and uncordons their nodes."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.view import MARK, View
from haulout.core import cordon
from haulout.core.action import Annotate, Delete, Measure, NodeEdit, Release, Step, Tell
from haulout.core.decision import NOTHING, Decision
from haulout.surfaces.notify.match import may_act
from haulout.surfaces.notify.notice.completion import removed_labels
from haulout.surfaces.notify.notice.states import (
    DRAINING,
    has_finalizer,
    has_started,
    is_final,
    is_labelled,
    is_terminal,
)
from haulout.surfaces.notify.options import Options
from haulout.surfaces.notify.situation import REPORTER, situation_of
from haulout.surfaces.notify.wire import (
    CLIENT,
    CORDONED_BY,
    FORCE_RETURN,
    NOTICES_OF_NODE,
    OBJECTS_DRAINED,
    PREFIX,
    SCHEDULED,
    SURFACE,
    VALIDATING,
    NoticeRow,
)

NAME = "returner"
ORPHANED_AFTER_FOR = timedelta(seconds=30)


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Delete a maintenance that is validated, whichever client has validated it."""
    situation = situation_of(key, view, now)
    if situation is None or not situation.options.operators.returner.delete_validated:
        return NOTHING
    row = situation.row
    if row.state != VALIDATING or is_final(row) or not may_act(situation.options, NAME, row, situation.node):
        return NOTHING
    stood = row.status.condition("validationClient")
    if stood is None or stood.status != "validated" or not has_finalizer(row):
        return NOTHING
    return Decision(actions=((Delete(row.key, row.uid),),))


def decide_node(key: Key, view: View, now: datetime) -> Decision:
    """Uncordon a node once no maintenance needs it out of service and all that have ended left it clean."""
    setting = view.config(SURFACE)
    node = view.get(key, NodeRow)
    if setting is None or node is None:
        return NOTHING
    options = setting.value
    assert isinstance(options, Options)
    operators = options.operators
    if not node.unschedulable:
        stale = [name for name in (CORDONED_BY, FORCE_RETURN) if name in node.annotations]
        is_ours = operators.returner.enabled or operators.scheduler.enabled
        return Decision(actions=(tuple(Annotate(key, name, None) for name in stale),)) if stale and is_ours else NOTHING
    if not operators.returner.enabled:
        return NOTHING
    is_owned = CORDONED_BY in node.annotations
    labelled = any(name.startswith(PREFIX) for name in node.labels)
    if not is_owned and not labelled:
        return NOTHING
    rows = view.rows(NOTICES_OF_NODE, node.key.name, NoticeRow)
    return _judged(node, rows, options, view, now, is_owned=is_owned)


def _judged(
    node: NodeRow, rows: list[NoticeRow], options: Options, view: View, now: datetime, *, is_owned: bool
) -> Decision:
    if any(holds(row, node) for row in rows):
        return NOTHING
    ended = [row for row in rows if is_final(row) and is_terminal(row) and has_finalizer(row)]
    if not ended:
        return _orphaned(node, options, view, now) if is_owned else NOTHING
    if not all(may_act(options, NAME, row, node) for row in ended):
        return NOTHING
    if not is_owned and options.operators.returner.uncordon != "Always":
        return Decision(actions=(tuple(_waiting(row) for row in ended),))
    dirty = [row for row in ended if not is_clean(row)]
    if dirty and node.annotations.get(FORCE_RETURN) != "true":
        return Decision(actions=(tuple(_blocked(row, node) for row in dirty),))
    return Decision(actions=(_returned(node, options, view, are_ended=True),))


def holds(row: NoticeRow, node: NodeRow) -> bool:
    """Whether a maintenance still needs the node to be out of service."""
    if not has_finalizer(row) or (is_final(row) and is_terminal(row)):
        return False
    return has_started(row) or (row.state == SCHEDULED and is_labelled(row, node))


def is_clean(row: NoticeRow) -> bool:
    """Whether an ended maintenance left no work half done: the work had not begun, or it was validated."""
    if row.state in DRAINING:
        return True
    if row.state == OBJECTS_DRAINED:
        return CLIENT not in row.annotations
    stood = row.status.condition("validationClient")
    return row.state == VALIDATING and stood is not None and stood.status == "validated"


def _orphaned(node: NodeRow, options: Options, view: View, now: datetime) -> Decision:
    """Lift a cordon of the scheduler once no maintenance has needed it for a while."""
    key = Key("", MARK, "notify-orphaned", node.key.name)
    known = view.recall(key, Value)
    since = known.value if known is not None and isinstance(known.value, datetime) else now
    if now < since + ORPHANED_AFTER_FOR:
        return Decision(marks=(Value(key=key, value=since),), until=since + ORPHANED_AFTER_FOR)
    return Decision(actions=(_returned(node, options, view),), marks=(Value(key=key, value=since),))


def _returned(node: NodeRow, options: Options, view: View, *, are_ended: bool = False) -> Step:
    """Return the step that uncordons a node and removes our marks.

    With other surfaces, the cordon stays until the last claim on the node ends. `are_ended`: the maintenances of the
    node complete without their labels, so these are removed in the same write.
    """
    marks = [name for name in (CORDONED_BY, FORCE_RETURN) if name in node.annotations]
    edits: list[NodeEdit] = [Annotate(node.key, name, None) for name in marks]
    # Our mark without a ledger is from a drop-in, which keeps none. The cordon is then ours, unless a person set it.
    restore = cordon.ledger(node) is not None or cordon.is_cordoned_by_person(node)
    release = Release(node.key, SURFACE, restore=restore)
    edits.append(release)
    if are_ended and cordon.lifts(release, node, view, keeps_ledger=not options.alone):
        edits += removed_labels(node)
    event = Tell(
        node.key, "NodeReturned", "NodeReturned", "The node was given back to the cluster", REPORTER, core=True
    )
    return (*edits, event, Measure("nm_return_total", (("result", "returned"),)))


def _waiting(row: NoticeRow) -> Tell:
    note = f"node {row.node} was cordoned by a person or another operator, who has to uncordon it"
    return Tell(row.key, "WaitingForUncordon", "WaitingForUncordon", note, REPORTER, core=True)


def _blocked(row: NoticeRow, node: NodeRow) -> Tell:
    note = (
        f"node {node.key.name} stays cordoned: {row.place} ended as {row.state} with work half done; uncordon the node, or "
        f"annotate it with {FORCE_RETURN}=true"
    )
    return Tell(node.key, "ReturnBlocked", "ReturnBlocked", note, REPORTER, warning=True, core=True)
