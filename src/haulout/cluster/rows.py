"""What we keep of the objects that we watch: slim, frozen, comparable."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import ClassVar, NamedTuple

import msgspec

from haulout.cluster.key import Key

NOTHING: Mapping[str, str] = {}


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of the store. Equal rows are equal in every field that a decision can read, their version aside."""

    key: Key
    uid: str = ""
    version: int = 0


class ObjectRow(Row, frozen=True, kw_only=True, gc=False):
    """A Kubernetes object: what every kind has of metadata."""

    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    finalizers: tuple[str, ...] = ()
    created_at: datetime | None = None
    deleting_at: datetime | None = None


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node, as rows keep it and as it is written back."""

    key: str
    effect: str
    value: str = ""
    # An update of the list has to send this back, although no decision reads it.
    added_at: datetime | None = msgspec.field(default=None, name="timeAdded")


class NodeDetails(msgspec.Struct, frozen=True, gc=False):
    """What only few decisions read of a Node. `ready_since`: when its Ready condition last changed.

    `address`: the one by which other hosts reach it, else its name.
    """

    ready_since: datetime | None = None
    address: str = ""
    kernel: str = ""
    capacity: Mapping[str, str] = NOTHING
    allocatable: Mapping[str, str] = NOTHING


class NodeRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """The part of a Node that decisions read. `conditions` are pairs of type and status, without their times."""

    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    provider_id: str = ""
    kubelet_version: str = ""
    boot_id: str = ""
    # Kept only where a source asks for it.
    details: NodeDetails | None = None

    def condition(self, kind: str) -> str | None:
        return next((status for name, status in self.conditions if name == kind), None)

    @property
    def ready(self) -> bool:
        return self.condition("Ready") == "True"


class Owner(msgspec.Struct, frozen=True, gc=False):
    """An owner of an object, from its metadata. `controller` marks the one owner that manages the object."""

    kind: str
    name: str
    uid: str
    controller: bool = False
    api_version: str = ""


class PodDetails(msgspec.Struct, frozen=True, gc=False):
    """What only few decisions read of a Pod: since when it runs, how long it may, and what it may use at most."""

    started_at: datetime | None = None
    deadline_for: int | None = None
    limits: Mapping[str, str] = NOTHING


class PodTraits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What decisions read of a Pod's spec: nothing of it changes while the pod runs, and most pods share it with others.

    `grace_for`: seconds that the pod may take to end.
    `mirror`: the kubelet runs it from a file, so that it cannot be evicted.
    `local_data`: it has an emptyDir volume, whose data are lost when it leaves its node.
    `prefers_operational`: its affinity prefers nodes that need no maintenance.
    `tolerates_cordon`: it names the taint of a cordoned node among its tolerations.
    """

    grace_for: int | None = None
    priority: int = 0
    restart_policy: str = "Always"
    mirror: bool = False
    local_data: bool = False
    prefers_operational: bool = False
    tolerates_cordon: bool = False


class PodRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """The part of a Pod that decisions read.

    `spec`: one object for all pods that have the same. There may be a hundred thousand pods: each field more takes 8 bytes
    of each.
    `ready`: None where the condition is Unknown, so that the pod is neither ready nor known to be not ready.
    `deletion_grace_for`: seconds that the pod may take to end, by its running deletion.
    `trouble`: the reason why the pod is not ready, as the kubelet or the scheduler gives it.
    """

    node: str = ""
    phase: str = ""
    ready: bool | None = False
    owners: tuple[Owner, ...] = ()
    spec: PodTraits = PodTraits()
    deletion_grace_for: int | None = None
    trouble: str = ""
    # Kept only where a source asks for it.
    details: PodDetails | None = None

    @property
    def controller(self) -> Owner | None:
        for owner in self.owners:
            if owner.controller:
                return owner
        return None

    @property
    def ended(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


class BudgetRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """A PodDisruptionBudget, with what its controller last counted."""

    selector: Mapping[str, object] | None = None
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0
    generation: int = 0
    # Evictions that were allowed and that the budget's controller has not seen yet.
    disrupted: frozenset[str] = frozenset()
    unhealthy_policy: str = ""
    # Both as in the spec, for messages; at most one is set.
    min_available: str = ""
    max_unavailable: str = ""


class WorkloadRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """ReplicaSet, Deployment, StatefulSet, DaemonSet, Job: what explains a pod."""

    owners: tuple[Owner, ...] = ()
    replicas: int | None = None
    ready_replicas: int = 0


class NamespaceRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """The part of a Namespace that decisions read. `phase` is Active or Terminating."""

    phase: str = ""


class LeaseRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """The part of a Lease that decisions read. `duration_for` is in seconds."""

    owners: tuple[Owner, ...] = ()
    holder: str | None = None
    duration_for: int | None = None
    acquired_at: datetime | None = None
    renewed_at: datetime | None = None
    transitions: int | None = None


class Value(Row, frozen=True, kw_only=True, gc=False):
    """A row that is no Kubernetes object: configuration, an answer of the outside world, an outcome.

    `failures`: how often in a row the outside world has been asked in vain; each time is news. `settings`: with what.
    `content`: what the receiver of a message said to it.
    """

    value: object = None
    error: str = ""
    state: str = ""
    failures: int = 0
    settings: object = None
    content: object = None


class Connection(Row, frozen=True, kw_only=True, gc=False):
    """The state of the connection to a cluster that is not our own, and what it was opened with.

    `state` is CONNECTING, FINE, the reflector's word for what is wrong, or why the access that is asked for is not used:
    REJECTED for what it would make us do, INVALID for what cannot be understood, ASTRAY where it leads nowhere while the
    one before works. `since`: of the state.
    """

    KIND: ClassVar[str] = "Connection"
    CONNECTING: ClassVar[str] = "connecting"
    FINE: ClassVar[str] = "fine"
    REJECTED: ClassVar[str] = "rejected"
    INVALID: ClassVar[str] = "invalid"
    ASTRAY: ClassVar[str] = "astray"
    UNUSED: ClassVar[tuple[str, ...]] = (REJECTED, INVALID, ASTRAY)

    state: str
    since: datetime | None = None
    error: str = ""
    access: Hashable = None


class Reservation(NamedTuple):
    """One place under a limit that is spoken for before any object shows it."""

    of: Hashable
    group: Hashable
    entity: Key


class ReservingRow(Row, frozen=True, kw_only=True, gc=False):
    """A row that keeps places under limits while it stands."""

    reserves: tuple[Reservation, ...] = ()
