"""Rules of Pods: what admission adds, which changes are allowed, and the grace period of a deletion."""

from __future__ import annotations

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import metadata, refusals
from haulout.embedded.rules.podspec import check_spec, default_requests, default_spec
from haulout.embedded.rules.refusals import Problem, forbidden_field, wrong

PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_UNREACHABLE = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_DISPLAYED = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def default(pod: Json, old: Json | None) -> None:
    spec = pod["spec"]
    if old is not None and spec is old["spec"]:
        return
    default_spec(spec)
    default_requests(spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in spec.get("containers") or ():
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port["containerPort"])
    _tolerate(spec)
    _prioritise(pod, old)


def _tolerate(spec: Json) -> None:
    """Add the tolerations of the admission plugin DefaultTolerationSeconds, to new and changed pods."""
    tolerated = spec.get("tolerations", [])
    extra = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in _UNREACHABLE
        if not any(_covers(toleration, key) for toleration in tolerated)
    ]
    if extra:
        spec["tolerations"] = [*tolerated, *extra]


def _prioritise(pod: Json, old: Json | None) -> None:
    """Set the priority as the admission plugin Priority does."""
    spec = pod["spec"]
    if old is not None:
        for member in ("priority", "preemptionPolicy"):
            if member in old["spec"]:
                spec.setdefault(member, old["spec"][member])
        return
    chosen = spec.get("priorityClassName", "")
    if chosen and chosen not in PRIORITIES:
        why = f"no PriorityClass with name {chosen} was found"
        raise refusals.forbidden("pods", "", pod["metadata"].get("name", ""), why)
    spec.setdefault("priority", PRIORITIES.get(chosen, 0))
    spec.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _covers(toleration: Json, key: str) -> bool:
    return bool(toleration.get("key", key) == key and toleration.get("effect", "NoExecute") == "NoExecute")


def prepare(pod: Json) -> None:
    pod["status"] = {"phase": "Pending", "qosClass": qos(pod["spec"])}
    if pod["spec"].get("schedulingGates"):
        gated = {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": pod["metadata"]["creationTimestamp"],
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }
        pod["status"]["conditions"] = [gated]


def prepare_status(pod: Json, old: Json) -> None:
    pod["metadata"] = {**pod["metadata"]}
    pod["metadata"].pop("ownerReferences", None)
    if "ownerReferences" in old["metadata"]:
        pod["metadata"]["ownerReferences"] = old["metadata"]["ownerReferences"]
    if "qosClass" not in pod["status"] and "qosClass" in old["status"]:
        pod["status"] = {**pod["status"], "qosClass": old["status"]["qosClass"]}


def qos(spec: Json) -> str:
    best, guaranteed = True, True
    for container in [*(spec.get("containers") or ()), *spec.get("initContainers", ())]:
        resources = container.get("resources", {})
        limits, requests = resources.get("limits", {}), resources.get("requests", {})
        for name in ("cpu", "memory"):
            limit, request = limits.get(name), requests.get(name)
            if (limit, request) != (None, None):
                best = False
            if limit is None or limit != request:
                guaranteed = False
    return "BestEffort" if best else "Guaranteed" if guaranteed else "Burstable"


def check(pod: Json) -> list[Problem]:
    return check_spec(pod["spec"], "spec")


def recheck_status(pod: Json, old: Json) -> list[Problem]:
    problems: list[Problem] = []
    for index, condition in enumerate(pod["status"].get("conditions", ())):
        if texts := metadata.label_key(condition["type"]):
            problems += [wrong(f"status.conditions[{index}].Type", condition["type"], text) for text in texts]
    return problems


def recheck(pod: Json, old: Json) -> list[Problem]:
    spec, before = pod["spec"], old["spec"]
    if spec is before or spec == before:
        return []
    problems: list[Problem] = []
    for group in ("containers", "initContainers"):
        if len(spec.get(group) or ()) != len(before.get(group) or ()):
            text = "pod updates may not add or remove containers"
            return [*problems, forbidden_field(f"spec.{group}", text)]
    problems += _recheck_deadline(spec.get("activeDeadlineSeconds"), before.get("activeDeadlineSeconds"))
    lost = [each for each in before.get("tolerations", ()) if each not in spec.get("tolerations", ())]
    if lost:
        text = "existing toleration can not be modified except its tolerationSeconds"
        if not all(_only_seconds_differ(each, spec.get("tolerations", ())) for each in lost):
            problems.append(forbidden_field("spec.tolerations", text))
    if difference := _difference(spec, before):
        text = f"pod updates may not change fields other than {','.join(_DISPLAYED)}\n{difference}"
        problems.append(forbidden_field("spec", text))
    return problems


def _recheck_deadline(deadline: int | None, before: int | None) -> list[Problem]:
    path = "spec.activeDeadlineSeconds"
    if deadline is None and before is not None:
        return [wrong(path, None, "must not update from a positive integer to nil value")]
    if deadline is not None and before is not None and before < deadline:
        return [wrong(path, deadline, "must be less than or equal to previous value")]
    return []


def _only_seconds_differ(toleration: Json, others: list[Json]) -> bool:
    bare = {name: value for name, value in toleration.items() if name != "tolerationSeconds"}
    return any(bare == {name: value for name, value in o.items() if name != "tolerationSeconds"} for o in others)


def _difference(spec: Json, before: Json) -> str:
    lines = []
    for name in sorted(spec.keys() | before.keys()):
        new, old = spec.get(name), before.get(name)
        if new == old or name in {"activeDeadlineSeconds", "tolerations", "schedulingGates"}:
            continue
        if name in {"containers", "initContainers"} and _same_but_images(new or [], old or []):
            continue
        if name == "terminationGracePeriodSeconds" and (old or 0) < 0 and new == 1:
            continue
        lines += [f'- "{name}": {refusals.show(old)}', f'+ "{name}": {refusals.show(new)}']
    return "\n".join(lines)


def _same_but_images(new: list[Json], old: list[Json]) -> bool:
    return all({**a, "image": ""} == {**b, "image": ""} for a, b in zip(new, old, strict=True))


def grace(pod: Json, asked: int | None) -> int:
    """Return the grace period in seconds of a pod whose deletion is requested."""
    if not pod["spec"].get("nodeName") or pod["status"].get("phase") in {"Succeeded", "Failed"}:
        return 0
    seconds: int = pod["spec"].get("terminationGracePeriodSeconds", 0) if asked is None else asked
    return 1 if seconds < 0 else seconds
