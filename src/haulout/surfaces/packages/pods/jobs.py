"""The Jobs that run packages, those of this operator and those of NodeWright v0.18 and later, as rows of pods.

A Job stands for its pods. As long as it is neither recorded nor gone, nothing else runs for its package on its node. One
that has failed for good stays, and so does its stage, until the package is edited or reset, or the Job expires.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from haulout.base import bounds
from haulout.base.bounds import LARGE
from haulout.cluster.key import Key
from haulout.cluster.project import Resource, within
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.core.action import Delete, Patch
from haulout.model.meta import ObjectMeta
from haulout.surfaces.packages.entries import interrupts
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.options import Options
from haulout.surfaces.packages.pods.bodies import RERUN_VARIABLE
from haulout.surfaces.packages.pods.owners import owner_uid
from haulout.surfaces.packages.pods.rows import (
    LIMIT_RANGER,
    PackagePodRow,
    PodObject,
    about_of,
    identity_of_pod,
    pods_of_owner,
    shape_of,
)
from haulout.surfaces.packages.pods.verdict import InitContainer, PodResult
from haulout.surfaces.packages.wire import INTERRUPT_LABEL, NAME, PACKAGE, Interrupt

PACKAGE_JOB = "PackageJob"
RECORDED = f"{NODEWRIGHT.prefix}state-recorded"
LAST_LOGS = f"{NODEWRIGHT.prefix}last-logs"
LIMIT_EXCEEDED = f"{NODEWRIGHT.prefix}restart-limit-exceeded"
NODE = f"{NODEWRIGHT.prefix}node"
LONGEST_LOGS = 16 * 1024
_REBOOT = interrupts.argument(Interrupt(interrupts.REBOOT))
_TRUE = "true"


class _Template(PodObject, frozen=True):
    """The template of a Job's pods."""


class _JobSpec(Struct, frozen=True):
    suspend: bool | None = None
    template: _Template = _Template()


class _JobCondition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


class _JobStatus(Struct, frozen=True, rename="camel"):
    conditions: tuple[_JobCondition, ...] = ()
    failed: int = 0
    # This is a text, because a time that cannot be decoded would hide the whole Job.
    completion_time: str | None = None


