"""Pulling the images of a node's packages before the node is cordoned, so that it is out of service for less time."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import msgspec

from haulout.base import duration
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core.action import Tell
from haulout.core.reason import Reason
from haulout.surfaces.packages.entries.entry import NodeState
from haulout.surfaces.packages.entries.stages import LEAVING, is_package_complete
from haulout.surfaces.packages.events import event
from haulout.surfaces.packages.node import names as node_names
from haulout.surfaces.packages.node.work import NewPod
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods import names
from haulout.surfaces.packages.pods.bodies import WITHOUT_ACCESS, PodPlace, image_of, owner_of, tolerations_of
from haulout.surfaces.packages.pods.rows import PREPULL, PackagePodRow
from haulout.surfaces.packages.skyhook.intent import Intent
from haulout.surfaces.packages.specs.image_rules import package_problem
from haulout.surfaces.packages.wire import NAME, Package

_RESOURCES = {"cpu": "10m", "memory": "16Mi"}


class Pull(msgspec.Struct, frozen=True):
    """How far the images are that a node needs.

    `is_over`: the node may be cordoned.
    `kept`: the key of the pod that pulls them, while it is still needed.
    `tells`: events that go with the cordon.
    `statements`: events to send while the node waits.
    """

    is_over: bool = False
    new_pods: tuple[NewPod, ...] = ()
    kept: Key | None = None
    until: datetime | None = None
    tells: tuple[Tell, ...] = ()
    statements: tuple[Tell, ...] = ()
    reasons: tuple[Reason, ...] = ()


def is_pull(pod: PackagePodRow, options: Options) -> bool:
    """Whether a pod is one that pulls images. In other namespaces a tenant may have set the label."""
    return pod.pull is not None and pod.key.namespace == options.namespace


def pull_of(
    intent: Intent, node: NodeRow, state: NodeState, pods: Iterable[PackagePodRow], options: Options, now: datetime
) -> Pull:
    """Return how far the images are that a Skyhook's packages need on a node."""
    if not options.pre_pull or node.unschedulable or node_names.cordon(intent.skyhook) in node.annotations:
        return Pull(is_over=True)
    images = images_of(intent, state, options)
    pod = next((each for each in pods if is_pull(each, options) and each.skyhook == intent.skyhook), None)
    if pod is None:
        waits = Reason("image-pulling", node.key, "the images of its packages are to be pulled before it is cordoned")
        return Pull(new_pods=(NewPod(pull_pod(intent.place(node.key.name, options), images)),), reasons=(waits,))
    assert pod.pull is not None
    ends_at = (pod.deleting_at or pod.created_at or now) + options.pre_pull_timeout
    limit = duration.to_text(options.pre_pull_timeout)
    if now >= ends_at:
        note = f"the images for [skyhook:{intent.skyhook}] were not pulled within {limit}: the node is cordoned without them"
        return Pull(is_over=True, tells=(event(node.key, "Prepull", note, warning=True),))
    if pod.deleting_at is not None or not set(images) <= set(pod.pull.images):
        return Pull(until=ends_at)
    if pod.pull.is_over:
        note = f"the images for [skyhook:{intent.skyhook}] could not be pulled: the node is cordoned without them"
        failed = (event(node.key, "Prepull", note, warning=True),) if pod.pull.has_failed else ()
        return Pull(is_over=True, tells=failed)
    text = "the images of its packages are pulled before it is cordoned"
    statements: tuple[Tell, ...] = ()
    if pod.pull.error:
        text = f"an image cannot be pulled ({pod.pull.error}); the node waits for it for at most {limit}"
        statements = (event(node.key, "Prepull", f"{text} [skyhook:{intent.skyhook}]", warning=True),)
    reason = Reason("image-pulling", pod.key, text, until=ends_at)
    return Pull(kept=pod.key, until=ends_at, statements=statements, reasons=(reason,))


def images_of(intent: Intent, state: NodeState, options: Options) -> tuple[str, ...]:
    """Return the images that the coming stages need, including those of the agent and the pause container."""
    coming = [each for each in intent.packages.values() if not is_package_complete(each, state, intent.updates)]
    leaving = [
        intent.departed.get(entry.key) or Package(entry.name, entry.version, entry.image, entry.container_sha)
        for entry in state.values()
        if entry.stage in LEAVING
    ]
    needed = [each for each in (*coming, *leaving) if not package_problem(each, options)]
    found = {image_of(each) for each in needed}
    found |= {each.agent_image_override or options.agent_image for each in needed}
    return tuple(sorted({*found, options.pause_image}))


def pull_pod(place: PodPlace, images: tuple[str, ...]) -> dict[str, Any]:
    """Return the pod that pulls images: one container for each image, which does nothing and need not even start."""
    containers = [
        {
            "name": f"image-{number}",
            "image": image,
            # The kubelet decides whether to pull. A node's status lists only fifty images, so it does not show which
            # are there.
            "imagePullPolicy": "IfNotPresent",
            "command": ["/bin/sh", "-c", "exit 0"],
            "resources": {"limits": _RESOURCES, "requests": _RESOURCES},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        for number, image in enumerate(images)
    ]
    spec: dict[str, Any] = {
        "nodeName": place.node,
        "restartPolicy": "Never",
        "hostNetwork": True,
        **WITHOUT_ACCESS,
        "terminationGracePeriodSeconds": 1,
        "tolerations": tolerations_of(place),
        "containers": containers,
    }
    if place.options.image_pull_secret:
        spec["imagePullSecrets"] = [{"name": place.options.image_pull_secret}]
    metadata = {
        "name": names.pull_pod(place.skyhook, place.node),
        "namespace": place.options.namespace,
        "labels": {NAME: place.skyhook, PREPULL: "true"},
        "ownerReferences": [owner_of(place)],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
