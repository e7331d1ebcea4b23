"""The decision about one Machine: from the Machine and its Node to the labels and annotations that each should have."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import FactDemand, View
from haulout.core.action import Action, Annotate, Label, Measure, Statement, Step
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.refusals import find_refusal
from haulout.surfaces.clusterapi.cleanup import clean_up, is_cleaning, unhook
from haulout.surfaces.clusterapi.events import event
from haulout.surfaces.clusterapi.link import link
from haulout.surfaces.clusterapi.memory import recall
from haulout.surfaces.clusterapi.options import Options, options_of
from haulout.surfaces.clusterapi.pause import is_paused
from haulout.surfaces.clusterapi.present import not_enabled, reasons
from haulout.surfaces.clusterapi.signals import (
    Signals,
    Targets,
    is_overdue,
    is_taken_back,
    overdue_at,
    signals,
    targets_of,
    wanted_by,
)
from haulout.surfaces.clusterapi.situation import Situation, steps_of
from haulout.surfaces.clusterapi.wire import (
    APPROVED,
    BY_WORKLOAD,
    CLEANUP,
    DELETED,
    HOOK,
    MACHINES_OF_NODE,
    MAINTENANCE,
    MAINTENANCE_APPROVED,
    MAINTENANCE_WISHED,
    ORIGINAL,
    REQUEST,
    REQUESTED,
    REQUESTED_BY,
    SKIP_OWNED,
    SKIP_REMEDIATION,
    MachineRow,
)

replace = msgspec.structs.replace

# The name of the original's controller in its metrics.
DECIDER = "machine"
NODE_PROBE = "clusterapi/node"
THERE, GONE = "there", "gone"
PROBE_EVERY = timedelta(seconds=10)
PENDING_FOR = timedelta(hours=1)
APPROVAL_SECONDS = "maintenance_capi_approval_seconds"


def decide(key: Key, view: View, now: datetime) -> Decision:
    machine = view.get(key, MachineRow)
    if machine is None:
        return NOTHING
    options, memory = options_of(view), recall(view, DECIDER, key)
    if not machine.enabled and not is_cleaning(machine, memory):
        steps = steps_of(() if is_paused(view, machine) else _guard(machine, options))
        return Decision(actions=steps, reasons=(not_enabled(machine),) if view.explaining else ())
    way = link(view, machine.workload, options, now)
    node = view.node(machine.node, way.workload.cluster) if machine.node and way.ready else None
    situation = Situation(
        machine, way, node, options, memory, now, is_paused(view, machine), _others(view, machine, node)
    )
    decision = _enabled(situation, view) if machine.enabled else _disabled(situation)
    if view.explaining:
        decision = replace(decision, reasons=reasons(machine, way, node, options, now, paused=situation.paused))
    return decision


def _others(view: View, machine: MachineRow, node: NodeRow | None) -> tuple[MachineRow, ...]:
    if node is None:
        return ()
    named = view.rows(MACHINES_OF_NODE, (machine.workload, machine.node), MachineRow)
    return tuple(other for other in named if other.key != machine.key)


def _disabled(situation: Situation) -> Decision:
    decision = clean_up(situation)
    guard = () if situation.paused else _guard(situation.machine, situation.options)
    return replace(decision, actions=(*decision.actions, *steps_of(guard)))


def _enabled(situation: Situation, view: View) -> Decision:
    machine, memory, way = situation.machine, situation.memory, situation.link
    requested_at = (memory.requested_at or situation.now) if machine.request == REQUESTED else None
    memory = replace(memory, enabled=True, disabled_at=None, requested_at=requested_at)
    decision = Decision(sources=way.sources, marks=(memory,), until=way.until)
    statements = _problems(situation)
    if situation.paused:
        steps: tuple[Step, ...] = ()
    elif not machine.node or not way.ready:
        steps = steps_of(_guard(machine, situation.options))
    elif situation.node is None:
        steps = _without_node(situation, view)
    else:
        steps = _paired(replace(situation, memory=memory), situation.node)
        until, pending = _awaited(situation, situation.node)
        decision = replace(decision, until=earliest(decision.until, until))
        statements = (*statements, *pending, *_refused(situation, view, steps))
    return replace(decision, actions=(*((statements,) if statements else ()), *steps))


def _problems(situation: Situation) -> tuple[Statement, ...]:
    way = situation.link
    return (event(situation.key, way.problem.value, way.text, warning=True),) if way.problem else ()


def _refused(situation: Situation, view: View, steps: tuple[Step, ...]) -> tuple[Statement, ...]:
    """Return the event that the Node cannot be labelled.

    The right to read Nodes does not include the right to patch them.
    """
    if not any(isinstance(action, Label) and action.outcome for step in steps for action in step):
        return ()
    refusal = find_refusal(view, _outcome_name(situation.machine))
    # A cluster that does not answer at all is reported by the state of its connection.
    if refusal is None or not refusal.code:
        return ()
    text = f"Node {situation.machine.node} in workload cluster {situation.link.workload.cluster} cannot be labelled: {refusal.message}"
    return (event(situation.key, "NodeUpdateRefused", text, warning=True),)


def _outcome_name(machine: MachineRow) -> str:
    return f"clusterapi/{machine.key.namespace}/{machine.key.name}"


def _without_node(situation: Situation, view: View) -> tuple[Step, ...]:
    """Return the steps for a Machine whose Node is missing.

    A deletion continues only if the API server of the workload cluster says that the Node does not exist.
    """
    machine = situation.machine
    guard = _guard(machine, situation.options)
    if machine.deleting_at is None or not machine.hooked:
        return steps_of(guard)
    demand = FactDemand(NODE_PROBE, (situation.link.workload.cluster, machine.node), PROBE_EVERY)
    fact = view.fact(demand)
    if fact.state != "fresh" or fact.value != GONE:
        return steps_of(guard)
    text = f"Node {machine.node} does not exist any more: the deletion no longer waits for it"
    missing = event(machine.key, "NodeNotFound", text, warning=True)
    return ((unhook(machine), missing, _hook_removed(machine, "its Node is gone"), *guard),)


def _paired(situation: Situation, node: NodeRow) -> tuple[Step, ...]:
    """Return the steps for a Machine and its Node.

    The Node is written first, because the Machine's writes follow from it.
    """
    current = signals(situation.machine, node, situation.options)
    aim = targets_of(current)
    return steps_of(_on_node(situation, node, aim), _on_machine(situation, node, current, aim))


def _on_node(situation: Situation, node: NodeRow, aim: Targets) -> Step:
    machine, key = situation.machine, node.key
    kept = wanted_by(situation.others, node, situation.options)
    step: list[Action] = []
    deleted, maintenance, outcome = _value(aim.deleted), _value(aim.maintenance), _outcome_name(machine)
    if node.labels.get(DELETED) != deleted and (aim.deleted or not kept.deleted):
        step.append(Label(key, DELETED, deleted, outcome))
        if aim.deleted:
            text = f"Node {node.key.name} has got the label {DELETED}: the Machine is being deleted"
            step.append(event(machine.key, "DeletionAnnounced", text))
    if node.labels.get(MAINTENANCE) != maintenance and (aim.maintenance or not kept.maintenance):
        step.append(Label(key, MAINTENANCE, maintenance, outcome))
        step.append(_announced(machine, node) if aim.maintenance else _withdrawn(machine, node))
        if situation.options.approval_hygiene and not aim.maintenance and MAINTENANCE_APPROVED in node.labels:
            step.append(Label(key, MAINTENANCE_APPROVED, None))
    return tuple(step)


def _value(targets_of: bool) -> str | None:
    return "true" if targets_of else None


def _on_machine(situation: Situation, node: NodeRow, current: Signals, aim: Targets) -> Step:
    machine, key = situation.machine, situation.key
    step: list[Action] = []
    if aim.hook and machine.annotations.get(HOOK) != ORIGINAL:
        # A Machine whose deletion is overdue was released, and gets no hook again.
        if not is_overdue(machine, situation.options, situation.now):
            text = "the deletion of the Machine will wait for the Node"
            step += [Annotate(key, HOOK, ORIGINAL), event(key, "PreDrainHookAdded", text)]
    elif not aim.hook and machine.hooked:
        step += [unhook(machine), _hook_removed(machine, _why_unhooked(node, current))]
        if machine.deleting_at is not None and current.deletion_approved:
            step.append(Measure(APPROVAL_SECONDS, (("flow", "deletion"),), since=machine.deleting_at))
    if CLEANUP in machine.annotations:
        # The annotation is from an earlier clean-up. The next clean-up needs its own time.
        step.append(Annotate(key, CLEANUP, None))
    if aim.approve:
        text = f"Node {node.key.name} is ready for maintenance"
        step += [Label(key, REQUEST, APPROVED, disrupts=True), event(key, "MaintenanceApproved", text)]
        since = situation.memory.requested_at or situation.now
        step.append(Measure(APPROVAL_SECONDS, (("flow", "maintenance"),), since=since))
    if not aim.approve:
        step += _wished(machine, node, situation.options, managed=current.managed)
    return (*step, *_guard(machine, situation.options, approved=aim.approve))


def _wished(machine: MachineRow, node: NodeRow, options: Options, *, managed: bool) -> list[Action]:
    """Return the edits that turn a wish of the workload cluster into a request, or remove the request with the wish.

    Requests by other authors are not removed.
    """
    key = machine.key
    wished = options.workload_requests and node.labels.get(MAINTENANCE_WISHED) == "true"
    if wished and machine.request is None and managed:
        return [Label(key, REQUEST, REQUESTED), Annotate(key, REQUESTED_BY, BY_WORKLOAD)]
    if is_taken_back(machine, node, options):
        return [Label(key, REQUEST, None), Annotate(key, REQUESTED_BY, None)]
    if machine.annotations.get(REQUESTED_BY) == BY_WORKLOAD and machine.request is None:
        # Without this, the next request by any author would count as the workload cluster's.
        return [Annotate(key, REQUESTED_BY, None)]
    return []


def _guard(machine: MachineRow, options: Options, *, approved: bool = False) -> Step:
    """Return the edits that keep health checks from replacing a Machine whose host is off on purpose.

    That holds even if its Node is deleted.
    """
    key, notes = machine.key, machine.annotations
    approved = approved or machine.request == APPROVED
    if approved and options.guard_remediation and SKIP_REMEDIATION not in notes:
        return (Annotate(key, SKIP_REMEDIATION, ""), Annotate(key, SKIP_OWNED, "true"))
    if approved or notes.get(SKIP_OWNED) != "true":
        return ()
    # It is removed even if guarding is off now, or the Machine would never be remediated again. Another value was set
    # by another author.
    ours = (Annotate(key, SKIP_REMEDIATION, None),) if notes.get(SKIP_REMEDIATION) == "" else ()
    return (*ours, Annotate(key, SKIP_OWNED, None))


def _awaited(situation: Situation, node: NodeRow) -> tuple[datetime | None, tuple[Statement, ...]]:
    """Return the event about a deletion that has not been approved for an hour, and when time alone changes that."""
    machine = situation.machine
    current = signals(machine, node, situation.options)
    if machine.deleting_at is None or current.deletion_approved or not targets_of(current).hook:
        return None, ()
    report_at = machine.deleting_at + PENDING_FOR
    if is_overdue(machine, situation.options, situation.now):
        return None, ()
    ends_at = overdue_at(machine, situation.options)
    if situation.now < report_at:
        return earliest(report_at, ends_at), ()
    text = f"the deletion waits for Node {machine.node} to be approved for it since {machine.deleting_at:%Y-%m-%d %H:%M} UTC"
    return ends_at, (event(machine.key, "DeletionApprovalPending", text, warning=True),)


def _announced(machine: MachineRow, node: NodeRow) -> Statement:
    text = f"Node {node.key.name} has got the label {MAINTENANCE}: the Machine needs maintenance"
    return event(machine.key, "MaintenanceAnnounced", text)


def _withdrawn(machine: MachineRow, node: NodeRow) -> Statement:
    text = f"the label {MAINTENANCE} was removed from Node {node.key.name}: the Machine needs no maintenance any more"
    return event(machine.key, "MaintenanceWithdrawn", text)


def _hook_removed(machine: MachineRow, why: str) -> Statement:
    return event(machine.key, "PreDrainHookRemoved", f"the deletion no longer waits for the Node: {why}")


def _why_unhooked(node: NodeRow, current: Signals) -> str:
    if current.deletion_approved:
        return f"Node {node.key.name} is approved for deletion"
    return f"no maintenance controller looks after Node {node.key.name}"
