"""The acts of people on NotifyMaintenances: begin and end one, say that a step may begin or is over, and try again."""

from __future__ import annotations

import re
from shlex import join
from typing import Any

from haulout.core.act import NODES, Act, ActInput, ActPlan, Argument, Endpoint, Need, NotPossible, PersonalWrite, Verb

WAY = "notify"
NOTICES = Endpoint("NotifyMaintenance", "ngn2.nvidia.com", "v1alpha1", "notifymaintenances", is_namespaced=True)
READY, CLIENT = "maintenance/readyForMaintenance", "maintenance/maintenanceClient"
VALIDATION, HOLD, RETRY = "maintenance/validationClient", "haulout.dev/hold", "haulout.dev/retry"
SCHEDULED, STARTED, SLA_EXPIRED = "MaintenanceScheduled", "MaintenanceStarted", "SLAExpired"
DRAINED, VALIDATING, INCOMPLETE = "ObjectsDrained", "Validating", "MaintenanceIncomplete"
_ID = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")

ACTS = (
    Act(
        name="start",
        way=WAY,
        help="request a maintenance of the node by a NotifyMaintenance, with notices and a deadline",
        targets=(NODES,),
        plan="haulout.surfaces.notify.acts:start",
        arguments=(
            Argument("namespace", "Namespace of the NotifyMaintenance (default default)."),
            Argument("id", "ID of the maintenance; several nodes may share one (default: generated from the time)."),
            Argument("type", "Type of the maintenance (default planned).", choices=("planned", "unplanned")),
        ),
        needs=(Need("create", NOTICES),),
        disturbs=True,
    ),
    Act(
        name="cancel",
        help="end the maintenance; its notices say that it was cancelled",
        targets=(NOTICES,),
        plan="haulout.surfaces.notify.acts:cancel",
        needs=(Need("delete", NOTICES),),
    ),
    Act(
        name="approve",
        help="let it be scheduled that is held, or say that its node is ready for the work",
        targets=(NOTICES,),
        plan="haulout.surfaces.notify.acts:approve",
        needs=(Need("patch", NOTICES),),
    ),
    Act(
        name="finish",
        help="report the result of the work on the node, or of its validation",
        targets=(NOTICES,),
        plan="haulout.surfaces.notify.acts:finish",
        arguments=(Argument("result", "Result of the step (default success).", choices=("success", "failure")),),
        needs=(Need("patch", NOTICES),),
    ),
    Act(
        name="retry",
        help="try the work on the node again after it has failed",
        targets=(NOTICES,),
        plan="haulout.surfaces.notify.acts:retry",
        needs=(Need("patch", NOTICES),),
    ),
)


def start(given: ActInput) -> ActPlan | NotPossible:
    if given.metadata.get("deletionTimestamp"):
        return NotPossible(f"node {given.name} is being deleted")
    namespace = given.args.get("namespace", "default")
    number = given.args.get("id", f"manual-{given.now:%Y%m%d-%H%M%S}")
    if not _ID.fullmatch(number):
        return NotPossible(f"{number!r} cannot be an ID: it becomes the name of a label")
    if not _NAMESPACE.fullmatch(namespace):
        return NotPossible(f"{namespace!r} cannot be the name of a namespace")
    if f"maintenance/{number}" in given.labels:
        return NotPossible(f"node {given.name} is in maintenance {number} already")
    name = f"{given.name[:180]}-{number.lower().replace('_', '-')}"
    spec = {"nodeObject": given.name, "maintenanceID": number, "maintenanceType": given.args.get("type", "planned")}
    body = NOTICES.manifest(name, {**spec, **({"owner": given.by} if given.by else {})}, namespace)
    warnings = ("a NotifyMaintenance has no field for a reason: it is not stored",) if given.reason else ()
    write = PersonalWrite(Verb.CREATE, NOTICES, name, namespace, body)
    return ActPlan((write,), join(("haulout", "cancel", f"notifymaintenance/{namespace}/{name}")), warnings)


def cancel(given: ActInput) -> ActPlan | NotPossible:
    if given.metadata.get("deletionTimestamp"):
        return NotPossible("it ends already: it was deleted and waits until the node is back")
    spec: Any = given.target.get("spec") or {}
    words = (
        *("haulout", "start", f"node/{spec.get('nodeObject', '')}", "--with", WAY),
        *("--namespace", given.namespace, "--id", str(spec.get("maintenanceID", ""))),
        *("--type", str(spec.get("maintenanceType") or "planned")),
    )
    warnings = {
        STARTED: "its node stays cordoned until the returner or a person puts it back into service",
        SLA_EXPIRED: "its node stays cordoned until the returner or a person puts it back into service",
        DRAINED: "the work on its node may have begun: it is not known whether the node can be used",
        VALIDATING: "the result of the work on its node has not been validated",
        INCOMPLETE: "the work on its node has failed: the node stays cordoned",
    }
    warning = warnings.get(_status(given), "")
    return ActPlan((given.delete(NOTICES),), join(words), (warning,) if warning else ())


def approve(given: ActInput) -> ActPlan | NotPossible:
    status = _status(given)
    if status in (STARTED, SLA_EXPIRED):
        write = given.patch_metadata(NOTICES, annotations={READY: "true"})
        return ActPlan((write,), warnings=("the work begins although pods may be left on the node",))
    if given.annotations.get(HOLD) == "true":
        write = given.patch_metadata(NOTICES, annotations={HOLD: None})
        return ActPlan((write,), given.restore("annotate", NOTICES, HOLD))
    return NotPossible(
        f"it waits for no approval: its status is {status or 'not set yet'}, and it has no annotation {HOLD}"
    )


def finish(given: ActInput) -> ActPlan | NotPossible:
    is_success = given.args.get("result", "success") == "success"
    match _status(given):
        case "ObjectsDrained":
            changes = {CLIENT: "complete" if is_success else "incomplete"}
        case "Validating":
            changes = {VALIDATION: "validated" if is_success else "failed"}
        case status:
            return NotPossible(f"no step of it can be finished: its status is {status or 'not set yet'}")
    return ActPlan(
        (given.patch_metadata(NOTICES, annotations={**changes}),), warnings=("a result cannot be changed later",)
    )


def retry(given: ActInput) -> ActPlan | NotPossible:
    if (status := _status(given)) != INCOMPLETE:
        return NotPossible(f"it has not failed: its status is {status or 'not set yet'}")
    write = given.patch_metadata(NOTICES, annotations={RETRY: f"{given.now:%Y-%m-%dT%H:%M:%SZ}"})
    return ActPlan((write,), warnings=("it has an effect only if the configuration has core.allowRetry: true",))


def _status(given: ActInput) -> str:
    status: Any = given.target.get("status") or {}
    return str(status.get("maintenanceStatus") or "")
