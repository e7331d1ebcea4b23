"""The bodies of the pods that run packages and interrupts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from haulout.base import duration
from haulout.model.pod import Toleration
from haulout.surfaces.packages.entries import interrupts
from haulout.surfaces.packages.entries.entry import INTERRUPT, go_json
from haulout.surfaces.packages.groups import NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.node.eligibility import toleration_of
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.wire import (
    INTERRUPT_LABEL,
    NAME,
    PACKAGE,
    Interrupt,
    Package,
    Resources,
)

PAUSE_RESOURCES = {"cpu": "100m", "memory": "20Mi"}
INTERRUPT_RESOURCES = {"cpu": "500m", "memory": "64Mi"}
# Every stage copies over the links that ConfigMap volumes left in an earlier stage. Without -f some builds of busybox
# refuse that.
COPY = 'mkdir -p "/root/${SKYHOOK_DIR}" && cp -rf /skyhook-package/* "/root/${SKYHOOK_DIR}"'
# The environment variables that the operator sets for the agent, beside those of the package.
RESOURCE_ID = "SKYHOOK_RESOURCE_ID"
# Since v7 the agent of NodeWright runs steps with `on_host: false` in its own container. Before, it ignored that.
HONOR_ON_HOST = "SKYHOOK_AGENT_HONOR_ON_HOST"
OWN_VARIABLES = frozenset(
    {"SKYHOOK_LOG_DIR", "SKYHOOK_ROOT_DIR", "COPY_RESOLV", RESOURCE_ID, "SKYHOOK_NODE_ORDER", HONOR_ON_HOST}
)
# This variable contains the generation of the Skyhook, which changes with any edit of the spec.
COPY_VARIABLE = "SKYHOOK_DIR"
# This variable makes the agent run steps again that it has recorded as done.
ALWAYS_RUN = "OVERLAY_ALWAYS_RUN_STEP"
RERUN_VARIABLE = {"name": ALWAYS_RUN, "value": "true"}
LONGEST_CONTAINER = 43
# A package runs as root on the host, and needs nothing of the API server. Its pod must not hand it a service account's
# token. Variables for the Services of the namespace would only leak what runs there.
WITHOUT_ACCESS = {"automountServiceAccountToken": False, "enableServiceLinks": False}


# For each entry, the part of its resource id that differs from that of a new one.
NO_IDENTITIES: Mapping[str, str] = {}


class PodPlace(msgspec.Struct, frozen=True):
    """Where a pod runs and for which Skyhook.

    `generation`: that of the Skyhook. `order`: the node's number in the order of the rollout, where it is needed.
    `group`: that of the object that owns the pod.
    `identities`: for entries that were begun for another object of the unit, that object's part of their resource ids.
    """

    node: str
    skyhook: str
    uid: str
    generation: int
    options: Options
    tolerations: tuple[Toleration, ...] = ()
    order: int | None = None
    group: Group = SKYHOOK
    identities: Mapping[str, str] = NO_IDENTITIES

    def identity(self, package: Package) -> str:
        """Return what resource id and copy directory of a package end with."""
        return self.identities.get(package.key) or identity_of(self.uid, self.generation)


def identity_of(uid: str, generation: int) -> str:
    return f"{uid}-{generation}"


class About(msgspec.Struct, frozen=True):
    """The annotation of a package pod that identifies its package, stage and Skyhook.

    `invalid`: the pod is to be deleted without recording its result.
    """

    name: str = ""
    version: str = ""
    skyhook: str = ""
    stage: str = ""
    image: str = ""
    container_sha: str = msgspec.field(default="", name="containerSHA")
    invalid: bool = False


def about_text(about: About) -> str:
    """Return the annotation as JSON, with its members in the original's order and without empty ones."""
    members: dict[str, object] = {"name": about.name, "version": about.version, "skyhook": about.skyhook}
    members |= {"stage": about.stage, "image": about.image}
    members |= {"containerSHA": about.container_sha} if about.container_sha else {}
    members |= {"invalid": True} if about.invalid else {}
    return go_json(members)


def copy_dir(place: PodPlace, package: Package) -> str:
    root = place.options.copy_dir_root
    return names.copy_dir(root, place.skyhook, place.identity(package), package.name, package.version)


