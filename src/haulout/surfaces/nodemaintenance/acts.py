"""The acts of people on NodeMaintenances: begin one for a node, and end one."""

from __future__ import annotations

from datetime import datetime, timedelta
from shlex import join
from typing import Any

from haulout.base import duration
from haulout.base.number import digits
from haulout.core import steering
from haulout.core.act import (
    NODES,
    Act,
    ActInput,
    ActPlan,
    Argument,
    Endpoint,
    Need,
    NotPossible,
    PersonalWrite,
    Verb,
    WrongArgument,
)

# Spelled here, too, because this module is imported with the declaration, which has to be fast.
DRAIN_TAINT_KEY = "medik8s.io/drain"
MAINTENANCES = Endpoint("NodeMaintenance", "nodemaintenance.medik8s.io", "v1beta1", "nodemaintenances")
SETS = Endpoint("NodeMaintenanceSet", "haulout.dev", "v1alpha1", "nodemaintenancesets")
WAY = "nodemaintenance"
# The most nodes of a NodeMaintenanceSet, and of those in maintenance at once, as in its definition.
MOST_NODES, MOST_AT_ONCE = 5000, 1000

ACTS = (
    Act(
        name="start",
        way=WAY,
        help="cordon and drain the node by a NodeMaintenance, until that is deleted",
        targets=(NODES,),
        plan="haulout.surfaces.nodemaintenance.acts:start",
        needs=(Need("create", MAINTENANCES),),
        disturbs=True,
    ),
    Act(
        name="cancel",
        help="end the maintenance and give the node back",
        targets=(MAINTENANCES,),
        plan="haulout.surfaces.nodemaintenance.acts:cancel",
        needs=(Need("delete", MAINTENANCES),),
    ),
    Act(
        name="start",
        way=WAY,
        help="take several nodes into maintenance, a few at a time, by a NodeMaintenanceSet",
        targets=(),
        plan="haulout.surfaces.nodemaintenance.acts:roll",
        arguments=(
            Argument("nodes", "Names of the nodes, with commas.", required=True, example="NODE", longest=2_000_000),
            Argument("max", "With several nodes: how many may be in maintenance at once (default 1)."),
            Argument("name", "With several nodes: name of the NodeMaintenanceSet (default: generated from the time)."),
            Argument("startAt", "With several nodes: start at a given time, such as 2026-11-18T22:00:00Z."),
            Argument("ttl", "Delete the NodeMaintenanceSet this long after its last node, such as 24h."),
            Argument(
                "setAsideAfter", "With several nodes: release a node whose drain takes longer than this, such as 2h."
            ),
        ),
        needs=(Need("create", SETS),),
    ),
    Act(
        name="cancel",
        help="end the roll and all its maintenances, and give their nodes back",
        targets=(SETS,),
        plan="haulout.surfaces.nodemaintenance.acts:end_roll",
        needs=(Need("delete", SETS),),
    ),
    Act(
        name="pause",
        help="begin no further node; those that have begun go on",
        targets=(SETS,),
        plan="haulout.core.steering:pause",
        needs=(Need("patch", SETS),),
        needs_reason=True,
    ),
    Act(
        name="resume",
        help="go on with the next node",
        targets=(SETS,),
        plan="haulout.surfaces.nodemaintenance.acts:resume_roll",
        needs=(Need("patch", SETS),),
    ),
)


def start(given: ActInput) -> ActPlan | NotPossible:
    name = given.name
    if given.metadata.get("deletionTimestamp"):
        return NotPossible(f"node {name} is being deleted")
    taints: Any = (given.target.get("spec") or {}).get("taints") or ()
    if any(taint.get("key") == DRAIN_TAINT_KEY for taint in taints):
        return NotPossible(f"a NodeMaintenance holds node {name} already (taint {DRAIN_TAINT_KEY})")
    spec = {"nodeName": name, **({"reason": given.reason} if given.reason else {})}
    body = MAINTENANCES.manifest(name, spec)
    write = PersonalWrite(Verb.CREATE, MAINTENANCES, name, body=body)
    return ActPlan((write,), undo=join(("haulout", "cancel", f"nodemaintenance/{name}")))


