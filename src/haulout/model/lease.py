"""Structs of Leases."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from haulout.model.meta import ObjectMeta


class LeaseSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a Lease (coordination.k8s.io/v1), in part: who holds it, since when and for how long."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: datetime | None = None
    renew_time: datetime | None = None
    lease_transitions: int | None = None


class Lease(Struct, frozen=True, gc=False):
    """A Lease (coordination.k8s.io/v1), in part: what the `stagger` check, Slack threads and `explain` read."""

    metadata: ObjectMeta = ObjectMeta()
    spec: LeaseSpec = LeaseSpec()
