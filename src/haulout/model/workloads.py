"""What owns pods: ReplicaSet, StatefulSet, Deployment, DaemonSet, Job."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from haulout.model.meta import Condition, LabelSelector, ObjectMeta


class ReplicaSpec(Struct, frozen=True, gc=False):
    replicas: int = 1
    selector: LabelSelector | None = None


class ReplicaStatus(Struct, frozen=True, gc=False, rename="camel"):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0


class ReplicaSet(Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class StatefulSet(Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class Deployment(Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class DaemonSetSpec(Struct, frozen=True, gc=False):
    selector: LabelSelector | None = None


class DaemonSetStatus(Struct, frozen=True, gc=False, rename="camel"):
    observed_generation: int = 0
    desired_number_scheduled: int = 0
    current_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0
    number_available: int = 0


class DaemonSet(Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Struct, frozen=True, gc=False):
    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    selector: LabelSelector | None = None


class JobStatus(Struct, frozen=True, gc=False, rename="camel"):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: datetime | None = None
    completion_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
