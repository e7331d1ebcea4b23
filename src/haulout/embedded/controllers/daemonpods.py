"""The pods that a DaemonSet wants on each node and has there, and the tolerations and affinity that it adds to them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from haulout.embedded.controllers.node_fit import (
    NO_EXECUTE,
    NO_SCHEDULE,
    matches_affinity,
    pinned_to,
    untolerated_taint,
)
from haulout.embedded.controllers.object_fields import Key, key_of, node_of
from haulout.embedded.interfaces import Json

# The tolerations that the daemon controller adds (pkg/controller/daemon/util/daemonset_util.go), in its order.
_TOLERATED = (
    ("node.kubernetes.io/not-ready", NO_EXECUTE),
    ("node.kubernetes.io/unreachable", NO_EXECUTE),
    ("node.kubernetes.io/disk-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/memory-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/pid-pressure", NO_SCHEDULE),
    ("node.kubernetes.io/unschedulable", NO_SCHEDULE),
)
_NETWORK = ("node.kubernetes.io/network-unavailable", NO_SCHEDULE)


class Wish(NamedTuple):
    """Whether a DaemonSet wants a pod created on a node, and whether a pod that is there may stay."""

    run: bool = False
    stay: bool = False


class Share(NamedTuple):
    """The part of a DaemonSet's status counts that one node contributes."""

    desired: int = 0
    current: int = 0
    misscheduled: int = 0
    ready: int = 0
    updated: int = 0
    available: int = 0


class Known:
    """The state of one DaemonSet by node. `doubtful` are the nodes that the next sync considers again."""

    def __init__(self) -> None:
        self.wishes: dict[str, Wish] = {}
        self.pods: dict[str, dict[Key, Json]] = {}
        self.shares: dict[str, Share] = {}
        self.total = Share()
        self.doubtful: dict[str, None] = {}
        self.failures: dict[str, tuple[int, datetime]] = {}

    def put(self, pod: Json, *, there: bool) -> None:
        name = node_of(pod) or pinned_to(pod["spec"]) or ""
        if there:
            self.pods.setdefault(name, {})[key_of(pod)] = pod
        elif name in self.pods:
            self.pods[name].pop(key_of(pod), None)
            if not self.pods[name]:
                del self.pods[name]
        self.doubtful[name] = None

    def share(self, name: str, share: Share) -> None:
        old = self.shares.pop(name, Share())
        self.total = Share(*(total - was + now for total, was, now in zip(self.total, old, share, strict=True)))
        if any(share):
            self.shares[name] = share


def wish_of(owner: Json, node: Json) -> Wish:
    spec = owner["spec"]["template"]["spec"]
    if spec.get("nodeName") not in {None, "", node["metadata"]["name"]} or not matches_affinity(spec, node):
        return Wish()
    taints, tolerations = (node.get("spec") or {}).get("taints") or (), with_tolerations(spec)
    if untolerated_taint(taints, tolerations, frozenset((NO_EXECUTE, NO_SCHEDULE))) is None:
        return Wish(run=True, stay=True)
    return Wish(run=False, stay=untolerated_taint(taints, tolerations, frozenset((NO_EXECUTE,))) is None)


def with_tolerations(spec: Json) -> list[Json]:
    added = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    if spec.get("hostNetwork"):
        added.append({"key": _NETWORK[0], "operator": "Exists", "effect": _NETWORK[1]})
    tolerations: list[Json] = spec.get("tolerations") or []
    return [*tolerations, *(one for one in added if one not in tolerations)]


def pin_to_node(affinity: Json | None, node: str) -> Json:
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    nodes = dict((affinity or {}).get("nodeAffinity") or {})
    nodes["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return {**(affinity or {}), "nodeAffinity": nodes}
