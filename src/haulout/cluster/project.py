"""Turns decoded objects into rows: the kinds that can be watched, and what is kept of each."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from itertools import chain, islice
from sys import getsizeof
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from haulout.base.bounds import LEFT_OUT, LONGEST_NAME, ORDINARY, TreeBounds, instant, is_within, seconds, text, trim
from haulout.base.number import digits
from haulout.base.small_cache import small_cache
from haulout.cluster.key import Key
from haulout.cluster.rows import (
    NOTHING,
    BudgetRow,
    LabelAuthor,
    LeaseRow,
    NamespaceRow,
    NodeDetails,
    NodeRow,
    ObjectRow,
    Owner,
    PodDetails,
    PodRow,
    PodTraits,
    Taint,
    WorkloadRow,
)
from haulout.model.lease import Lease
from haulout.model.meta import FIELD_MANAGER, ConditionState, ObjectMeta, OwnerReference, PartialObject
from haulout.model.namespace import Namespace
from haulout.model.node import REQUEST_LABELS, ManagedFields, Node
from haulout.model.pod import NodeRequirement, Pod
from haulout.model.policy import PodDisruptionBudget
from haulout.model.workloads import DaemonSet, Deployment, Job, ReplicaSet, StatefulSet

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
CORDON_TAINT = "node.kubernetes.io/unschedulable"
# The node affinity by which pods ask for nodes that need no maintenance, so that they are not moved twice
# (sapcc/maintenance-controller, plugin/impl/affinity.go).
OPERATIONAL_NODE = NodeRequirement("cloud.sap/maintenance-state", "In", ("operational",))
_PLAIN = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9._]*[A-Za-z0-9])?")
# Characters that have to be escaped in the value of a field selector (apimachinery, pkg/fields).
_ESCAPED = str.maketrans({mark: f"\\{mark}" for mark in "\\,="})
# Kubelets write the boot ID, and surfaces copy it into statuses of all nodes, so its length is limited. A real one has
# 36 characters.
# A resource version is a number of 64 bits.
MOST_VERSION_DIGITS = 20
LONGEST_ADDRESS, MOST_ADDRESSES = 256, 32
LONGEST_BOOT_ID = 128
# Other texts of a kubelet: versions, amounts, and conditions with their reasons; and the ID of a cloud's instance.
LONGEST_WORD, LONGEST_PROVIDER_ID = 256, 1024
# An amount may have 400 digits, as many as are read of a number.
LONGEST_AMOUNT = 512
MOST_CONDITIONS, MOST_AMOUNTS, MOST_TAINTS = 128, 256, 256
MOST_FINALIZERS, MOST_OWNERS = 64, 64
# The memory that the labels and annotations of one row may take. Nodes may have some hundred labels, which hardware
# tools set, and annotations with the state of all packages. With the most annotations, 5,000 Nodes take 380 MiB. Of a
# pod, annotations with single words are read.
NODE_LABEL_ROOM, LABEL_ROOM = 128 * 1024, 16 * 1024
ANNOTATION_ROOM, POD_ANNOTATION_ROOM = 48 * 1024, 1024
# What a map takes for each entry, beside the texts.
ENTRY_SIZE = 64
# So few labels need not be measured, because the API server limits the length of each.
FEW_LABELS = 64
# So many labels or annotations are looked at. Of annotations that are left out, so many are still known by name.
MOST_ENTRIES, MOST_LEFT_OUT = 2000, 100
# The longest key of a label or annotation: a prefix, a slash and a name.
LONGEST_KEY = LONGEST_NAME + 64
# The API server limits each name to 128 characters, but not their number.
MOST_MANAGERS = 8
# With so many bytes the label sets kept for sharing are forgotten, so that only later pods share theirs. That is enough for
# 50,000 usual sets. What is kept outlasts its pods, and one pod may have a MiB of labels.
MOST_SHARED_BYTES, BYTES_PER_LABEL, MOST_SHARED_LABELS = 40_000_000, 100, 32
# Where every pod has a Job of its own, sharing owners saves nothing. This limits its cost to 4 MiB.
MOST_SHARED_OWNERS = 10_000
# An object with more owners, or a pod with more sorts of limits, shares none with others.
MOST_SHARED_OWNERS_EACH, MOST_LIMITS = 4, 16
_OWNER_BOUNDS = TreeBounds(longest=LONGEST_NAME)
_OWNER_LEFT_OUT = OwnerReference(LEFT_OUT, LEFT_OUT, LEFT_OUT)
# The condition Ready of a pod, by its status. None stands for Unknown.
READINESS = {"True": True, "Unknown": None}
# The pods of a ReplicaSet are created within the same few seconds, so that instants repeat.
shared_instant = lru_cache(4096)(instant)


class Keep(msgspec.Struct, frozen=True):
    """The parts of a kind's objects that surfaces declare to read, beyond what a row always has.

    `annotations`: the names of annotations. `all_annotations`: every annotation is kept.
    `details`: the details of Nodes and Pods are kept.
    `only_labels`: where it is set, the row has only these labels and nothing of the object's spec and status.
    `most`: with more objects than that, the table counts as unreadable; 0: there is no limit.
    """

    annotations: frozenset[str] = frozenset()
    details: bool = False
    all_annotations: bool = False
    only_labels: frozenset[str] | None = None
    most: int = 0

    def __or__(self, other: Keep) -> Keep:
        has_all_labels = self.only_labels is None or other.only_labels is None
        return Keep(
            self.annotations | other.annotations,
            self.details or other.details,
            self.all_annotations or other.all_annotations,
            None if has_all_labels else (self.only_labels or frozenset()) | (other.only_labels or frozenset()),
            max(self.most, other.most) if self.most and other.most else 0,
        )


# Annotations by which people steer the work on any object. They are kept of every kind.
OF_PEOPLE = frozenset({"haulout.dev/paused", "haulout.dev/paused-by", "haulout.dev/override"})
Project = Callable[[Any, dict[str, Any]], ObjectRow]
T = TypeVar("T")


def within(kind: str, namespace: str) -> str:
    """Return the name of a kind that is watched in one namespace only. It has a table of its own."""
    return f"{kind}/{namespace}"


def kind_of_one(kind: str, namespace: str, name: str) -> str:
    """Return the name of a kind of which one object only is watched. It has a table of its own."""
    return f"{kind}/{namespace}/{name}"


class Resource(msgspec.Struct, frozen=True):
    """A kind that can be watched: where it is served, what is decoded of it, and how that becomes a row.

    `namespace`, `name`: only this namespace or object is watched (see `within` and `kind_of_one`).
    `labels`: a label selector; only objects that match it are watched.
    `versions`: the path prefixes under which the kind may be served, the best first. While the server has none of them,
    the table is not listed.
    `optional`: the operator works without the right to read it.
    `bounds`: how much is kept of an object beside its metadata. None: `project` itself bounds what it keeps.
    `label_room`, `annotation_room`: the memory that its labels and annotations may take.
    """

    kind: str
    prefix: str
    plural: str
    namespaced: bool
    model: type[Any]
    project: Project
    namespace: str = ""
    name: str = ""
    labels: str = ""
    versions: tuple[str, ...] = ()
    optional: bool = False
    bounds: TreeBounds | None = ORDINARY
    label_room: int = LABEL_ROOM
    annotation_room: int = ANNOTATION_ROOM

    def within(self, namespace: str, name: str = "") -> Resource:
        kind = kind_of_one(self.kind, namespace, name) if name else within(self.kind, namespace)
        return msgspec.structs.replace(self, kind=kind, namespace=namespace, name=name)

    def served_at(self, prefix: str) -> Resource:
        return msgspec.structs.replace(self, prefix=prefix)

    @property
    def fields(self) -> str:
        """Return the field selector that picks the object where only one object is watched."""
        return field_equals("metadata.name", self.name) if self.name else ""

    @property
    def path(self) -> str:
        return self.collection_path(self.namespace) if self.namespace else f"{self.prefix}/{self.plural}"

    def object_path(self, key: Key) -> str:
        place = f"namespaces/{_segment(key.namespace)}/" if self.namespaced else ""
        return f"{self.prefix}/{place}{self.plural}/{_segment(key.name)}"

    def collection_path(self, namespace: str) -> str:
        return f"{self.prefix}/namespaces/{_segment(namespace)}/{self.plural}" if self.namespaced else self.path

    @property
    def api_version(self) -> str:
        return self.prefix.removeprefix("/apis/").removeprefix("/api/")


def _segment(name: str) -> str:
    """Return a name as one segment of a path, whatever characters it has. Users write names of objects in other objects."""
    if _PLAIN.fullmatch(name):
        return name
    # A URL with one of these segments means another path. No object can have such a name, and none is named `%`.
    return quote("%" if name in (".", "..") else name, safe="", errors="replace")


def field_equals(field: str, value: str) -> str:
    """Return the field selector for one value, whatever characters it has."""
    return f"{field}={value.translate(_ESCAPED)}"


class Projector:
    """Turns objects of one kind in one cluster into rows. Equal parts of rows are one object, to save memory.

    Every row is bounded, whatever its object has. `left_out`: why the last row is not all of its object; empty if it is.
    """

    def __init__(self, resource: Resource, cluster: str, keep: Keep) -> None:
        self.resource = resource
        self.cluster = cluster
        self._keep = keep.annotations
        self._details = DETAILS.get(resource.kind) if keep.details else None
        self._keeps_all = keep.all_annotations
        self._only_labels = keep.only_labels
        self._bare_row = BARE_ROWS.get(resource.kind) if keep.only_labels is not None else None
        self.most = keep.most
        self.left_out = ""
        # The pods of one ReplicaSet have the same labels. The labels of other objects differ. What is kept for sharing
        # outlasts its object: after a start that writes a label to each Node, there would be a second set of labels for
        # each.
        self._shared: dict[int, Mapping[str, str]] | None = {} if resource.kind == "Pod" else None
        self._shared_bytes = 0

    def key(self, metadata: ObjectMeta) -> Key:
        return Key(self.cluster, self.resource.kind, sys.intern(metadata.namespace), metadata.name)

    def row(self, obj: Any) -> ObjectRow:
        common = self._common(obj.metadata)
        if self._bare_row is not None:
            return self._bare_row(**common)
        row = self.resource.project(self._bounded(obj), common)
        return row if self._details is None else msgspec.structs.replace(row, details=self._details(obj))

    def metadata(self, obj: PartialObject) -> ObjectRow:
        return ObjectRow(**self._common(obj.metadata))

    def _bounded(self, obj: Any) -> Any:
        """Return an object without what is beyond the bounds of its kind. Its metadata are bounded by `_common`."""
        bounds = self.resource.bounds
        if bounds is None:
            return obj
        parts = {name: getattr(obj, name) for name in obj.__struct_fields__ if name != "metadata"}
        if is_within(parts, bounds):
            return obj
        self.left_out = "its texts are too long, or too many"
        return msgspec.structs.replace(obj, **trim(parts, bounds))

    def _common(self, metadata: ObjectMeta) -> dict[str, Any]:
        self.left_out = ""
        return {
            "key": self.key(metadata),
            "uid": metadata.uid,
            "version": version_number(metadata.resource_version),
            "labels": self._share(self._labels(metadata.labels)) if metadata.labels else NOTHING,
            "annotations": (self._annotations(metadata.annotations) or NOTHING) if metadata.annotations else NOTHING,
            "finalizers": _some(metadata.finalizers, MOST_FINALIZERS, LEFT_OUT) if self._only_labels is None else (),
            "created_at": shared_instant(metadata.creation_timestamp),
            "deleting_at": instant(metadata.deletion_timestamp),
        }

    def _labels(self, found: dict[str, str]) -> dict[str, str]:
        wanted = self._only_labels
        if wanted is not None:
            return {name: value for name, value in found.items() if name in wanted}
        room = self.resource.label_room
        if len(found) <= FEW_LABELS or (len(found) <= MOST_ENTRIES and _memory(found) <= room):
            return found
        self.left_out = f"it has {len(found)} labels, and they take more than {room // 1024} KiB of memory"
        return {**_fitting(islice(found.items(), MOST_ENTRIES), room), LEFT_OUT: ""}

    def _annotations(self, found: dict[str, str]) -> dict[str, str]:
        if not self._keeps_all:
            found = {name: value for name, value in found.items() if name in self._keep or name in OF_PEOPLE}
        room = self.resource.annotation_room
        if not found or (len(found) <= MOST_ENTRIES and _memory(found) <= room):
            return found
        kept = _fitting(sorted(islice(found.items(), MOST_ENTRIES), key=_entry_size), room)
        missing = [text(name, LONGEST_KEY) for name in islice(found, MOST_ENTRIES) if name not in kept]
        self.left_out = (
            f"it has {len(found)} annotations that are read, and they take more than {room // 1024} KiB of memory; "
            f"left out: {text(', '.join(missing), 300)}"
        )
        return kept | dict.fromkeys(missing[:MOST_LEFT_OUT], LEFT_OUT)

    def _share(self, labels: dict[str, str]) -> Mapping[str, str]:
        """Return the kept mapping that is equal to these labels, and keep them if there is none."""
        if not labels:
            return NOTHING
        if self._shared is None or len(labels) > MOST_SHARED_LABELS:
            return labels
        # They are found by their hash: keeping them as a key, too, would double their memory.
        content = hash(tuple(labels.items()))
        found = self._shared.get(content)
        if found is None:
            size = sum(len(name) + len(text) + BYTES_PER_LABEL for name, text in labels.items())
            self._shared_bytes += size
            if self._shared_bytes > MOST_SHARED_BYTES:
                self._shared.clear()
                self._shared_bytes = size
            found = self._shared[content] = labels
        return found if found == labels else labels


def _memory(texts: Mapping[str, str]) -> int:
    """Return the memory of texts and their names. It counts, not the length: a rare character makes a text larger."""
    return sum(map(getsizeof, chain(texts, texts.values()))) + len(texts) * ENTRY_SIZE


def _entry_size(entry: tuple[str, str]) -> int:
    return getsizeof(entry[0]) + getsizeof(entry[1]) + ENTRY_SIZE


def _fitting(entries: Iterable[tuple[str, str]], room: int) -> dict[str, str]:
    """Return the first entries that fit into this memory together."""
    kept: dict[str, str] = {}
    for entry in entries:
        room -= _entry_size(entry)
        if room < 0:
            break
        kept[entry[0]] = entry[1]
    return kept


def _some(members: tuple[T, ...], most: int, mark: T) -> tuple[T, ...]:
    """Return the members of a list. With too many, the last one is a mark with which the API server accepts no list.

    So a list that is not known as a whole is never written back.
    """
    return members if len(members) <= most else (*members[: most - 1], mark)


def version_number(version: str) -> int:
    """Return a resource version as a number.

    Those of one kind can be compared, which Kubernetes guarantees since 1.35.
    """
    return digits(version, MOST_VERSION_DIGITS) or 0


def _owners(metadata: ObjectMeta) -> tuple[Owner, ...]:
    return _shared_owners(bounded_owners(metadata.owner_references))


def bounded_owners(references: tuple[OwnerReference, ...]) -> tuple[OwnerReference, ...]:
    """Return the owners of an object with texts of bounded lengths. The API server limits neither these nor their number."""
    for each in references:
        if len(each.name) > LONGEST_NAME or len(each.api_version) + len(each.kind) + len(each.uid) > LONGEST_NAME:
            break
    else:
        return _some(references, MOST_OWNERS, _OWNER_LEFT_OUT)
    return tuple(trim(each, _OWNER_BOUNDS) for each in _some(references, MOST_OWNERS, _OWNER_LEFT_OUT))


@small_cache(MOST_SHARED_OWNERS, lambda references: len(references) <= MOST_SHARED_OWNERS_EACH)
def _shared_owners(references: tuple[OwnerReference, ...]) -> tuple[Owner, ...]:
    """Return the owners of an object. Equal ones, as of the pods of one ReplicaSet, are one object."""
    return tuple(
        Owner(
            sys.intern(owner.kind),
            sys.intern(owner.name),
            sys.intern(owner.uid),
            bool(owner.controller),
            sys.intern(owner.api_version),
        )
        for owner in references
    )


def _node(obj: Node, common: dict[str, Any]) -> NodeRow:
    return NodeRow(
        **common,
        unschedulable=obj.spec.unschedulable,
        cordon_managers=_cordon_managers(obj.metadata.managed_fields) if obj.spec.unschedulable else (),
        cordoned_at=_cordoned_at(obj.metadata.managed_fields) if obj.spec.unschedulable else None,
        authors=_authors(obj.metadata.managed_fields),
        taints=_some(
            tuple([Taint(taint.key, taint.effect, taint.value, taint.time_added) for taint in obj.spec.taints]),
            *(MOST_TAINTS, Taint(LEFT_OUT, LEFT_OUT)),
        ),
        conditions=_shared_conditions(
            tuple([(_word(kind.type), _word(kind.status)) for kind in obj.status.conditions[:MOST_CONDITIONS]])
        ),
        provider_id=text(obj.spec.provider_id, LONGEST_PROVIDER_ID),
        kubelet_version=_word(obj.status.node_info.kubelet_version),
        boot_id=obj.status.node_info.boot_id[:LONGEST_BOOT_ID],
    )


def _word(found: str) -> str:
    """Return a short text that many objects have."""
    return sys.intern(text(found, LONGEST_WORD))


def _cordon_managers(managed: Iterable[ManagedFields]) -> tuple[str, ...]:
    """Return the clients that wrote the cordon. Usually it is one; appliers of the same value own it together."""
    owners = {each.manager for each in managed if each.fields.spec.unschedulable is not msgspec.UNSET}
    return tuple(map(sys.intern, sorted(owners)[:MOST_MANAGERS]))


def _foreign(managed: Iterable[ManagedFields]) -> Iterator[ManagedFields]:
    """Yield what clients other than the operator have written. Each write of ours would change the time of ours."""
    return (each for each in managed if each.manager != FIELD_MANAGER)


def _cordoned_at(managed: Iterable[ManagedFields]) -> datetime | None:
    """Return when another client wrote the cordon."""
    owners = [each for each in _foreign(managed) if each.fields.spec.unschedulable is not msgspec.UNSET]
    return _instant(owners[0].time) if owners else None


def _authors(managed: Iterable[ManagedFields]) -> tuple[LabelAuthor, ...]:
    """Return who set the labels that ask for a maintenance. Most Nodes have none."""
    found = [
        LabelAuthor(name.removeprefix("f:"), text(each.manager, LONGEST_WORD), _instant(each.time))
        for each in _foreign(managed)
        for field, name in REQUEST_LABELS.items()
        if getattr(each.fields.metadata.labels, field) is not msgspec.UNSET
    ]
    return tuple(found[:MOST_MANAGERS])


# Only a few are kept, because kubelets write them and they may be long.
@lru_cache(16)
def _shared_conditions(conditions: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """Return the conditions of a node. Equal ones are one object, because most nodes have the same."""
    return conditions


def _readiness(conditions: Iterable[ConditionState]) -> bool | None:
    for each in conditions:
        if each.type == "Ready":
            return READINESS.get(each.status, False)
    return False


def _trouble(obj: Pod) -> str:
    """Return in one word what a container waits for, or why the pod has no node."""
    waiting = (container.state.waiting for container in obj.status.container_statuses if not container.ready)
    words = [each.reason for each in waiting if each is not None and each.reason]
    unmet = [kind.reason for kind in obj.status.conditions if kind.type == "PodScheduled" and kind.status == "False"]
    return _word(next((word for word in (*words, *unmet) if word), obj.status.reason))


def _pod(obj: Pod, common: dict[str, Any]) -> PodRow:
    ready = _readiness(obj.status.conditions)
    spec = obj.spec
    return PodRow(
        **common,
        node=sys.intern(spec.node_name),
        phase=_word(obj.status.phase),
        ready=ready,
        trouble="" if ready else _trouble(obj),
        owners=_owners(obj.metadata),
        spec=_shared_traits(
            seconds(spec.termination_grace_period_seconds),
            spec.priority,
            spec.restart_policy,
            MIRROR_ANNOTATION in obj.metadata.annotations,
            spec.has_empty_dir,
            OPERATIONAL_NODE in spec.preferences,
            bool(spec.tolerations) and any(each.key == CORDON_TAINT for each in spec.tolerations),
        ),
        deletion_grace_for=seconds(obj.metadata.deletion_grace_period_seconds),
    )


@lru_cache(1024)
def _shared_traits(
    grace_for: int | None,
    priority: int,
    restart_policy: str,
    mirror: bool,
    local_data: bool,
    prefers_operational: bool,
    tolerates_cordon: bool,
) -> PodTraits:
    """Return the traits of a pod. Equal ones are one object, because there are few sorts of pods."""
    return PodTraits(
        grace_for=grace_for,
        priority=priority,
        restart_policy=restart_policy,
        mirror=mirror,
        local_data=local_data,
        prefers_operational=prefers_operational,
        tolerates_cordon=tolerates_cordon,
    )


def _text(value: int | str | None) -> str:
    return "" if value is None else str(value)


def _budget(obj: PodDisruptionBudget, common: dict[str, Any]) -> BudgetRow:
    return BudgetRow(
        **common,
        selector=msgspec.to_builtins(obj.spec.selector) if obj.spec.selector is not None else None,
        disruptions_allowed=obj.status.disruptions_allowed,
        current_healthy=obj.status.current_healthy,
        desired_healthy=obj.status.desired_healthy,
        expected_pods=obj.status.expected_pods,
        observed_generation=obj.status.observed_generation,
        generation=obj.metadata.generation,
        disrupted=frozenset(obj.status.disrupted_pods),
        unhealthy_policy=sys.intern(obj.spec.unhealthy_pod_eviction_policy),
        min_available=_text(obj.spec.min_available),
        max_unavailable=_text(obj.spec.max_unavailable),
    )


def _replicas(obj: ReplicaSet | StatefulSet | Deployment, common: dict[str, Any]) -> WorkloadRow:
    return WorkloadRow(
        **common, owners=_owners(obj.metadata), replicas=obj.spec.replicas, ready_replicas=obj.status.ready_replicas
    )


def _daemons(obj: DaemonSet, common: dict[str, Any]) -> WorkloadRow:
    status = obj.status
    return WorkloadRow(
        **common,
        owners=_owners(obj.metadata),
        replicas=status.desired_number_scheduled,
        ready_replicas=status.number_ready,
    )


def _job(obj: Job, common: dict[str, Any]) -> WorkloadRow:
    return WorkloadRow(
        **common, owners=_owners(obj.metadata), replicas=obj.spec.parallelism, ready_replicas=obj.status.active
    )


def _namespace(obj: Namespace, common: dict[str, Any]) -> NamespaceRow:
    return NamespaceRow(**common, phase=obj.status.phase)


def _lease(obj: Lease, common: dict[str, Any]) -> LeaseRow:
    return LeaseRow(
        **common,
        owners=_owners(obj.metadata),
        holder=obj.spec.holder_identity,
        duration_for=seconds(obj.spec.lease_duration_seconds),
        acquired_at=instant(obj.spec.acquire_time),
        renewed_at=instant(obj.spec.renew_time),
        transitions=obj.spec.lease_transitions,
    )


RESOURCES: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        Resource("Node", "/api/v1", "nodes", False, Node, _node, bounds=None, label_room=NODE_LABEL_ROOM),
        Resource("Pod", "/api/v1", "pods", True, Pod, _pod, bounds=None, annotation_room=POD_ANNOTATION_ROOM),
        Resource("Namespace", "/api/v1", "namespaces", False, Namespace, _namespace),
        Resource("PodDisruptionBudget", "/apis/policy/v1", "poddisruptionbudgets", True, PodDisruptionBudget, _budget),
        Resource("ReplicaSet", "/apis/apps/v1", "replicasets", True, ReplicaSet, _replicas),
        Resource("Deployment", "/apis/apps/v1", "deployments", True, Deployment, _replicas),
        Resource("StatefulSet", "/apis/apps/v1", "statefulsets", True, StatefulSet, _replicas),
        Resource("DaemonSet", "/apis/apps/v1", "daemonsets", True, DaemonSet, _daemons),
        Resource("Job", "/apis/batch/v1", "jobs", True, Job, _job),
        Resource("Lease", "/apis/coordination.k8s.io/v1", "leases", True, Lease, _lease),
    )
}


def _node_details(obj: Node) -> NodeDetails:
    ready = next((each.last_transition_time for each in obj.status.conditions if each.type == "Ready"), None)
    addresses = {each.type: each.address for each in reversed(obj.status.addresses)}
    return NodeDetails(
        ready_since=_instant(ready),
        address=(addresses.get("InternalIP") or addresses.get("Hostname") or obj.metadata.name)[:LONGEST_ADDRESS],
        addresses=tuple([each.address[:LONGEST_ADDRESS] for each in obj.status.addresses[:MOST_ADDRESSES]]),
        kernel=_word(obj.status.node_info.kernel_version),
        capacity=_shared_amounts(_amounts(obj.status.capacity)),
        allocatable=_shared_amounts(_amounts(obj.status.allocatable)),
    )


def _amounts(found: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple([(_word(name), text(amount, LONGEST_AMOUNT)) for name, amount in islice(found.items(), MOST_AMOUNTS)])


def _pod_details(obj: Pod) -> PodDetails:
    limits: dict[str, str] = {}
    for container in obj.spec.containers:
        for name, amount in container.resources.limits.items():
            # Devices are counted in whole numbers, which is all that is added up here.
            more = str(amount)
            known, added = digits(limits.get(name, "0")), digits(more)
            limits[name] = more if known is None or added is None else str(known + added)
    deadline_for = seconds(obj.spec.active_deadline_seconds)
    return _shared_details(_instant(obj.status.start_time), deadline_for, _amounts(limits))


@small_cache(4096, lambda started_at, deadline_for, limits: len(limits) <= MOST_LIMITS)
def _shared_details(
    started_at: datetime | None, deadline_for: int | None, limits: tuple[tuple[str, str], ...]
) -> PodDetails:
    """Return the details of a pod. Equal ones are one object, because the pods of a ReplicaSet start together."""
    return PodDetails(started_at, deadline_for, _shared_amounts(limits) if limits else NOTHING)


@small_cache(1024, lambda amounts: len(amounts) <= MOST_LIMITS)
def _shared_amounts(amounts: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return amounts by resource. Equal ones are one object for all pods and nodes."""
    return {sys.intern(name): amount for name, amount in amounts}


def _instant(text: str | None) -> datetime | None:
    """Return the instant that a text means; None where it cannot be read."""
    try:
        return shared_instant(datetime.fromisoformat(text)) if text else None
    except ValueError:
        return None


# The rows of kinds of which surfaces read only metadata in other clusters.
BARE_ROWS: Mapping[str, type[ObjectRow]] = {"Node": NodeRow}
DETAILS: Mapping[str, Callable[[Any], NodeDetails | PodDetails]] = {"Node": _node_details, "Pod": _pod_details}
