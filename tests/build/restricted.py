"""Finds what a pod template has beyond the Pod Security Standard `restricted` and a read-only root file system."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

Json = dict[str, Any]
# The kinds of volumes that hold only configuration.
CONFIGURATION = {"configMap", "secret"}


def pod_specs(documents: Iterable[Json]) -> list[Json]:
    specs = [document.get("spec", {}).get("template", {}).get("spec") for document in documents if document]
    return [spec for spec in specs if spec and "containers" in spec]


def excesses(spec: Json) -> list[str]:
    """Return what a pod has beyond the standard, a line each."""
    return [*_of_pod(spec), *(line for each in _containers(spec) for line in _of_container(each))]


def _containers(spec: Json) -> list[Json]:
    return [*spec["containers"], *spec.get("initContainers", ())]


def _of_pod(spec: Json) -> Iterator[str]:
    context = spec.get("securityContext", {})
    if context.get("runAsNonRoot") is not True or context.get("runAsUser") == 0:
        yield "the pod may run as root"
    if context.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "the pod has no seccomp profile"
    yield from (f"the pod shares {name}" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    for volume in spec.get("volumes", ()):
        if not set(volume) - {"name"} <= CONFIGURATION:
            yield f"volume {volume['name']} holds more than configuration"
    # The pod may have only the token of its own account. A projected one would be a volume.
    if spec.get("serviceAccountName", "default") == "default":
        yield "the pod has the rights of the namespace's default account"


def _of_container(container: Json) -> Iterator[str]:
    name, context = container["name"], container.get("securityContext", {})
    if context.get("allowPrivilegeEscalation") is not False or context.get("privileged"):
        yield f"{name} may gain privileges"
    if context.get("readOnlyRootFilesystem") is not True:
        yield f"{name} may write to its root file system"
    if context.get("capabilities") != {"drop": ["ALL"]}:
        yield f"{name} has capabilities"
    if {"runAsUser", "runAsNonRoot", "seccompProfile"} & set(context):
        yield f"{name} overrides the pod's security context"
    for mount in container.get("volumeMounts", ()):
        if mount.get("readOnly") is not True:
            yield f"{name} may write to {mount['mountPath']}"
