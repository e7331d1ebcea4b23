"""Structs of the workloads that own pods: ReplicaSet, StatefulSet, Deployment, DaemonSet, Job."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from haulout.model.meta import Condition, LabelSelector, ObjectMeta


class ReplicaSpec(Struct, frozen=True, gc=False):
    """The spec that ReplicaSets, StatefulSets and Deployments (apps/v1) have in common, in part."""

    replicas: int = 1
    selector: LabelSelector | None = None


class ReplicaStatus(Struct, frozen=True, gc=False, rename="camel"):
    """The status that ReplicaSets, StatefulSets and Deployments (apps/v1) have in common, in part."""

    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0


class ReplicaSet(Struct, frozen=True, gc=False):
    """A ReplicaSet (apps/v1), in part: how many pods it wants and how many are ready."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class StatefulSet(Struct, frozen=True, gc=False):
    """A StatefulSet (apps/v1), in part: how many pods it wants and how many are ready."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class Deployment(Struct, frozen=True, gc=False):
    """A Deployment (apps/v1), in part: how many pods it wants and how many are ready."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSpec = ReplicaSpec()
    status: ReplicaStatus = ReplicaStatus()


class DaemonSetSpec(Struct, frozen=True, gc=False):
    """The spec of a DaemonSet (apps/v1), in part: which pods belong to it."""

    selector: LabelSelector | None = None


class DaemonSetStatus(Struct, frozen=True, gc=False, rename="camel"):
    """The status of a DaemonSet (apps/v1), in part: on how many nodes its pods should run, and run."""

    observed_generation: int = 0
    desired_number_scheduled: int = 0
    number_ready: int = 0


class DaemonSet(Struct, frozen=True, gc=False):
    """A DaemonSet (apps/v1), in part: which pods belong to it and how many of them are ready."""

    metadata: ObjectMeta = ObjectMeta()
    spec: DaemonSetSpec = DaemonSetSpec()
    status: DaemonSetStatus = DaemonSetStatus()


class JobSpec(Struct, frozen=True, gc=False):
    """The spec of a Job (batch/v1), in part: how many pods it runs and how many have to succeed."""

    parallelism: int | None = None
    completions: int | None = None
    suspend: bool = False
    selector: LabelSelector | None = None


class JobStatus(Struct, frozen=True, gc=False, rename="camel"):
    """The status of a Job (batch/v1), in part: how many of its pods run, succeeded and failed."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: datetime | None = None
    conditions: tuple[Condition, ...] = ()


class Job(Struct, frozen=True, gc=False):
    """A Job (batch/v1), in part: how many pods it wants and how far it has come."""

    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()
