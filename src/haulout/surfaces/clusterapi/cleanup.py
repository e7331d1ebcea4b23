"""The clean-up after a Machine that is no longer enabled: first the labels of its Node, then its pre-drain hook."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.base.bounds import EARLIEST, instant
from haulout.base.duration import to_text
from haulout.cluster.key import Key
from haulout.cluster.view import View
from haulout.core.action import Action, Annotate, Label, Step
from haulout.core.decision import NOTHING, Decision
from haulout.model.meta import wire_time
from haulout.surfaces.clusterapi.events import event
from haulout.surfaces.clusterapi.memory import Memory, recall
from haulout.surfaces.clusterapi.options import options_of
from haulout.surfaces.clusterapi.pause import is_paused
from haulout.surfaces.clusterapi.signals import is_let_go, overdue_at, wanted_by
from haulout.surfaces.clusterapi.situation import Situation, steps_of
from haulout.surfaces.clusterapi.wire import (
    CLEANUP,
    DELETED,
    HOOK,
    LET_GO,
    MAINTENANCE,
    MAINTENANCE_APPROVED,
    MachineRow,
)

replace = msgspec.structs.replace

RELEASE = "machine-release"
NODE_WITHIN_FOR = timedelta(seconds=5)
CLEAN_WITHIN_FOR = timedelta(minutes=10)
# If nothing is known to be left on the Node, an unreachable cluster is waited for only this long, like for other
# connections.
LOOK_WITHIN_FOR = timedelta(seconds=45)


def is_cleaning(machine: MachineRow, memory: Memory) -> bool:
    """Whether the Machine's Node may still have labels that only an enabled Machine sets."""
    return machine.hooked or CLEANUP in machine.annotations or memory.enabled


def clean_up(situation: Situation) -> Decision:
    machine, now = situation.machine, situation.now
    if situation.paused:
        # The time limit of the clean-up does not run while the Machine is paused.
        return Decision(
            sources=situation.link.sources, marks=(replace(situation.memory, disabled_at=None, requested_at=None),)
        )
    since = situation.memory.disabled_at or now
    memory = replace(situation.memory, disabled_at=since, requested_at=None)
    on_node = _node_edits(situation)
    known_left = machine.hooked or CLEANUP in machine.annotations or bool(on_node)
    ends_at = _marked_at(machine, since) + (CLEAN_WITHIN_FOR if known_left else LOOK_WITHIN_FOR)
    waiting = Decision(sources=situation.link.sources, marks=(memory,), until=ends_at)
    if not machine.node:
        return Decision(actions=steps_of(_unhooked(machine)))
    if now >= ends_at:
        # The connection is closed only after this is written. `orphaned_nodes` tries once more to clean what remains.
        steps = steps_of(_unhooked(machine))
        return Decision(actions=steps, sources=situation.link.sources if steps and situation.link.ready else ())
    if not situation.link.ready or (situation.link.stale and not on_node):
        # The Node cannot be read now, and may have more labels than when it was last read.
        return waiting
    steps = steps_of(on_node, _unhooked(machine))
    return replace(waiting, actions=steps) if steps else NOTHING


def _node_edits(situation: Situation) -> Step:
    """Return the edits that remove the labels from the Node; none if the Node is missing.

    With approval hygiene, the approval is removed together with the maintenance label.
    """
    machine, node = situation.machine, situation.node
    if node is None:
        return ()
    kept = wanted_by(situation.others, node, situation.options)
    withdrawn = MAINTENANCE in node.labels and not kept.maintenance
    names = [] if kept.deleted else [DELETED]
    if withdrawn:
        names += [MAINTENANCE, MAINTENANCE_APPROVED] if situation.options.approval_hygiene else [MAINTENANCE]
    step: list[Action] = [Label(node.key, name, None) for name in names if name in node.labels]
    if withdrawn:
        text = f"the label {MAINTENANCE} was removed from Node {node.key.name}: the Machine is not enabled any more"
        step.append(event(machine.key, "MaintenanceWithdrawn", text))
    return tuple(step)


def unhook(machine: MachineRow) -> Annotate:
    """Return the edit that removes the pre-drain hook. It lets the deletion of the Machine go on, if there is one."""
    return Annotate(machine.key, HOOK, None, disrupts=machine.deleting_at is not None)


def _unhooked(machine: MachineRow) -> Step:
    step: list[Action] = []
    if machine.hooked:
        text = "the deletion no longer waits for the Node: the Machine is not enabled any more"
        step += [unhook(machine), event(machine.key, "PreDrainHookRemoved", text)]
    if CLEANUP in machine.annotations:
        step.append(Annotate(machine.key, CLEANUP, None))
    return tuple(step)


def _marked_at(machine: MachineRow, otherwise: datetime) -> datetime:
    """Return since when the Machine's Node waits to be cleaned. A time that cannot be read counts as long ago."""
    text = machine.annotations.get(CLEANUP)
    if text is None:
        return otherwise
    try:
        return instant(datetime.fromisoformat(text))
    except ValueError:
        return EARLIEST


def release(key: Key, view: View, now: datetime) -> Decision:
    """Remove the pre-drain hook in a decision of its own, because the Node may not be writable."""
    machine = view.get(key, MachineRow)
    if machine is None or not machine.hooked or (machine.enabled and machine.deleting_at is None):
        return NOTHING
    if is_paused(view, machine):
        return NOTHING
    return _overdue(machine, view, now) if machine.enabled else _disabled(machine, view, now)


def _disabled(machine: MachineRow, view: View, now: datetime) -> Decision:
    if not machine.node:
        return NOTHING
    memory = recall(view, RELEASE, machine.key)
    memory = replace(memory, disabled_at=memory.disabled_at or now)
    assert memory.disabled_at is not None
    due_at = memory.disabled_at + NODE_WITHIN_FOR
    if now < due_at:
        return Decision(marks=(memory,), until=due_at)
    step = (*_unhooked(machine), Annotate(machine.key, CLEANUP, wire_time(due_at)))
    return Decision(marks=(memory,), actions=(step,))


def _overdue(machine: MachineRow, view: View, now: datetime) -> Decision:
    if is_let_go(machine):
        # Another client has set the hook again.
        return Decision(actions=(_let_go(machine, "it was not approved in time"),))
    options = options_of(view)
    due_at = overdue_at(machine, options)
    if machine.deleting_at is None or due_at is None:
        return NOTHING
    if now < due_at:
        return Decision(until=due_at)
    why = f"the deletion was not approved within {to_text(options.deletion_approval_timeout)}"
    warned = event(machine.key, "DeletionApprovalTimeout", f"{why}: it no longer waits for the Node", warning=True)
    mark = Annotate(machine.key, LET_GO, wire_time(machine.deleting_at))
    return Decision(actions=((mark, warned, *_let_go(machine, why)),))


def _let_go(machine: MachineRow, why: str) -> Step:
    removed = event(machine.key, "PreDrainHookRemoved", f"the deletion no longer waits for the Node: {why}")
    return (unhook(machine), removed)
