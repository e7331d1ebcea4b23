"""The decision about one NodeMaintenanceSet: which nodes get a NodeMaintenance now, and what its status says.

A NodeMaintenance is created before the status names its node, with the name of the node. So a restart at any point finds
it, and never makes a second one. See decision 0182.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK, View
from haulout.core.action import Create, Delete, Patch, Step, Tell
from haulout.core.decision import NOTHING, Decision, earliest
from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.core.kstatus import STALLED, Course, course_conditions, wire_conditions
from haulout.core.pause import pause_of
from haulout.core.reason import Reason
from haulout.core.refusals import find_refusal
from haulout.model.meta import wire_time
from haulout.surfaces.nodemaintenance import wire as maintenances
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.sets.wire import (
    API_VERSION,
    COMPLETED,
    COUNTS,
    DONE,
    IN_MAINTENANCE,
    KIND,
    MAINTENANCES_OF_SET,
    MOST_ASIDE,
    PAUSED,
    PENDING,
    RUNNING,
    SET_ASIDE,
    SetRow,
)
from haulout.surfaces.nodemaintenance.situation import SURFACE, event
from haulout.surfaces.nodemaintenance.wire import FAILED, MAINTENANCES_OF_NODE, SUCCEEDED, MaintenanceRow

# Refusals of a creation that are about this node: no other try helps.
ABOUT_THE_NODE = (400, 422)
REFUSED = "set-refused-status"
_COURSES = {COMPLETED: Course.DONE, PAUSED: Course.HALTED}
DENIED = "denied the request"


class Progress(msgspec.Struct):
    """What a decision about a set has found out so far. `states`: as they are to be stored; None removes a node."""

    states: dict[str, str | None]
    why: dict[str, str]
    reasons: list[Reason]
    until: datetime | None = None


def decide(key: Key, view: View, now: datetime) -> Decision:
    row, setting = view.get(key, SetRow), view.config(SURFACE)
    if row is None or setting is None or row.deleting_at is not None:
        return NOTHING
    assert isinstance(setting.value, Options)
    if setting.value.alone:
        # The original knows no sets.
        return NOTHING
    if row.problem:
        reason = Reason("set-invalid", key, row.problem, act=f"correct NodeMaintenanceSet {key.name}")
        return msgspec.structs.replace(_refused(row, view, now), reasons=(reason,))
    mine = view.rows(MAINTENANCES_OF_SET, row.uid, MaintenanceRow)
    found = Progress(dict(row.states), {}, [])
    _follow(row, mine, found, now)
    made = _begin(row, mine, found, view, now)
    # The creations come last, because a pause withholds them and every later step.
    steps = [*_told(row, found, now), *_given_back(row, mine, found), *_created(row, made)]
    ends_at = _ends_at(row, found)
    if ends_at is not None and now >= ends_at:
        return Decision(actions=((Delete(key, row.uid),),))
    found.until = earliest(found.until, ends_at)
    return Decision(actions=tuple(steps), until=found.until, reasons=tuple(found.reasons))


def _refused(row: SetRow, view: View, now: datetime) -> Decision:
    """Write once that the set cannot be read. The mark keeps a definition without conditions from causing more writes."""
    mark = Key(row.key.cluster, MARK, REFUSED, row.key.name)
    last = view.recall(mark, Value)
    stood = next((each for each in row.conditions if each.type == STALLED), None)
    is_told = stood is not None and (stood.message, stood.observed_generation) == (row.problem, row.generation)
    if is_told or (last is not None and last.value == (row.uid, row.generation)):
        return Decision(marks=(last,) if last is not None else ())
    conditions = course_conditions(row.conditions, Course.FAILED, "Invalid", row.problem, row.generation, now)
    status = {"observedGeneration": row.generation, "conditions": wire_conditions(conditions)}
    patch = Patch(row.key, {"status": status}, subresource="status")
    return Decision(actions=((patch,),), marks=(Value(key=mark, value=(row.uid, row.generation)),))


def _ends_at(row: SetRow, found: Progress) -> datetime | None:
    """Return when the set is deleted after its last node. The end counts once it is stored."""
    if row.phase != COMPLETED or row.finished_at is None or row.spec.ttl_for is None or not _is_over(row, found):
        return None
    return row.finished_at + row.spec.ttl_for


def _follow(row: SetRow, mine: list[MaintenanceRow], found: Progress, now: datetime) -> None:
    """Take in what has become of the nodes that have begun."""
    there = {each.node for each in mine}
    for name, state in row.states.items():
        if state == IN_MAINTENANCE and name not in there:
            found.states[name] = DONE
        if name not in row.spec.nodes and name not in there:
            found.states[name] = None
    for each in mine:
        found.states.setdefault(each.node, IN_MAINTENANCE)
        if found.states[each.node] != IN_MAINTENANCE:
            continue
        stuck_at = _stuck_at(row, each)
        if stuck_at is not None and now >= stuck_at:
            found.states[each.node] = SET_ASIDE
            found.why[each.node] = _why(each)
        elif each.deleting_at is None:
            found.until = earliest(found.until, stuck_at)


def _stuck_at(row: SetRow, each: MaintenanceRow) -> datetime | None:
    """Return when a node is set aside that is not drained by then.

    The time counts from the cordon: a node that waits for a window or a budget is not stuck.
    """
    status = each.status
    if row.spec.set_aside_for is None or status.phase == SUCCEEDED or each.deleting_at is not None:
        return None
    cordoned = [
        one.last_transition_time for one in status.conditions if one.type == "Cordoned" and one.status == "True"
    ]
    since = next((at for at in cordoned if at is not None), each.created_at if status.phase == FAILED else None)
    return since + row.spec.set_aside_for if since is not None else None


def _why(each: MaintenanceRow) -> str:
    status = each.status
    blocked = next((pod.message for pod in status.blocked_pods if pod.message), "")
    return status.last_error or blocked or f"{len(status.pending_pods)} pods were still on it"


def _begin(row: SetRow, mine: list[MaintenanceRow], found: Progress, view: View, now: datetime) -> list[str]:
    """Return the nodes that get a NodeMaintenance now. One that ends still takes its place: its node is not back yet."""
    spec, made, key = row.spec, list[str](), row.key
    waiting = [name for name in spec.nodes if found.states.get(name) is None]
    if not waiting:
        return made
    if row.is_paused:
        pause = pause_of(row)
        text = f"it is {pause.text}" if pause is not None else "it is paused (spec.paused)"
        found.reasons.append(Reason("set-paused", key, f"{text}: no further node begins", act=_resume(row)))
        return made
    if spec.start_at is not None and now < spec.start_at:
        found.until = earliest(found.until, spec.start_at)
        found.reasons.append(Reason("set-not-started", key, "it has not started yet", spec.start_at))
        return made
    free = spec.most - len(mine)
    for name in waiting:
        if free <= 0:
            break
        if _may_begin(row, name, found, view):
            made.append(name)
            free -= 1
    if free <= 0 and len(waiting) > len(made):
        text = f"{spec.most} of its nodes are in maintenance at once; {len(waiting) - len(made)} wait"
        found.reasons.append(Reason("set-full", key, text))
    return made


def _may_begin(row: SetRow, name: str, found: Progress, view: View) -> bool:
    others = [*view.rows(MAINTENANCES_OF_NODE, name, MaintenanceRow), view.get(_key(row, name), MaintenanceRow)]
    if others[0] is not None:
        text = f"node {name} is in maintenance already: NodeMaintenance {others[0].key.name}"
        found.reasons.append(Reason("set-node-busy", others[0].key, text))
        return False
    if view.node(name) is None:
        found.states[name], found.why[name] = SET_ASIDE, "there is no node of this name"
        return False
    refusal = find_refusal(view, _outcome(row, name))
    if refusal is not None and (refusal.code in ABOUT_THE_NODE or DENIED in refusal.message):
        found.states[name], found.why[name] = SET_ASIDE, refusal.message
        return False
    if refusal is not None:
        text = f"its NodeMaintenance for node {name} is refused: {refusal.message}"
        found.reasons.append(Reason("set-refused", row.key, text, act="allow the operator to create nodemaintenances"))
    return True


def _created(row: SetRow, made: list[str]) -> list[Step]:
    return [tuple(Create(_key(row, name), _body(row, name), _outcome(row, name)) for name in made)] if made else []


def _given_back(row: SetRow, mine: list[MaintenanceRow], found: Progress) -> list[Step]:
    """Return the deletions for nodes that are set aside. The status names them first, or they would count as done."""
    stuck = [each for each in mine if found.states.get(each.node) == SET_ASIDE and each.deleting_at is None]
    return [tuple(Delete(each.key, each.uid, disrupts=False) for each in stuck)] if stuck else []


def _told(row: SetRow, found: Progress, now: datetime) -> list[Step]:
    """Return the write of the status, with an event for each node that is set aside and for the end."""
    status = _status(row, found, now)
    if not status:
        return []
    events: list[Tell] = [
        event(row.key, "NodeSetAside", f"node {name} is set aside: {found.why.get(name, '')}", warning=True)
        for name in sorted(found.states)
        if found.states[name] == SET_ASIDE and row.states.get(name) != SET_ASIDE
    ][:MOST_ASIDE]
    if status.get("phase") == COMPLETED:
        events.append(event(row.key, "Completed", "all nodes of the set are done or set aside"))
    return [(Patch(row.key, {"status": status}, subresource="status"), *events)]


def _status(row: SetRow, found: Progress, now: datetime) -> dict[str, Any]:
    """Return the fields of the status that differ from what is stored."""
    phase, changes = _phase(row, found, now), dict[str, Any]()
    states = {name: state for name, state in found.states.items() if state != row.states.get(name)}
    if states:
        changes["nodes"] = states
    if phase != row.phase:
        changes |= {"phase": phase, "finishedAt": wire_time(now) if phase == COMPLETED else None}
    aside = _aside(row, found, now)
    if aside != row.aside:
        changes["setAsideNodes"] = [dict(zip(("name", "reason", "at"), each, strict=True)) for each in aside]
    counts = count_states(row, found.states)
    changes |= {name: number for name, number in counts.items() if row.written.get(name) != number}
    is_due = row.observed_generation not in (0, row.generation)
    return changes | (_for_tools(row, phase, counts, now) if changes or is_due else {})


def _for_tools(row: SetRow, phase: str, counts: Mapping[str, int], now: datetime) -> dict[str, Any]:
    """Return the conditions that other tools understand. They ride on a write that is sent anyway."""
    course = _COURSES.get(phase, Course.GOING_ON)
    text = f"{counts['done']} of {counts['total']} nodes are done, {counts['setAside']} are set aside"
    conditions = course_conditions(row.conditions, course, phase, text, row.generation, now)
    return {"observedGeneration": row.generation, "conditions": wire_conditions(conditions)}


def _aside(row: SetRow, found: Progress, now: datetime) -> tuple[tuple[str, str, str], ...]:
    known = [each for each in row.aside if found.states.get(each[0]) == SET_ASIDE]
    names = {each[0] for each in known}
    new = [(name, found.why[name][:1024], wire_time(now)) for name in sorted(found.why) if name not in names]
    return (*known, *new)[-MOST_ASIDE:]


def count_states(row: SetRow, states: Mapping[str, str | None]) -> dict[str, int]:
    """Return the numbers in the status of a set."""
    of = [states.get(name) for name in row.spec.nodes]
    numbers = (len(of), of.count(None), of.count(IN_MAINTENANCE), of.count(DONE), of.count(SET_ASIDE))
    return dict(zip(COUNTS, numbers, strict=True))


def _phase(row: SetRow, found: Progress, now: datetime) -> str:
    if _is_over(row, found):
        return COMPLETED
    if row.is_paused:
        return PAUSED
    return PENDING if row.spec.start_at is not None and now < row.spec.start_at else RUNNING


def _is_over(row: SetRow, found: Progress) -> bool:
    return all(found.states.get(name) in (DONE, SET_ASIDE) for name in row.spec.nodes)


def _key(row: SetRow, node: str) -> Key:
    """Return the key of the NodeMaintenance of a node.

    It has the name of the node, as those of `haulout start` have. So the API server makes only one, whichever client asks:
    this set after a restart, another set at the same instant, or a person.
    """
    return Key(row.key.cluster, maintenances.KIND, "", node)


def _body(row: SetRow, node: str) -> dict[str, Any]:
    owner = {"apiVersion": API_VERSION, "kind": KIND, "name": row.key.name, "uid": row.uid}
    priority = row.annotations.get(PRIORITY_ANNOTATION)
    metadata = {
        "name": node,
        "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": False}],
        **({"annotations": {PRIORITY_ANNOTATION: priority}} if priority is not None else {}),
    }
    spec = {"nodeName": node, **({"reason": row.spec.reason} if row.spec.reason else {})}
    return {"apiVersion": maintenances.API_VERSION, "kind": maintenances.KIND, "metadata": metadata, "spec": spec}


def _outcome(row: SetRow, node: str) -> str:
    return f"set/{row.uid}/{node}"


def _resume(row: SetRow) -> str:
    return f"when the roll may go on: haulout resume nodemaintenanceset/{row.key.name}"