def package_pod(place: PodPlace, package: Package, stage: str, *, reruns: bool = False) -> dict[str, Any]:
    """Return the pod that runs one stage of a package: it copies the package to the host, runs the stage and checks it.

    `reruns`: run steps again that the agent has recorded as done.
    """
    containers = package_containers(place, package, stage, reruns=reruns)
    name = names.package_pod(place.skyhook, package.name, package.version, stage, place.node)
    body = _frame(place, package, stage, name, containers, _volumes(place, package))
    if package.graceful_shutdown is not None and (grace := _seconds(package.graceful_shutdown)) is not None:
        body["spec"]["terminationGracePeriodSeconds"] = grace
    return body


def package_containers(place: PodPlace, package: Package, stage: str, *, reruns: bool = False) -> list[dict[str, Any]]:
    """Return the init containers of the pod that runs one stage of a package."""
    directory = copy_dir(place, package)
    mounts = _mounts(place, package)
    agent = _agent(place, package, mounts, [RERUN_VARIABLE] if reruns else [])
    first = package.name[:LONGEST_CONTAINER]
    copying: dict[str, Any] = {
        "name": f"{first}-init",
        "image": image_of(package),
        "imagePullPolicy": "Always",
        "command": ["/bin/sh"],
        "args": ["-c", COPY],
        "env": [{"name": COPY_VARIABLE, "value": directory}],
        "securityContext": {"privileged": True},
        "volumeMounts": mounts,
    }
    running = {"name": f"{first}-{stage}", **agent, "args": [stage, "/root", directory]}
    checking = {"name": f"{first}-{stage}check", **agent, "args": [f"{stage}-check", "/root", directory]}
    containers = [copying, running, checking]
    if (resources := resources_of(package.resources)) is not None:
        containers = [{**container, "resources": resources} for container in containers]
    return containers


def interrupt_pod(
    place: PodPlace, package: Package, interrupt: Interrupt, directory: str, stage: str = INTERRUPT
) -> dict[str, Any]:
    """Return the pod that runs an interrupt. `directory`: where the package was copied to on the host."""
    container = {
        "name": "interrupt",
        "image": package.agent_image_override or place.options.agent_image,
        "args": ["interrupt", "/root", directory, interrupts.argument(interrupt)],
        "env": _own_variables(place, package),
        "securityContext": {"privileged": True},
        "volumeMounts": [_ROOT_MOUNT],
        "resources": {"limits": INTERRUPT_RESOURCES, "requests": INTERRUPT_RESOURCES},
    }
    name = names.interrupt_pod(place.skyhook, interrupt.type, place.node, stage=stage)
    body = _frame(place, package, stage, name, [container], [_ROOT_VOLUME])
    body["metadata"]["labels"] |= in_groups(place.group, {INTERRUPT_LABEL: "True"})
    return body


def image_of(package: Package) -> str:
    if package.container_sha:
        return f"{package.image}@{package.container_sha}"
    return package.image if "@" in package.image else f"{package.image}:{package.version}"


def resources_of(resources: Resources | None) -> dict[str, Any] | None:
    """Return the resources of a container; None if the package sets none, so that the namespace's defaults apply."""
    if resources is None or not any(_is_set(value) for value in msgspec.structs.astuple(resources)):
        return None
    limits = {"cpu": resources.cpu_limit, "memory": resources.memory_limit}
    requests = {"cpu": resources.cpu_request, "memory": resources.memory_request}
    return {"limits": _without_empty(limits), "requests": _without_empty(requests)}


def owner_of(place: PodPlace) -> dict[str, Any]:
    reference = {
        "apiVersion": place.group.api_version,
        "kind": place.group.kind,
        "name": place.skyhook,
        "uid": place.uid,
    }
    return {**reference, "controller": True, "blockOwnerDeletion": True}


_ROOT_MOUNT = {"name": "root-mount", "mountPath": "/root", "mountPropagation": "HostToContainer"}
_ROOT_VOLUME = {"name": "root-mount", "hostPath": {"path": "/"}}


