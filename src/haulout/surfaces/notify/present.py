"""The explanation of one NotifyMaintenance: its state, what it waits for, and who has to act."""

from __future__ import annotations

from datetime import datetime

import msgspec

from haulout.core.reason import Reason
from haulout.surfaces.notify.match import is_external, may_act
from haulout.surfaces.notify.notice.deliver import events_to_deliver
from haulout.surfaces.notify.notice.states import (
    DRAINING,
    is_completing,
    is_final,
    is_labelled,
    is_released,
    is_shadowed,
    is_terminal,
)
from haulout.surfaces.notify.obstacles import obstacles
from haulout.surfaces.notify.recipes.roles import RUNNER, VALIDATOR, StepRole
from haulout.surfaces.notify.recipes.turns import recipe_of
from haulout.surfaces.notify.scheduler.why_waiting import why_waiting
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import (
    CLIENT,
    INCOMPLETE,
    OBJECTS_DRAINED,
    READY,
    SCHEDULED,
    STARTED,
    VALIDATING,
    VALIDATION,
)

# The conditions in which in-box operators report their progress.
OPERATORS = ("schedulerDecision", "drainProgress", "maintenanceRun", "validationRun")


class NoticeExplanation(msgspec.Struct, frozen=True, rename="camel"):
    """The state of a NotifyMaintenance, explained.

    `rule`: the row of the decision table that applies, as the docs number them.
    `waits_for`: what would move it on. `actor`: who has to act. `until`: when its SLA expires.
    `reason`: why the scheduler has not started it, as in its condition. `not_before`: when that can change by itself.
    `notes`: the reports of operators, and undelivered messages.
    """

    object: str
    node: str
    maintenance: str
    state: str
    rule: int
    waits_for: str
    actor: str
    since: datetime | None = None
    until: datetime | None = None
    notes: tuple[str, ...] = ()
    reason: str = ""
    not_before: datetime | None = None


def explanation(situation: NoticeSituation) -> NoticeExplanation:
    row = situation.row
    rule, waits_for, actor = _standing(situation)
    found = obstacles(situation)
    why = why_waiting(situation) if _is_candidate(situation) else None
    runs = row.state == STARTED and not is_terminal(row) and not is_released(row)
    return NoticeExplanation(
        object=row.place,
        node=row.node,
        maintenance=row.maintenance,
        state=row.state or "MaintenanceUnknown",
        rule=rule,
        waits_for=why.waits_for if why is not None else found[0].text if found else waits_for,
        actor=why.actor if why is not None else _actor(found, actor),
        reason=why.reason if why is not None else "",
        not_before=why.until if why is not None else None,
        since=row.status.last_at,
        until=row.status.sla_expires if runs else None,
        notes=tuple(_notes(situation)),
    )


def _actor(found: tuple[Reason, ...], otherwise: str) -> str:
    """Return who has to act: a person if something keeps the maintenance from its end, with the command that helps."""
    return next((f"a person: {each.act}" for each in found if each.act), otherwise)


def _is_candidate(situation: NoticeSituation) -> bool:
    """Whether the in-box scheduler has to start the maintenance, and has not yet."""
    row, node = situation.row, situation.node
    if row.state != SCHEDULED or is_final(row) or is_released(row):
        return False
    is_started = node is not None and node.unschedulable and is_labelled(row, node)
    return not is_started and may_act(situation.options, "scheduler", row, node)


def _standing(situation: NoticeSituation) -> tuple[int, str, str]:
    row, node = situation.row, situation.node
    if is_released(row):
        return (
            0,
            "nothing: it completed when its node was uncordoned",
            f"a person, once it is no longer needed: kubectl delete notifymaintenance {row.key.name} -n {row.key.namespace}",
        )
    if is_completing(row):
        return 0, "the labels of its node and its finalizer to be removed", "the operator"
    if node is None:
        return (
            0,
            f"node {row.node}, which does not exist",
            f"a person: bring the node back, or kubectl delete notifymaintenance {row.key.name} -n {row.key.namespace}",
        )
    if is_final(row) and not is_terminal(row):
        return 1, "its end to be announced", "the operator"
    if not row.state:
        return 2, "finalizer and label to be set", "the operator"
    if is_terminal(row):
        return (
            7,
            f"node {row.node} to be uncordoned",
            _by(situation, "returner", "the operator or person that cordoned the node"),
        )
    if is_shadowed(row):
        return _reported(situation)
    return _row_seven(situation)


def _reported(situation: NoticeSituation) -> tuple[int, str, str]:
    """Explain a client's annotation. While it is set, uncordoning the node has no effect."""
    row = situation.row
    if row.state in DRAINING:
        text = f"{READY} is {row.annotations[READY]!r}: it has to become 'true'"
        return 6, text, _by(situation, "drainer", "another drainer")
    role = RUNNER if row.state == OBJECTS_DRAINED else VALIDATOR
    rule, value = (4, row.annotations[CLIENT]) if role is RUNNER else (5, row.annotations[VALIDATION])
    if role is VALIDATOR and value == "validated":
        return rule, "the maintenance to be deleted and its node uncordoned", _by(situation, "returner", "its owner")
    return (
        rule,
        f"{role.annotation} is {value!r}: it has to become {role.success!r} or {role.failure!r}",
        _client(situation, role),
    )


def _row_seven(situation: NoticeSituation) -> tuple[int, str, str]:
    row, node = situation.row, situation.node
    assert node is not None
    if row.state == SCHEDULED:
        missing = [] if is_labelled(row, node) else [f"the label {row.label}"]
        missing += [] if node.unschedulable else ["a cordon"]
        return (
            7,
            f"{' and '.join(missing) or 'its message'} on node {row.node}",
            _by(situation, "scheduler", "a scheduler"),
        )
    if row.state in DRAINING:
        return 7, f"the node to be drained, reported by {READY}=true", _by(situation, "drainer", "a drainer")
    if row.state == INCOMPLETE:
        return 7, f"node {row.node} to be repaired, then the maintenance deleted and the node uncordoned", "its owner"
    role = RUNNER if row.state == OBJECTS_DRAINED else VALIDATOR
    return 7, f"{role.annotation} to be set", _client(situation, role)


def _by(situation: NoticeSituation, operator: str, otherwise: str) -> str:
    """Return who has to act: the in-box operator of this name if it is enabled and matches, else `otherwise`."""
    return (
        f"the {operator} of Haulout"
        if may_act(situation.options, operator, situation.row, situation.node)
        else otherwise
    )


def _client(situation: NoticeSituation, role: StepRole) -> str:
    recipe = recipe_of(situation.row, role, situation.options)
    external = is_external(situation.row, role.name, role.annotation)
    if recipe is not None and not external and may_act(situation.options, role.name, situation.row, situation.node):
        return f"the {role.name} of Haulout, by the recipe {recipe.name}"
    word = "maintenance" if role is RUNNER else "validation"
    return f"another {word} client"


def _notes(situation: NoticeSituation) -> list[str]:
    row = situation.row
    found = []
    for kind in OPERATORS:
        stood = row.status.condition(kind)
        if stood is not None:
            reason = f" ({stood.reason})" if stood.reason else ""
            found.append(f"{kind}: {stood.status}{reason}{': ' + stood.message if stood.message else ''}")
    if owed := events_to_deliver(row):
        found.append(f"messages that could not be delivered yet: {', '.join(owed)}")
    if row.state == VALIDATING and not is_terminal(row):
        found.append("validated does not end a maintenance: it has to be deleted")
    return found
