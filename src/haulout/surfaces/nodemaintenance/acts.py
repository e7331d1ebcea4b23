"""The acts of people on NodeMaintenances: begin one for a node, and end one."""

from __future__ import annotations

from shlex import join
from typing import Any

from haulout.core.act import NODES, Act, ActInput, ActPlan, Endpoint, Need, NotPossible, PersonalWrite, Verb

# Spelled here, too, because this module is imported with the declaration, which has to be fast.
DRAIN_TAINT_KEY = "medik8s.io/drain"
MAINTENANCES = Endpoint("NodeMaintenance", "nodemaintenance.medik8s.io", "v1beta1", "nodemaintenances")
WAY = "nodemaintenance"

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


def cancel(given: ActInput) -> ActPlan | NotPossible:
    if given.metadata.get("deletionTimestamp"):
        return NotPossible("it ends already: it was deleted and waits until the node has been given back")
    spec: Any = given.target.get("spec") or {}
    node, reason = str(spec.get("nodeName", "")), str(spec.get("reason", ""))
    words = ("haulout", "start", f"node/{node}", "--with", WAY, *(("--reason", reason) if reason else ()))
    warnings = ("its drain settings are not restored by the undo",) if spec.get("drain") else ()
    return ActPlan((given.delete(MAINTENANCES),), undo=join(words), warnings=warnings)