def _mounts(place: PodPlace, package: Package) -> list[dict[str, Any]]:
    metadata = {"name": names.metadata_volume(place.node), "mountPath": "/skyhook-package/node-metadata"}
    config = {"name": package.name, "mountPath": "/skyhook-package/configmaps"}
    return [_ROOT_MOUNT, metadata, *([config] if package.config_map else [])]


def _volumes(place: PodPlace, package: Package) -> list[dict[str, Any]]:
    metadata_map = names.metadata_config_map(place.skyhook, place.node)
    volumes = [_ROOT_VOLUME, {"name": names.metadata_volume(place.node), "configMap": {"name": metadata_map}}]
    if package.config_map:
        own = names.package_config_map(place.skyhook, package.name, package.version)
        volumes.append({"name": package.name, "configMap": {"name": own}})
    return volumes


def _agent(
    place: PodPlace, package: Package, mounts: list[dict[str, Any]], more: list[dict[str, str]]
) -> dict[str, Any]:
    return {
        "image": package.agent_image_override or place.options.agent_image,
        "imagePullPolicy": "Always",
        "env": [*package.env, *_own_variables(place, package), *more],
        "securityContext": {"privileged": True},
        "volumeMounts": mounts,
    }


def _own_variables(place: PodPlace, package: Package) -> list[dict[str, str]]:
    options = place.options
    identity = names.resource_id(place.skyhook, place.identity(package), package.name, package.version)
    values = {
        "SKYHOOK_LOG_DIR": f"{options.agent_log_root}/{place.skyhook}",
        "SKYHOOK_ROOT_DIR": f"{options.copy_dir_root}/{place.skyhook}",
        "COPY_RESOLV": "false",
        RESOURCE_ID: identity,
    }
    if place.order is not None:
        values["SKYHOOK_NODE_ORDER"] = str(place.order)
    if place.group is NODEWRIGHT and all(each.get("name") != HONOR_ON_HOST for each in package.env):
        values[HONOR_ON_HOST] = "true"
    return [{"name": name, "value": value} for name, value in values.items()]


def _frame(
    place: PodPlace,
    package: Package,
    stage: str,
    name: str,
    containers: list[dict[str, Any]],
    volumes: list[dict[str, Any]],
) -> dict[str, Any]:
    options = place.options
    about = About(package.name, package.version, place.skyhook, stage, package.image, package.container_sha)
    spec: dict[str, Any] = {
        "nodeName": place.node,
        "restartPolicy": "OnFailure",
        "hostPID": True,
        "hostNetwork": True,
        **WITHOUT_ACCESS,
        "tolerations": tolerations_of(place),
        "initContainers": containers,
        "containers": [
            {
                "name": "pause",
                "image": options.pause_image,
                "resources": {"limits": PAUSE_RESOURCES, "requests": PAUSE_RESOURCES},
            }
        ],
        "volumes": volumes,
    }
    if options.image_pull_secret:
        spec["imagePullSecrets"] = [{"name": options.image_pull_secret}]
    labels = {NAME: place.skyhook, PACKAGE: names.package_label(package.name, package.version)}
    metadata = {
        "name": name,
        "namespace": options.namespace,
        "labels": in_groups(place.group, labels),
        "annotations": in_groups(place.group, {PACKAGE: about_text(about)}),
        "ownerReferences": [owner_of(place)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def in_groups(group: Group, values: Mapping[str, str]) -> dict[str, str]:
    """Return labels or annotations of an object that a group owns.

    All have the prefix of skyhook, by which they are watched. Those of NodeWrights have their own prefix, too.
    """
    return {**values, **{group.named(name): value for name, value in values.items()}}


def tolerations_of(place: PodPlace) -> list[dict[str, Any]]:
    return [
        {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
        *(_without_empty(msgspec.to_builtins(toleration_of(each))) for each in place.options.taints),
        *(_without_empty(msgspec.to_builtins(each)) for each in place.tolerations),
    ]


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "")}


def _is_set(value: object) -> bool:
    return value not in (None, "", "0", 0)


def _seconds(text: str) -> int | None:
    try:
        return int(duration.parse(text).total_seconds())
    except duration.DurationError:
        return None
