"""Why a NotifyMaintenance does not end by itself, and what a person has to do: it failed, expired, or left work half done."""

from __future__ import annotations

from haulout.core.reason import Reason
from haulout.surfaces.notify.match import may_act
from haulout.surfaces.notify.notice.states import (
    has_finalizer,
    is_completing,
    is_final,
    is_released,
    is_terminal,
)
from haulout.surfaces.notify.returner.decide import NAME as RETURNER
from haulout.surfaces.notify.returner.decide import holds, is_clean
from haulout.surfaces.notify.situation import NoticeSituation
from haulout.surfaces.notify.wire import CORDONED_BY, FORCE_RETURN, INCOMPLETE, RETRY, SLA_EXPIRED


def obstacles(situation: NoticeSituation) -> tuple[Reason, ...]:
    """Return what keeps a started maintenance from its end until a person acts. Empty: nothing does."""
    row = situation.row
    if is_released(row) or is_completing(row) or not row.state:
        return ()
    if situation.node is None:
        return (_without_node(situation),)
    if is_final(row) and is_terminal(row):
        return _ended(situation)
    if is_final(row):
        return ()
    if row.state == INCOMPLETE:
        return (_incomplete(situation),)
    if row.state == SLA_EXPIRED:
        return (_expired(situation),)
    return ()


def _without_node(situation: NoticeSituation) -> Reason:
    row = situation.row
    act = "" if is_final(row) else f"kubectl delete notifymaintenance -n {row.key.namespace} {row.key.name}"
    return Reason("notice-node-missing", row.key, f"node {row.node} does not exist", act=act)


def _ended(situation: NoticeSituation) -> tuple[Reason, ...]:
    """Return why the node of a deleted maintenance is not uncordoned, which would complete it."""
    row, node = situation.row, situation.node
    assert node is not None
    if not node.unschedulable:
        return ()
    if others := [other.place for other in situation.siblings() if holds(other, node)]:
        text = f"node {row.node} stays cordoned for {', '.join(sorted(others))}"
        return (Reason("node-still-needed", row.key, text),)
    ended = [
        each for each in (row, *situation.siblings()) if is_final(each) and is_terminal(each) and has_finalizer(each)
    ]
    options = situation.options.operators.returner
    by_hand = f"kubectl uncordon {row.node}"
    if not all(may_act(situation.options, RETURNER, each, node) for each in ended):
        text = f"node {row.node} is still cordoned, and no returner of Haulout may uncordon it"
        return (Reason("uncordon-awaited", row.key, text, act=by_hand),)
    if CORDONED_BY not in node.annotations and options.uncordon != "Always":
        text = f"node {row.node} was cordoned by a person or another operator, and the returner leaves it to them"
        return (Reason("uncordon-awaited", row.key, text, act=by_hand),)
    dirty = sorted(each.place for each in ended if not is_clean(each))
    if not dirty or node.annotations.get(FORCE_RETURN) == "true":
        return ()
    text = f"node {row.node} stays cordoned: {', '.join(dirty)} was deleted with its work half done"
    act = f"check the node, then: {by_hand} (or: kubectl annotate node {row.node} {FORCE_RETURN}=true)"
    return (Reason("return-blocked", row.key, text, act=act),)


def _incomplete(situation: NoticeSituation) -> Reason:
    row = situation.row
    why = f": {row.failure}" if row.failure else ""
    name = f"-n {row.key.namespace} {row.key.name}"
    act = f"repair node {row.node}, then: kubectl delete notifymaintenance {name}"
    if situation.options.core.allow_retry:
        act = f"repair node {row.node}, then: kubectl annotate --overwrite notifymaintenance {name} {RETRY}=$(date +%s)"
    return Reason("notice-failed", row.key, f"maintenance {row.place} has failed on node {row.node}{why}", act=act)


def _expired(situation: NoticeSituation) -> Reason:
    row = situation.row
    since = row.status.entered_at(SLA_EXPIRED)
    when = f" at {since:%Y-%m-%d %H:%M} UTC" if since is not None else ""
    text = f"the SLA of {row.place} expired{when}: node {row.node} is not drained yet"
    return Reason("sla-expired", row.key, text, act=f"see what blocks the drain: haulout explain node {row.node}")
