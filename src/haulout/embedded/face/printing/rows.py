"""The columns and rows of the built-in kinds in Tables."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any

from haulout.embedded.face.printing.cells import age, containers, instant, selector, span
from haulout.embedded.face.printing.podrow import pod_row
from haulout.embedded.interfaces import Json
from haulout.embedded.store.kinds import Column

Row = Callable[[Json, datetime], list[Any]]


def _columns(*texts: str) -> tuple[Column, ...]:
    """Return columns by their names.

    A plus in front marks a column that only `-o wide` shows; `Ready:integer` has a type.
    """
    found = []
    for text in texts:
        name, _, kind = text.removeprefix("+").partition(":")
        wide = 1 if text.startswith("+") else 0
        found.append(Column(name, kind or "string", "name" if name == "Name" else "", "", wide))
    return tuple(found)


def _name(obj: Json) -> str:
    return str(obj["metadata"]["name"])


def _age(obj: Json, now: datetime) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def node_row(node: Json, now: datetime) -> list[Any]:
    status, info = node["status"], node["status"].get("nodeInfo", {})
    ready = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    words = ["Unknown" if ready is None else "Ready" if ready["status"] == "True" else "NotReady"]
    if node["spec"].get("unschedulable"):
        words.append("SchedulingDisabled")
    kernel = info.get("kernelVersion") or "<unknown>"
    if info.get("architecture"):
        kernel += f" ({info['architecture']})"
    return [
        _name(node),
        ",".join(words),
        ",".join(_roles(node)) or "<none>",
        _age(node, now),
        info.get("kubeletVersion", ""),
        _address(status, "InternalIP"),
        _address(status, "ExternalIP"),
        info.get("osImage") or "<unknown>",
        kernel,
        info.get("containerRuntimeVersion") or "<unknown>",
    ]


def _roles(node: Json) -> list[str]:
    labels, prefix = node["metadata"].get("labels", {}), "node-role.kubernetes.io/"
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    if labels.get("kubernetes.io/role"):
        roles.add(labels["kubernetes.io/role"])
    return sorted(roles)


def _address(status: Json, kind: str) -> str:
    return next((each["address"] for each in status.get("addresses", ()) if each["type"] == kind), "<none>")


def event_row(event: Json, now: datetime) -> list[Any]:
    series, about, source = event.get("series"), event["involvedObject"], event.get("source") or {}
    first = event.get("firstTimestamp") or event.get("eventTime")
    last = series["lastObservedTime"] if series else event.get("lastTimestamp") or first
    count = series["count"] if series else event.get("count") or 1
    component = source.get("component") or event.get("reportingComponent", "")
    host = source.get("host") or event.get("reportingInstance", "")
    target = about.get("kind", "").lower()
    return [
        age(last, now),
        event.get("type", ""),
        event.get("reason", ""),
        f"{target}/{about['name']}" if about.get("name") else target,
        about.get("fieldPath", ""),
        f"{component}, {host}" if host else component,
        event.get("message", "").strip(),
        age(first, now),
        count,
        _name(event),
    ]


def _deployment_row(obj: Json, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    ready = f"{status.get('readyReplicas', 0)}/{spec['replicas']}"
    counts = [status.get("updatedReplicas", 0), status.get("availableReplicas", 0)]
    return [
        _name(obj),
        ready,
        *counts,
        _age(obj, now),
        *containers(spec["template"]["spec"]),
        selector(spec["selector"]),
    ]


def _replica_set_row(obj: Json, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    counts = [spec["replicas"], status.get("replicas", 0), status.get("readyReplicas", 0)]
    return [_name(obj), *counts, _age(obj, now), *containers(spec["template"]["spec"]), selector(spec["selector"])]


def _stateful_set_row(obj: Json, now: datetime) -> list[Any]:
    spec = obj["spec"]
    ready = f"{obj['status'].get('readyReplicas', 0)}/{spec['replicas']}"
    return [_name(obj), ready, _age(obj, now), *containers(spec["template"]["spec"])]


def _daemon_set_row(obj: Json, now: datetime) -> list[Any]:
    spec, status = obj["spec"], obj["status"]
    members = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    counts = [status.get(member, 0) for member in (*members, "numberAvailable")]
    chosen = spec["template"]["spec"].get("nodeSelector", {})
    where = ",".join(f"{key}={value}" for key, value in sorted(chosen.items())) or "<none>"
    rest = [*containers(spec["template"]["spec"]), selector(spec.get("selector"))]
    return [_name(obj), *counts, where, _age(obj, now), *rest]


def _job_row(job: Json, now: datetime) -> list[Any]:
    spec, status = job["spec"], job["status"]
    held = {each["type"] for each in status.get("conditions") or () if each["status"] == "True"}
    state = next((name for name in ("Complete", "Failed") if name in held), "")
    if not state and "deletionTimestamp" in job["metadata"]:
        state = "Terminating"
    if not state:
        later = ("Suspended", "FailureTarget", "SuccessCriteriaMet")
        state = next((name for name in later if name in held), "Running")
    done, parallel = status.get("succeeded", 0), spec.get("parallelism", 0)
    goal = f"{spec['completions']}" if "completions" in spec else f"1 of {parallel}" if parallel > 1 else "1"
    started_at, ended_at = status.get("startTime"), status.get("completionTime")
    took = span((instant(ended_at) if ended_at else now) - instant(started_at)) if started_at else ""
    rest = [*containers(spec["template"]["spec"]), selector(spec.get("selector"))]
    return [_name(job), state, f"{done}/{goal}", took, _age(job, now), *rest]


def _budget_row(obj: Json, now: datetime) -> list[Any]:
    spec = obj["spec"]
    least, most = (str(spec.get(member, "N/A")) for member in ("minAvailable", "maxUnavailable"))
    return [_name(obj), least, most, obj["status"]["disruptionsAllowed"], _age(obj, now)]


def _binding_row(obj: Json, now: datetime) -> list[Any]:
    subjects = obj.get("subjects", ())

    def of(kind: str) -> str:
        chosen = [each for each in subjects if each["kind"] == kind]
        spaces = kind == "ServiceAccount"
        return ", ".join(f"{each['namespace']}/{each['name']}" if spaces else each["name"] for each in chosen)

    role = f"{obj['roleRef']['kind']}/{obj['roleRef']['name']}"
    return [_name(obj), role, _age(obj, now), of("User"), of("Group"), of("ServiceAccount")]


def _service_row(obj: Json, now: datetime) -> list[Any]:
    spec = obj["spec"]
    ingress = (obj.get("status") or {}).get("loadBalancer", {}).get("ingress", ())
    reached = [each.get("ip") or each.get("hostname", "") for each in ingress] + spec.get("externalIPs", [])
    waits = "<pending>" if spec["type"] == "LoadBalancer" else "<none>"
    outside = spec.get("externalName", "") if spec["type"] == "ExternalName" else ",".join(reached) or waits
    ports = [
        f"{port['port']}{':' + str(port['nodePort']) if port.get('nodePort') else ''}/{port['protocol']}"
        for port in spec.get("ports", ())
    ]
    chosen = ",".join(f"{key}={value}" for key, value in sorted(spec.get("selector", {}).items()))
    inside = spec.get("clusterIP") or "<none>"
    return [_name(obj), spec["type"], inside, outside, ",".join(ports) or "<none>", _age(obj, now), chosen or "<none>"]


def _data_row(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), len(obj.get("data", ())) + len(obj.get("binaryData", ())), _age(obj, now)]


def _revision_row(obj: Json, now: datetime) -> list[Any]:
    owner = next((each for each in obj["metadata"].get("ownerReferences", ()) if each.get("controller")), None)
    group = owner["apiVersion"].partition("/")[0] if owner and "/" in owner["apiVersion"] else ""
    text = "<none>"
    if owner:
        text = f"{owner['kind'].lower()}{'.' + group if group else ''}/{owner['name']}"
    return [_name(obj), text, obj["revision"], _age(obj, now)]


_PODS = _columns("Name", "Ready", "Status", "Restarts", "Age", "+IP", "+Node", "+Nominated Node", "+Readiness Gates")
_NODES = _columns(
    "Name",
    "Status",
    "Roles",
    "Age",
    "Version",
    "+Internal-IP",
    "+External-IP",
    "+OS-Image",
    "+Kernel-Version",
    "+Container-Runtime",
)
_EVENTS = _columns(
    "Last Seen",
    "Type",
    "Reason",
    "Object",
    "+Subobject",
    "+Source",
    "Message",
    "+First Seen",
    "+Count",
    "+Name",
)
_TEMPLATE = ("+Containers", "+Images", "+Selector")
_NAMED = _columns("Name", "Age")
_ROLES = _columns("Name", "Created At:date")
_BINDINGS = _columns("Name", "Role", "Age", "+Users", "+Groups", "+ServiceAccounts")


def _named_row(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), _age(obj, now)]


def _created_row(obj: Json, now: datetime) -> list[Any]:
    return [_name(obj), obj["metadata"]["creationTimestamp"]]


PLAIN: tuple[tuple[Column, ...], Row] = (_ROLES, _created_row)
# By table, because both kinds of events are printed alike.
PRINTED: dict[str, tuple[tuple[Column, ...], Row]] = {
    "nodes": (_NODES, node_row),
    "pods": (_PODS, pod_row),
    "events": (_EVENTS, event_row),
    "namespaces": (_columns("Name", "Status", "Age"), lambda o, now: [_name(o), o["status"]["phase"], _age(o, now)]),
    "configmaps": (_columns("Name", "Data", "Age"), _data_row),
    "secrets": (
        _columns("Name", "Type", "Data", "Age"),
        lambda o, now: [_name(o), o["type"], len(o.get("data", ())), _age(o, now)],
    ),
    "services": (_columns("Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age", "+Selector"), _service_row),
    "serviceaccounts": (_NAMED, _named_row),
    "controllerrevisions.apps": (_columns("Name", "Controller", "Revision", "Age"), _revision_row),
    "deployments.apps": (_columns("Name", "Ready", "Up-to-date", "Available", "Age", *_TEMPLATE), _deployment_row),
    "replicasets.apps": (
        _columns("Name", "Desired:integer", "Current:integer", "Ready:integer", "Age", *_TEMPLATE),
        _replica_set_row,
    ),
    "statefulsets.apps": (_columns("Name", "Ready", "Age", "+Containers", "+Images"), _stateful_set_row),
    "daemonsets.apps": (
        _columns(
            "Name",
            "Desired:integer",
            "Current:integer",
            "Ready:integer",
            "Up-to-date:integer",
            "Available:integer",
            "Node Selector",
            "Age",
            *_TEMPLATE,
        ),
        _daemon_set_row,
    ),
    "jobs.batch": (_columns("Name", "Status", "Completions", "Duration", "Age", *_TEMPLATE), _job_row),
    "poddisruptionbudgets.policy": (
        _columns("Name", "Min Available", "Max Unavailable", "Allowed Disruptions:integer", "Age"),
        _budget_row,
    ),
    "leases.coordination.k8s.io": (
        _columns("Name", "Holder", "Age"),
        lambda o, now: [_name(o), o["spec"].get("holderIdentity", ""), _age(o, now)],
    ),
    "rolebindings.rbac.authorization.k8s.io": (_BINDINGS, _binding_row),
    "clusterrolebindings.rbac.authorization.k8s.io": (_BINDINGS, _binding_row),
    **{
        f"{name}webhookconfigurations.admissionregistration.k8s.io": (
            _columns("Name", "Webhooks:integer", "Age"),
            lambda o, now: [_name(o), len(o.get("webhooks", ())), _age(o, now)],
        )
        for name in ("mutating", "validating")
    },
}
