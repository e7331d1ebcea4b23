"""The bodies of the Jobs that run packages and interrupts, made of the bodies of their pods."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from haulout.base import bounds, duration
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.pods.bodies import PAUSE_RESOURCES, RESOURCE_ID, PodPlace, image_of, in_groups
from haulout.surfaces.packages.wire import INTERRUPT_LABEL, NAME, PACKAGE, Package

# No restart of an interrupt's pod ends its Job: a service that is restarted may take the pod along.
ANY_NUMBER = 2**31 - 1
INTERRUPT_RESOURCES = {"cpu": "500m", "memory": "256Mi"}
# While a node reboots, it is neither ready nor reachable.
_UNREACHABLE = [
    {"key": f"node.kubernetes.io/{word}", "operator": "Exists", "effect": "NoExecute"}
    for word in ("not-ready", "unreachable")
]
_IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
_ENDS_AT_ONCE = ["/bin/sh", "-c", "exit 0"]


def job_of(place: PodPlace, package: Package, stage: str, pod: dict[str, Any]) -> dict[str, Any]:
    """Return the Job that runs a pod's containers."""
    is_interrupt = INTERRUPT_LABEL in pod["metadata"]["labels"]
    limit = _limit(place, package)
    template = {
        **pod["spec"],
        "restartPolicy": "OnFailure" if is_interrupt else "Never",
        "tolerations": [*pod["spec"]["tolerations"], *_UNREACHABLE],
        "containers": [_done(package)],
    }
    if is_interrupt:
        resources = {"limits": INTERRUPT_RESOURCES, "requests": INTERRUPT_RESOURCES}
        template["initContainers"] = [{**each, "resources": resources} for each in template["initContainers"]]
    elif limit:
        template["activeDeadlineSeconds"] = limit
    spec: dict[str, Any] = {
        "parallelism": 1,
        "completions": 1,
        "podReplacementPolicy": "Failed",
        "backoffLimit": ANY_NUMBER if is_interrupt else place.options.job_backoff_limit,
        **({"activeDeadlineSeconds": limit} if is_interrupt and limit else {}),
        **({} if is_interrupt else {"podFailurePolicy": {"rules": [_IGNORED]}}),
    }
    labels = {**_under_both(pod["metadata"]["labels"]), **_own_labels(place, stage)}
    notes = _under_both(pod["metadata"]["annotations"])
    spec["template"] = {"metadata": {"labels": labels, "annotations": notes}, "spec": template}
    metadata = {
        **{name: pod["metadata"][name] for name in ("name", "namespace", "ownerReferences")},
        "labels": labels,
        "annotations": {**notes, f"{NODEWRIGHT.prefix}resource-id": _resource_id(template["initContainers"])},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def _done(package: Package) -> dict[str, Any]:
    return {
        "name": "done",
        "image": image_of(package),
        "imagePullPolicy": "IfNotPresent",
        "command": _ENDS_AT_ONCE,
        "resources": {"limits": PAUSE_RESOURCES, "requests": PAUSE_RESOURCES},
    }


def _under_both(values: dict[str, str]) -> dict[str, str]:
    """Return labels or annotations under the prefixes of both groups: Jobs are watched by one, their pods by the other."""
    own = {NODEWRIGHT.inner(name): value for name, value in values.items()}
    return in_groups(NODEWRIGHT, {name: own[name] for name in (NAME, PACKAGE, INTERRUPT_LABEL) if name in own})


def _own_labels(place: PodPlace, stage: str) -> dict[str, str]:
    node = place.node if len(place.node) <= names.LONGEST_LABEL else names.safe_name(names.LONGEST_LABEL, place.node)
    values = {"stage": stage, "node": node, "generation": str(place.generation)}
    return {f"{NODEWRIGHT.prefix}{name}": value for name, value in values.items()}


def _resource_id(containers: list[dict[str, Any]]) -> str:
    variables = (each for container in containers for each in container.get("env") or ())
    return next((str(each["value"]) for each in variables if each["name"] == RESOURCE_ID), "")


def _limit(place: PodPlace, package: Package) -> int:
    """Return how many seconds an attempt may take; 0 for as long as it takes."""
    span = place.options.stage_limit(place.group)
    if package.stage_timeout is not None:
        try:
            span = duration.parse(package.stage_timeout)
        except duration.DurationError:
            return 0
    # A limit of less than a second is one of a second, because the API server knows no smaller one.
    return max(1, bounds.count(span // timedelta(seconds=1))) if span > timedelta() else 0
