"""The rows: the parts of watched objects that are kept, small, frozen and comparable (decision 0105)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from datetime import datetime
from typing import ClassVar, NamedTuple

import msgspec

from haulout.cluster.key import Key

NOTHING: Mapping[str, str] = {}


class Row(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A row of the store.

    Two rows are equal if every field that a decision can read is equal; the version does not count.
    """

    key: Key
    uid: str = ""
    version: int = 0


class ObjectRow(Row, frozen=True, kw_only=True, gc=False):
    """A row of a Kubernetes object, with the metadata that every kind has."""

    labels: Mapping[str, str] = NOTHING
    annotations: Mapping[str, str] = NOTHING
    finalizers: tuple[str, ...] = ()
    created_at: datetime | None = None
    deleting_at: datetime | None = None


class AskedRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """A row of an object by which people ask for a maintenance. `creator`: the client that created it."""

    creator: str = ""


class LabelAuthor(msgspec.Struct, frozen=True, gc=False):
    """The client that set a label of a Node which asks for a maintenance, and when, as the API server notes it."""

    label: str
    manager: str
    at: datetime | None = None


class Taint(msgspec.Struct, frozen=True, gc=False):
    """A taint of a node, as rows keep it and as it is written back."""

    key: str
    effect: str
    value: str = ""
    # No decision reads it, but a write of the list of taints has to send it back.
    added_at: datetime | None = msgspec.field(default=None, name="timeAdded")


class NodeDetails(msgspec.Struct, frozen=True, gc=False):
    """The part of a Node that only few decisions read.

    `ready_since`: when its Ready condition last changed.
    `address`: the address by which other hosts reach it; without one, its name.
    `addresses`: all its addresses, of any type.
    """

    ready_since: datetime | None = None
    address: str = ""
    addresses: tuple[str, ...] = ()
    kernel: str = ""
    capacity: Mapping[str, str] = NOTHING
    allocatable: Mapping[str, str] = NOTHING


class NodeRow(ObjectRow, frozen=True, kw_only=True, gc=False):
    """The part of a Node that decisions read.

    `cordon_managers`: the clients that wrote its cordon, as the API server notes them. Empty: it is not cordoned, or the
    server does not say.
    `conditions`: pairs of type and status, without their times.
    `cordoned_at`: when the clients wrote the cordon, as the server notes it.
    `authors`: who set labels that ask for a maintenance.
    """

    unschedulable: bool = False
    cordon_managers: tuple[str, ...] = ()
    cordoned_at: datetime | None = None
    authors: tuple[LabelAuthor, ...] = ()
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
    """The part of a Pod that only few decisions read.

    `started_at`: since when it runs. `deadline_for`: how many seconds it may run. `limits`: what it may use at most.
    """

    started_at: datetime | None = None
    deadline_for: int | None = None
    limits: Mapping[str, str] = NOTHING


class PodTraits(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The part of a Pod's spec that decisions read. It does not change while the pod runs, and many pods share it.

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

    There may be a hundred thousand pods, and each further field takes 8 bytes of each.
    `spec`: one object for all pods with equal traits.
    `ready`: None where the condition is Unknown, so that the pod is neither ready nor known to be not ready.
    `deletion_grace_for`: the seconds that the deletion under way gives the pod to end.
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
    """The part of a PodDisruptionBudget that decisions read, with the numbers that its controller last counted."""

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
    """The part of a ReplicaSet, Deployment, StatefulSet, DaemonSet or Job that explanations of pods read."""

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
    """A row that is not a Kubernetes object: configuration, a fact from the outside world, an outcome.

    `failures`: how many probes or messages have failed in a row. Each further failure changes the row.
    `settings`: the settings that they were sent with. `content`: the answer of a message's receiver.
    """

    value: object = None
    error: str = ""
    state: str = ""
    failures: int = 0
    settings: object = None
    content: object = None


class Connection(Row, frozen=True, kw_only=True, gc=False):
    """The state of the connection to a workload cluster, and the access that it was opened with.

    `state`: CONNECTING, FINE, the reflector's word for what is wrong, or why the access that is asked for is not used.
    The last is REJECTED if using it is not allowed, INVALID if it cannot be understood, and ASTRAY if it leads nowhere
    while the access before it still works.
    `since`: since when it is in this state.
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
    """One place under a limit that is taken before any object shows it."""

    of: Hashable
    group: Hashable
    entity: Key


class ReservingRow(Row, frozen=True, kw_only=True, gc=False):
    """A row that reserves places under limits for as long as it exists."""

    reserves: tuple[Reservation, ...] = ()