def roll(given: ActInput) -> ActPlan | NotPossible:
    args = given.args
    nodes = list(dict.fromkeys(filter(None, args["nodes"].split(","))))
    most = digits(args.get("max", "1"), 4)
    if not nodes or len(nodes) > MOST_NODES:
        return WrongArgument(f"a NodeMaintenanceSet has from 1 to {MOST_NODES} nodes, not {len(nodes)}")
    if not most or most > MOST_AT_ONCE:
        return WrongArgument(f"max: {args['max']!r} is not a number from 1 to {MOST_AT_ONCE}")
    name = args.get("name", f"roll-{given.now:%Y%m%d-%H%M%S}")
    optional = {
        "reason": given.reason,
        "startAt": args.get("startAt"),
        "ttl": args.get("ttl"),
        "setAsideAfter": args.get("setAsideAfter"),
    }
    spec = {"nodes": nodes, "maxConcurrent": most, **{field: value for field, value in optional.items() if value}}
    for field, is_right in (("startAt", _is_instant), ("ttl", _is_span), ("setAsideAfter", _is_span)):
        if field in spec and not is_right(str(spec[field])):
            return WrongArgument(f"{field}: {spec[field]!r} is not {_KINDS[is_right]}")
    write = PersonalWrite(Verb.CREATE, SETS, name, body=SETS.manifest(name, spec))
    text = (
        "1 node goes into maintenance; it is given back when its NodeMaintenance is deleted"
        if len(nodes) == 1
        else f"{len(nodes)} nodes go into maintenance, {most} at a time; each is given back when its NodeMaintenance is deleted"
    )
    return ActPlan((write,), join(("haulout", "cancel", f"nodemaintenanceset/{name}")), (text,))


def end_roll(given: ActInput) -> ActPlan | NotPossible:
    if given.metadata.get("deletionTimestamp"):
        return NotPossible("it ends already")
    status: Any = given.target.get("status") or {}
    active = status.get("inMaintenance") or 0
    return ActPlan(
        (given.delete(SETS),), warnings=(f"{active} nodes are in maintenance now and are given back",) if active else ()
    )


def resume_roll(given: ActInput) -> ActPlan | NotPossible:
    """Resume a set, also one that was paused by its own switch."""
    plan, spec = steering.resume(given), given.target.get("spec")
    if not isinstance(spec, dict) or spec.get("paused") is not True:
        return plan
    known = {name: None for name in (steering.PAUSED, steering.PAUSED_BY) if name in given.annotations}
    body: dict[str, Any] = {"spec": {"paused": False}, **({"metadata": {"annotations": known}} if known else {})}
    reason = given.annotations.get(steering.PAUSED) or "paused again"
    return ActPlan(
        (given.patch(SETS, body),), join(("haulout", "pause", f"nodemaintenanceset/{given.name}", "--reason", reason))
    )


def _is_instant(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def _is_span(text: str) -> bool:
    try:
        return duration.parse(text) >= timedelta()
    except duration.DurationError:
        return False


_KINDS = {_is_instant: "an instant such as 2026-11-18T22:00:00Z", _is_span: "a duration such as 90m"}


def cancel(given: ActInput) -> ActPlan | NotPossible:
    if given.metadata.get("deletionTimestamp"):
        return NotPossible("it ends already: it was deleted and waits until the node has been given back")
    spec: Any = given.target.get("spec") or {}
    node, reason = str(spec.get("nodeName", "")), str(spec.get("reason", ""))
    words = ("haulout", "start", f"node/{node}", "--with", WAY, *(("--reason", reason) if reason else ()))
    warnings = ("its drain settings are not restored by the undo",) if spec.get("drain") else ()
    return ActPlan((given.delete(MAINTENANCES),), undo=join(words), warnings=warnings)