class JobObject(Struct, frozen=True):
    """The parts of a package Job that are read, as the API server sends them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


class PackageJobRow(PackagePodRow, frozen=True, kw_only=True):
    """The row of a Job that runs a stage of a package or an interrupt.

    `attempts`: how many of its pods have failed. `is_recorded`: its result is stored on the node.
    `has_log`: the end of its log is kept in an annotation. `is_given_up`: it is to end because of its restarts.
    `reboots`: it reboots the node. `is_own`: this operator has made it, so that its containers can be compared.
    `worker`: the name of its newest pod; empty if none is known.
    `surplus`: its failed pods but the first and the last.
    As a Job, `is_refused` says that it has failed, but the kubelet has not started any of its pods.
    """

    attempts: int = 0
    is_recorded: bool = False
    has_log: bool = False
    is_given_up: bool = False
    reboots: bool = False
    is_own: bool = False
    worker: str = ""
    surplus: tuple[tuple[Key, str], ...] = ()

    @property
    def is_trying(self) -> bool:
        """Whether the Job goes on by itself, whatever has failed so far."""
        return not self.has_ended and not self.verdict.container.is_unstartable


def _project(obj: JobObject, common: dict[str, Any]) -> PackageJobRow:
    own = {NODEWRIGHT.inner(name): value for name, value in obj.metadata.labels.items()}
    template = msgspec.structs.replace(obj.spec.template, metadata=obj.metadata)
    about, notes, containers = about_of(template), obj.metadata.annotations, template.spec.init_containers
    is_recorded = notes.get(RECORDED) == _TRUE
    result = _result(obj)
    # What is over and recorded counts no more, but a failed Job does: its stage rests.
    is_past = is_recorded and not any(each.exit_code for each in result)
    return PackageJobRow(
        **common,
        node=template.spec.node_name or obj.metadata.labels.get(NODE, ""),
        about=None if is_past else about,
        containers=result,
        shapes=tuple(shape_of(msgspec.to_builtins(each)) for each in containers),
        has_limits_set=LIMIT_RANGER in notes,
        is_package=INTERRUPT_LABEL not in own,
        reruns=any(RERUN_VARIABLE in each.env for each in containers),
        skyhook=own.get(NAME, ""),
        package=own.get(PACKAGE, ""),
        owner="" if is_past else owner_uid(obj.metadata),
        identity=identity_of_pod(template, about),
        is_job=True,
        is_suspended=bool(obj.spec.suspend),
        has_ended=bool(result),
        attempts=bounds.count(obj.status.failed),
        is_recorded=is_recorded,
        has_log=LAST_LOGS in notes,
        is_given_up=notes.get(LIMIT_EXCEEDED) == _TRUE,
        reboots=any(_REBOOT in each.args for each in containers),
        is_own=NAME in obj.spec.template.metadata.labels,
    )


def _result(obj: JobObject) -> tuple[InitContainer, ...]:
    """Return the result of a Job that has ended as that of one container."""
    ended = {each.type: each for each in obj.status.conditions if each.status == "True"}
    failed = bounds.count(obj.status.failed)
    if "Complete" in ended:
        at = _instant(obj.status.completion_time)
        return (InitContainer("job", exit_code=0, restarts=failed, ended_at=at),)
    if (end := ended.get("Failed")) is None:
        return ()
    text = f"{end.reason}: {end.message}"[:512] if end.reason else ""
    return (InitContainer("job", exit_code=1, last_exit_code=1, failure=text, restarts=failed),)


def _instant(text: str | None) -> datetime | None:
    try:
        return bounds.instant(datetime.fromisoformat(text)) if text else None
    except ValueError:
        return None


JOB_RESOURCE = Resource(
    PACKAGE_JOB, "/apis/batch/v1", "jobs", True, JobObject, _project, labels=NODEWRIGHT.named(NAME), bounds=LARGE
)


def _node_of(row: Row) -> Iterable[Hashable]:
    return (row.node,) if isinstance(row, PackageJobRow) and row.node and row.about is not None else ()


def _owner_of(row: Row) -> Iterable[Hashable]:
    return (row.owner,) if isinstance(row, PackageJobRow) and row.owner else ()


@lru_cache(maxsize=8)
def _jobs_of_node(namespace: str) -> Index:
    return Index("package-jobs-of-node", within(PACKAGE_JOB, namespace), _node_of)


@lru_cache(maxsize=8)
def _jobs_of_owner(namespace: str) -> Index:
    return Index("package-jobs-of-owner", within(PACKAGE_JOB, namespace), _owner_of)


def can_run_jobs(view: View, namespace: str) -> bool:
    """Whether Jobs may be read. The role of an original before v0.18 does not know them."""
    return not view.is_forbidden(within(PACKAGE_JOB, namespace))


def job_key(namespace: str, name: str) -> Key:
    return Key("", within(PACKAGE_JOB, namespace), namespace, name)


def jobs_of_node(view: View, namespace: str, node: str) -> list[PackageJobRow]:
    """Return the Jobs of a node that count, each with what its pods tell."""
    if not can_run_jobs(view, namespace):
        return []
    jobs = view.rows(_jobs_of_node(namespace), node, PackageJobRow)
    return [_with_pods(job, view.rows(pods_of_owner(namespace), job.uid, PackagePodRow)) for job in jobs]


def jobs_of_owner(view: View, namespace: str, uid: str) -> list[PackageJobRow]:
    if not can_run_jobs(view, namespace):
        return []
    return view.rows(_jobs_of_owner(namespace), uid, PackageJobRow)


def _with_pods(job: PackageJobRow, pods: Sequence[PackagePodRow]) -> PackageJobRow:
    """Return a Job with the containers of its newest pod, and with its failed attempts as their restarts."""
    listed = sorted(pods, key=lambda each: (each.created_at or bounds.EARLIEST, each.key))
    if not listed:
        return job
    failed = [each for each in listed if each.has_failed]
    told = next((each for each in reversed(failed) if each.verdict.result is PodResult.FAILED), None)
    newest = (told or listed[-1]) if job.has_ended else listed[-1]
    result = job.containers
    if newest.containers and not any(each.exit_code == 0 for each in result):
        result = tuple(_after(each, job.attempts) for each in newest.containers)
    if not job.has_ended and newest.verdict.result is PodResult.SUCCEEDED:
        # The Job controller has the last word. Until then the last container counts as running.
        result = (*result[:-1], InitContainer(result[-1].name, running=True, restarts=result[-1].restarts))
    return msgspec.structs.replace(
        job,
        containers=result if not job.has_ended or _has_failed(result) else job.containers,
        worker=newest.key.name,
        surplus=tuple((each.key, each.uid) for each in failed[1:-1] if each.deleting_at is None),
        is_refused=_has_failed(job.containers) and all(each.is_refused for each in listed),
    )


def _after(container: InitContainer, attempts: int) -> InitContainer:
    return msgspec.structs.replace(container, restarts=container.restarts + attempts)


def _has_failed(containers: Iterable[InitContainer]) -> bool:
    return any(each.has_failed for each in containers)


def recorded_job(job: PackageJobRow, options: Options) -> Patch:
    """Return the patch that marks a Job as recorded, and says when it expires."""
    has_succeeded = job.verdict.result is PodResult.SUCCEEDED
    kept_for = options.job_ttl_succeeded if has_succeeded else options.job_ttl_failed
    spec = {"ttlSecondsAfterFinished": bounds.count(kept_for // timedelta(seconds=1))}
    return Patch(job.key, {"metadata": {"annotations": {RECORDED: _TRUE}}, "spec": spec}, disrupts=False)


def removal_of(job: PackagePodRow) -> Delete:
    """Return the deletion of a Job. It stays until its pods have ended, so that no other begins beside them."""
    return Delete(job.key, job.uid, with_owned=True)


def switched_job(job: PackageJobRow, *, is_suspended: bool) -> Patch:
    """Return the patch that suspends or resumes a Job."""
    return Patch(job.key, {"spec": {"suspend": is_suspended}}, disrupts=not is_suspended)


def has_exceeded_restarts(job: PackageJobRow, options: Options) -> bool:
    """Whether an interrupt has failed too often. A reboot ends only at its deadline, because it restarts its own pod."""
    if job.is_package or job.reboots or job.has_ended or job.is_given_up:
        return False
    found = job.verdict
    return found.result is PodResult.FAILED and found.container.restarts >= options.job_backoff_limit


def given_up_job(job: PackageJobRow) -> Patch:
    """Return the patch that makes a Job fail now. Its pods restart in place, which its own limit does not count."""
    return Patch(
        job.key, {"metadata": {"annotations": {LIMIT_EXCEEDED: _TRUE}}, "spec": {"backoffLimit": 0}}, disrupts=False
    )


def with_logs(job: PackageJobRow, text: str) -> Patch:
    """Return the patch that keeps the end of a log with its Job."""
    kept = text.encode()[-LONGEST_LOGS:].decode(errors="ignore")
    return Patch(job.key, {"metadata": {"annotations": {LAST_LOGS: kept}}}, disrupts=False)
