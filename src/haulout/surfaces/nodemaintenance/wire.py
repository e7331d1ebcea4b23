"""NodeMaintenance on the wire: its names, the object, and its row."""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from haulout.base.bounds import LONGEST_NAME, TreeBounds, instant, text
from haulout.cluster.project import Resource, bounded_owners
from haulout.cluster.rows import AskedRow, Row
from haulout.cluster.store import Index
from haulout.core import cordon
from haulout.model.meta import Condition, ManagedMeta, ObjectMeta, OwnerReference

GROUP, VERSION, KIND, PLURAL = "nodemaintenance.medik8s.io", "v1beta1", "NodeMaintenance", "nodemaintenances"
API_VERSION = f"{GROUP}/{VERSION}"
FINALIZER = "foregroundDeleteNodeMaintenance"
UNSCHEDULABLE_TAINT = cordon.TAINT
DRAIN_TAINT = cordon.DRAIN_TAINT
EXCLUDE_LABEL = "remediation.medik8s.io/exclude-from-remediation"
LEASE_NAMESPACE = "medik8s-leases"
LEASE_HOLDER = "node-maintenance"
SEEN_ANNOTATION = "haulout.dev/seen"
REPORTER = "NodeMaintenance"
CONTROL_PLANE_LABELS = ("node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane")
RUNNING, SUCCEEDED, FAILED = "Running", "Succeeded", "Failed"
# The longest texts that are kept, as in the definition, and the most pods that a status names. The original has no
# limits. What the operator writes is within them: otherwise it would find its own status changed.
LONGEST_REASON, LONGEST_ERROR, LONGEST_MESSAGE = 4096, 65_536, 1024
MOST_PODS = 500
BOUNDS = TreeBounds(longest=LONGEST_ERROR, characters=1 << 21)


class DrainSpec(Struct, frozen=True, rename="camel"):
    """The drain settings of a NodeMaintenance. A missing one gets the process's default."""

    force: bool | None = None
    delete_empty_dir_data: bool | None = None
    ignore_daemon_sets: bool | None = None
    grace_period_seconds: int | None = None
    timeout_seconds: int | None = None
    pod_selector: str | None = None
    disable_eviction: bool | None = None
    skip_wait_for_delete_timeout_seconds: int | None = None
    retry_interval_seconds: int | None = None
    deadline_seconds: int | None = None
    deadline_action: str | None = None
    dry_run: bool | None = None
    restore_node_state: bool | None = None


class Spec(Struct, frozen=True, rename="camel"):
    """The spec of a NodeMaintenance: its node, the reason for the maintenance, and how the node is drained."""

    node_name: str = ""
    reason: str = ""
    drain: DrainSpec = DrainSpec()


class PodReference(Struct, frozen=True):
    """A pod in the status of a NodeMaintenance that has not left its node yet."""

    namespace: str = ""
    name: str = ""


class BlockedPod(Struct, frozen=True):
    """A pod in the status of a NodeMaintenance that cannot leave its node.

    `reason`: a code for what keeps it. `message`: the same in words. `since`: when that began.
    """

    namespace: str = ""
    name: str = ""
    reason: str = ""
    message: str = ""
    since: datetime | None = None


class Status(Struct, frozen=True, rename="camel", omit_defaults=True):
    """The status of a NodeMaintenance.

    On the wire, zero and empty values are left out, and an absent one counts as zero. The name `totalpods` is spelled
    like that.
    """

    phase: str = ""
    drain_progress: int = 0
    last_update: datetime | None = None
    last_error: str = ""
    pending_pods: tuple[str, ...] = ()
    pending_pods_refs: tuple[PodReference, ...] = ()
    total_pods: int = msgspec.field(default=0, name="totalpods")
    eviction_pods: int = 0
    error_on_lease_count: int = 0
    conditions: tuple[Condition, ...] = ()
    blocked_pods: tuple[BlockedPod, ...] = ()
    observed_generation: int = 0


class NodeMaintenance(Struct, frozen=True):
    """A NodeMaintenance (nodemaintenance.medik8s.io/v1beta1): the request to drain one node and keep it cordoned."""

    metadata: ManagedMeta = ManagedMeta()
    spec: Spec | None = None
    status: Status = Status()


class MaintenanceRow(AskedRow, frozen=True, kw_only=True):
    """The row of a NodeMaintenance.

    `seen`: a digest of everything that people edit. When it changes, the maintenance is tried again at once.
    """

    node: str = ""
    reason: str = ""
    drain: DrainSpec = DrainSpec()
    status: Status = Status()
    owners: tuple[OwnerReference, ...] = ()
    seen: str = ""
    generation: int = 0


def _project(obj: NodeMaintenance, common: dict[str, Any]) -> MaintenanceRow:
    spec = obj.spec or Spec()
    return MaintenanceRow(
        **common,
        creator=obj.metadata.creator,
        node=text(spec.node_name, LONGEST_NAME),
        reason=text(spec.reason, LONGEST_REASON),
        drain=spec.drain,
        status=_bounded(obj.status),
        owners=bounded_owners(obj.metadata.owner_references),
        seen=_seen(obj.metadata),
        generation=obj.metadata.generation,
    )


def _bounded(status: Status) -> Status:
    """Return the status with its times clamped, because people can write them and deadlines are counted from them."""
    conditions = tuple(
        msgspec.structs.replace(each, last_transition_time=instant(each.last_transition_time))
        for each in status.conditions
    )
    blocked = tuple(msgspec.structs.replace(each, since=instant(each.since)) for each in status.blocked_pods)
    last = instant(status.last_update)
    return msgspec.structs.replace(status, conditions=conditions, blocked_pods=blocked, last_update=last)


def _seen(metadata: ObjectMeta) -> str:
    content = (metadata.generation, sorted(metadata.labels.items()), sorted(metadata.annotations.items()))
    return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]


RESOURCE = Resource(KIND, f"/apis/{API_VERSION}", PLURAL, False, NodeMaintenance, _project, bounds=BOUNDS)


def _node_of(row: Row) -> tuple[str, ...]:
    return (row.node,) if isinstance(row, MaintenanceRow) and row.node else ()


MAINTENANCES_OF_NODE = Index("maintenances-of-node", KIND, _node_of)


def lease_name(node: str) -> str:
    return f"node-{node}".lower()
