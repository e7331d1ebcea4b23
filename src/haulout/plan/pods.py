"""The pods that a plan takes along as they are, on their nodes. It makes all other pods from their owners.

See decisions 0083, 0150.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from haulout.base.selector import Selector, SelectorError, from_object
from haulout.cluster.project import MIRROR_ANNOTATION
from haulout.core.budgets.quorum import is_etcd
from haulout.embedded import Json
from haulout.model.meta import ObjectMeta, OwnerReference, wire_time

# The label by which a made-up ReplicaSet finds the pods that it stands in for the owner of.
STANDS_IN = "plan.haulout.dev/stands-in"
ENDED = ("Succeeded", "Failed")
TEMPLATE_HASH = "pod-template-hash"
# It may be as long as the pod, and no decision reads it.
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
# A plan changes no template, so that no pod has to be replaced. A pod that was taken along has no revision of the plan.
ON_DELETE = {"type": "OnDelete"}

# The kind, namespace and name of an owner.
OwnerKey = tuple[str, str, str]


class FoundContainer(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A container of a pod, in part: what scheduling depends on."""

    name: str = ""
    image: str = ""
    resources: dict[str, Any] = {}
    ports: list[Any] = []
    restart_policy: str = ""


class FoundVolume(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A volume of a pod, in part: a drain asks whether it is an emptyDir."""

    name: str = ""
    empty_dir: dict[str, Any] | None = None


class FoundSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The spec of a pod, in part: what scheduling and draining depend on."""

    node_name: str = ""
    restart_policy: str = "Always"
    priority: int | None = None
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    host_network: bool = False
    containers: list[FoundContainer] = []
    init_containers: list[FoundContainer] = []
    volumes: list[FoundVolume] = []
    node_selector: dict[str, str] = {}
    tolerations: list[Any] = []
    affinity: dict[str, Any] | None = None
    topology_spread_constraints: list[Any] = []


class FoundStatus(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The status of a pod, in part."""

    phase: str = ""
    start_time: str | None = None


class FoundPod(msgspec.Struct, frozen=True):
    """A pod of a cluster or a snapshot, in part: all that a plan keeps of it. A cluster may have very many."""

    metadata: ObjectMeta = ObjectMeta()
    spec: FoundSpec = FoundSpec()
    status: FoundStatus = FoundStatus()

    @property
    def is_finite(self) -> bool:
        """Whether the pod ends by itself."""
        return self.spec.restart_policy != "Always"

    @property
    def body(self) -> Json:
        """The pod as JSON, with its owner. Finalizers are left out, because their controllers have no part in a plan."""
        meta = self.metadata
        notes = {name: text for name, text in meta.annotations.items() if name != LAST_APPLIED}
        metadata = {"name": meta.name, "namespace": meta.namespace, "labels": meta.labels, "annotations": notes}
        if meta.creation_timestamp is not None:
            metadata["creationTimestamp"] = wire_time(meta.creation_timestamp)
        owners = msgspec.to_builtins(meta.owner_references)
        spec: Json = msgspec.to_builtins(self.spec)
        # Of volumes only emptyDirs matter. Claims and ConfigMaps are not taken along.
        spec["volumes"] = [each for each in spec.get("volumes", ()) if "emptyDir" in each]
        status = msgspec.to_builtins(self.status)
        metadata["ownerReferences"] = owners
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


class PodChoice:
    """Chooses the pods that a plan takes along.

    `bodies`: the objects that the plan begins with. `annotations`: those that decisions read of pods.
    `is_own`: whether a surface makes the pod itself. `finite`: take all pods along that end by themselves.
    """

    def __init__(
        self, bodies: Iterable[Json], annotations: frozenset[str], is_own: Callable[[Json], bool], *, finite: bool
    ) -> None:
        objects = list(bodies)
        self._owners = {key: body for body in objects if (key := owner_key(body)) is not None}
        self._budgets = dict(_exhausted(objects))
        self._nodes = {name for kind, _, name in self._owners if kind == "Node"}
        self._cordoned = {
            name
            for (kind, _, name), body in self._owners.items()
            if kind == "Node" and (body.get("spec") or {}).get("unschedulable")
        }
        self._annotations = annotations
        self._is_own = is_own
        self._finite = finite

    def takes(self, pod: FoundPod) -> bool:
        """Whether the plan takes a pod along: it is on a node, and the plan cannot make it from its owner."""
        meta = pod.metadata
        if pod.spec.node_name not in self._nodes or meta.deletion_timestamp is not None:
            return False
        if pod.status.phase in ENDED:
            return False
        if MIRROR_ANNOTATION in meta.annotations:
            # No drain evicts static pods. Those of etcd show which nodes are members, which the quorum depends on.
            return is_etcd(meta.namespace, meta.labels)
        return ((self._finite and pod.is_finite) or self._differs(pod)) and not self._is_own(pod.body)

    def adopted(self, pods: Sequence[FoundPod]) -> tuple[dict[OwnerKey, Json], list[Json]]:
        """Return the owners that change so that they adopt these pods, and the pods with the ReplicaSets made up for them."""
        changed: dict[OwnerKey, Json] = {}
        strangers: dict[OwnerReference | None, list[FoundPod]] = {}
        made: list[Json] = []
        for pod in pods:
            key = owner_of(pod)
            if key in self._owners:
                changed[key] = _adopting(self._owners[key])
                made.append(pod.body)
            else:
                strangers.setdefault(pod.metadata.controller, []).append(pod)
        for number, (controller, group) in enumerate(strangers.items()):
            made += _kept_up(controller, group, str(number)) if controller else [pod.body for pod in group]
        return changed, made

    def _differs(self, pod: FoundPod) -> bool:
        """Whether the plan makes no such pod there.

        Its owner is not taken along, or decisions read another annotation of it. The pods of a cordoned node stay where
        they are, because the plan places none there. So do those whose budget allows no eviction, because it matters
        which node they keep from being drained (decision 0174).
        """
        owner = self._owners.get(owner_of(pod) or ("", "", ""))
        if owner is None:
            return True
        if owner["kind"] != "DaemonSet" and (pod.spec.node_name in self._cordoned or self._is_kept(pod)):
            return True
        noted, notes = pod.metadata.annotations, _template_annotations(owner)
        return any(noted.get(name) != notes.get(name) for name in self._annotations)

    def _is_kept(self, pod: FoundPod) -> bool:
        budgets = self._budgets.get(pod.metadata.namespace, ())
        return any(each.matches(pod.metadata.labels) for each in budgets)


def _exhausted(bodies: Iterable[Json]) -> Iterator[tuple[str, tuple[Selector, ...]]]:
    """Yield the selectors of the PodDisruptionBudgets that allow no eviction now, by namespace."""
    found: dict[str, list[Selector]] = {}
    for body in bodies:
        allowed = (body.get("status") or {}).get("disruptionsAllowed")
        if body.get("kind") == "PodDisruptionBudget" and not allowed:
            with contextlib.suppress(SelectorError):
                selector = from_object((body.get("spec") or {}).get("selector") or {})
                found.setdefault(str((body.get("metadata") or {}).get("namespace") or ""), []).append(selector)
    return ((namespace, tuple(selectors)) for namespace, selectors in found.items())


def owner_of(pod: FoundPod) -> OwnerKey | None:
    """Return the owner from whose template a pod is made; None if it has none. A Deployment's pod has a ReplicaSet."""
    controller, meta = pod.metadata.controller, pod.metadata
    if controller is None or not controller.api_version.startswith("apps/"):
        return None
    suffix = f"-{meta.labels.get(TEMPLATE_HASH, '')}"
    if controller.kind == "ReplicaSet" and len(suffix) > 1 and controller.name.endswith(suffix):
        return "Deployment", meta.namespace, controller.name.removesuffix(suffix)
    return controller.kind, meta.namespace, controller.name


def found_pods(bodies: Iterable[Json], on_problem: Callable[[str], None]) -> Iterator[FoundPod]:
    """Yield the pods among the objects of a snapshot."""
    for body in bodies:
        if body.get("kind") == "Pod":
            try:
                yield msgspec.convert(body, FoundPod, strict=False)
            except msgspec.ValidationError as error:
                name = (body.get("metadata") or {}).get("name", "")
                on_problem(f"pod {name} is left out: {error}")


def owner_key(body: Json) -> OwnerKey | None:
    """Return the kind, namespace and name of a node or of an owner whose pods a plan makes; None of any other object."""
    metadata = body.get("metadata")
    if body.get("kind") not in ("Node", "Deployment", "StatefulSet", "DaemonSet") or not isinstance(metadata, dict):
        return None
    return str(body["kind"]), str(metadata.get("namespace") or ""), str(metadata.get("name") or "")


def _template_annotations(owner: Json) -> Mapping[str, str]:
    template = (owner.get("spec") or {}).get("template") or {}
    notes: Mapping[str, str] = (template.get("metadata") or {}).get("annotations") or {}
    return notes


def _adopting(owner: Json) -> Json:
    """Return an owner that adopts pods by its selector alone.

    The ReplicaSet of a Deployment would ask for the hash of its template as well. A plan has no rollouts, so that a
    ReplicaSet of the same size takes the place of the Deployment.
    """
    metadata, spec = owner.get("metadata") or {}, owner.get("spec") or {}
    if owner["kind"] != "Deployment":
        return {**owner, "spec": {**spec, "updateStrategy": ON_DELETE}}
    kept = {name: spec[name] for name in ("replicas", "selector", "template", "minReadySeconds") if name in spec}
    # A Deployment adopts ReplicaSets by their labels.
    without = {name: value for name, value in metadata.items() if name != "labels"}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": without, "spec": kept}


def _kept_up(controller: OwnerReference, pods: list[FoundPod], number: str) -> list[Json]:
    """Return pods of one owner that is not taken along, and a ReplicaSet that makes them anew when they are evicted."""
    bodies = [pod.body for pod in pods]
    label = {STANDS_IN: number}
    for body in bodies:
        body["metadata"]["labels"] = {**body["metadata"]["labels"], **label}
    gone = ("nodeName", "activeDeadlineSeconds")
    spec = {name: value for name, value in bodies[0]["spec"].items() if name not in gone}
    template = {
        "metadata": {name: _shared(body["metadata"][name] for body in bodies) for name in ("labels", "annotations")},
        "spec": {**spec, "restartPolicy": "Always"},
    }
    metadata = {"name": f"{controller.kind.lower()}-{controller.name}", "namespace": pods[0].metadata.namespace}
    wanted = {"replicas": len(pods), "selector": {"matchLabels": label}, "template": template}
    return [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": wanted}, *bodies]


def _shared(maps: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return what all of these have in common: an annotation that one pod alone has was not made by its owner."""
    first, *others = maps
    return {name: value for name, value in first.items() if all(each.get(name) == value for each in others)}
