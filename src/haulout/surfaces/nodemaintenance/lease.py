"""The node lease: a mutex for each node between all operators that take nodes out of service or remediate them."""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum

from haulout.cluster.key import Key
from haulout.cluster.project import within
from haulout.cluster.rows import LeaseRow, NodeRow
from haulout.core.action import Create, Patch, Write
from haulout.model.meta import wire_micro_time
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.wire import LEASE_HOLDER, SEEN_ANNOTATION, lease_name

Json = dict[str, object]


class Holder(Enum):
    """The holder of a node's Lease.

    `FREE`: there is no Lease, or another holder's Lease has expired.
    """

    OURS = "ours"
    FREE = "free"
    ANOTHER = "another"


def lease_key(node: str, options: Options) -> Key:
    return Key("", within("Lease", options.lease_namespace), options.lease_namespace, lease_name(node))


def outcome_name(node: str, lease: LeaseRow | None) -> str:
    """Return the name of the outcome of a refused lease request. Creation and renewal have different names."""
    return f"nodemaintenance/{'lease' if lease is None else 'renewal'}/{node}"


def namespace_outcome(node: str) -> str:
    """Return the name of the outcome of creating the leases' namespace for this node's lease."""
    return f"nodemaintenance/lease-namespace/{node}"


def holder(lease: LeaseRow | None, now: datetime) -> Holder:
    if lease is None:
        return Holder.FREE
    if lease.holder == LEASE_HOLDER:
        return Holder.OURS
    return Holder.ANOTHER if is_valid(lease, now) else Holder.FREE


def is_valid(lease: LeaseRow, now: datetime) -> bool:
    """Whether the lease is in force. A lease with a renewal time in the future is not."""
    due_at = expires_at(lease)
    return due_at is not None and lease.renewed_at is not None and due_at >= now >= lease.renewed_at


def expires_at(lease: LeaseRow) -> datetime | None:
    if lease.renewed_at is None or not lease.duration_for:
        return None
    return lease.renewed_at + timedelta(seconds=lease.duration_for)


def renew_at(lease: LeaseRow, node: NodeRow, options: Options, seen: str) -> datetime | None:
    """Return when to renew our lease, which is after a third of its duration; None if it must be renewed now."""
    for owner in lease.owners:
        # The owner is a former node of the same name, so the garbage collector will delete the lease.
        if owner.kind == "Node" and owner.uid != node.uid:
            return None
    if lease.renewed_at is None or not lease.duration_for or lease.annotations.get(SEEN_ANNOTATION) != seen:
        return None
    if lease.duration_for != options.lease_seconds or lease.acquired_at is None:
        return None
    return lease.renewed_at + options.renewal_for


def is_due(lease: LeaseRow, node: NodeRow, options: Options, seen: str, now: datetime) -> bool:
    """Whether the lease has to be taken or renewed now."""
    again_at = renew_at(lease, node, options, seen) if lease.holder == LEASE_HOLDER else None
    return again_at is None or now >= again_at


def request(lease: LeaseRow | None, node: NodeRow, options: Options, seen: str, now: datetime) -> Write:
    """Return the write that takes or renews the lease. The caller has checked that no other holder has it."""
    key, name = lease_key(node.key.name, options), outcome_name(node.key.name, lease)
    stamp = wire_micro_time(now)
    spec: Json = {"holderIdentity": LEASE_HOLDER, "leaseDurationSeconds": options.lease_seconds, "renewTime": stamp}
    owners = [{"apiVersion": "v1", "kind": "Node", "name": node.key.name, "uid": node.uid}]
    metadata: Json = {"ownerReferences": owners, "annotations": {SEEN_ANNOTATION: seen}}
    if lease is None:
        metadata |= {"name": key.name, "namespace": key.namespace}
        spec |= {"acquireTime": stamp, "leaseTransitions": 0}
        body: Json = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        return Create(key, body, name)
    if _is_taken_over(lease):
        spec |= {"acquireTime": stamp, "leaseTransitions": (lease.transitions or 0) + 1}
    return Patch(key, {"metadata": metadata, "spec": spec}, outcome=name)


def _is_taken_over(lease: LeaseRow) -> bool:
    if lease.holder != LEASE_HOLDER or lease.acquired_at is None:
        return True
    return lease.renewed_at is None or lease.duration_for is None


def held_by_another(lease: LeaseRow) -> str:
    holder = lease.holder or "unknown"
    return f"can't update or invalidate the lease because it is held by different owner: {holder}"
