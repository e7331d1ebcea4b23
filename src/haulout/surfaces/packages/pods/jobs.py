"""The Jobs that NodeWright v0.18 and later runs packages in, as rows of pods: this operator makes none, but goes on with those.

A Job stands for its pods. As long as it is neither recorded nor gone, nothing else runs for its package on its node.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from haulout.base.bounds import LARGE
from haulout.cluster.project import Resource, within
from haulout.cluster.rows import Row
from haulout.cluster.store import Index
from haulout.cluster.view import View
from haulout.core.action import Patch
from haulout.model.meta import ConditionState, ObjectMeta
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.pods.owners import owner_uid
from haulout.surfaces.packages.pods.rows import PackagePodRow, PodObject, about_of, identity_of_pod
from haulout.surfaces.packages.pods.verdict import InitContainer, PodResult
from haulout.surfaces.packages.wire import INTERRUPT_LABEL, NAME, PACKAGE

PACKAGE_JOB = "PackageJob"
_RECORDED = f"{NODEWRIGHT.prefix}state-recorded"
_NODE = f"{NODEWRIGHT.prefix}node"
# How long a Job stays after its result is recorded, as with the original.
_KEPT_SECONDS = 3600


class _Template(PodObject, frozen=True):
    """The template of a Job's pods."""


class _JobSpec(Struct, frozen=True):
    suspend: bool | None = None
    template: _Template = _Template()


class _JobStatus(Struct, frozen=True):
    conditions: tuple[ConditionState, ...] = ()


class JobObject(Struct, frozen=True):
    """The parts of a package Job that are read, as the API server sends them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _JobSpec = _JobSpec()
    status: _JobStatus = _JobStatus()


def _project(obj: JobObject, common: dict[str, Any]) -> PackagePodRow:
    own = {NODEWRIGHT.inner(name): value for name, value in obj.metadata.labels.items()}
    template = msgspec.structs.replace(obj.spec.template, metadata=obj.metadata)
    about = about_of(template)
    is_recorded = obj.metadata.annotations.get(_RECORDED) == "true"
    return PackagePodRow(
        **common,
        node=template.spec.node_name or obj.metadata.labels.get(_NODE, ""),
        about=None if is_recorded else about,
        containers=_containers(obj),
        is_package=INTERRUPT_LABEL not in own,
        skyhook=own.get(NAME, ""),
        package=own.get(PACKAGE, ""),
        owner="" if is_recorded else owner_uid(obj.metadata),
        identity=identity_of_pod(template, about),
        is_job=True,
        is_suspended=bool(obj.spec.suspend),
    )


def _containers(obj: JobObject) -> tuple[InitContainer, ...]:
    """Return the result of a Job as that of one container."""
    ended = {each.type for each in obj.status.conditions if each.status == "True"}
    if "Complete" in ended:
        return (InitContainer("job", exit_code=0),)
    return (InitContainer("job", exit_code=1, last_exit_code=1),) if "Failed" in ended else ()


JOB_RESOURCE = Resource(
    PACKAGE_JOB, "/apis/batch/v1", "jobs", True, JobObject, _project, labels=NODEWRIGHT.named(NAME), bounds=LARGE
)


def _node_of(row: Row) -> Iterable[Hashable]:
    return (row.node,) if isinstance(row, PackagePodRow) and row.node and row.about is not None else ()


def _owner_of(row: Row) -> Iterable[Hashable]:
    return (row.owner,) if isinstance(row, PackagePodRow) and row.owner else ()


@lru_cache(maxsize=8)
def _jobs_of_node(namespace: str) -> Index:
    return Index("package-jobs-of-node", within(PACKAGE_JOB, namespace), _node_of)


@lru_cache(maxsize=8)
def _jobs_of_owner(namespace: str) -> Index:
    return Index("package-jobs-of-owner", within(PACKAGE_JOB, namespace), _owner_of)


def jobs_of_node(view: View, namespace: str, node: str) -> list[PackagePodRow]:
    """Return the Jobs of a node whose results are not recorded; none where the role does not know Jobs."""
    if view.is_forbidden(within(PACKAGE_JOB, namespace)):
        return []
    return view.rows(_jobs_of_node(namespace), node, PackagePodRow)


def jobs_of_owner(view: View, namespace: str, uid: str) -> list[PackagePodRow]:
    if view.is_forbidden(within(PACKAGE_JOB, namespace)):
        return []
    return view.rows(_jobs_of_owner(namespace), uid, PackagePodRow)


def ended_job(job: PackagePodRow) -> Patch:
    """Return the patch that marks a Job as recorded, and stops one that is not needed any more.

    It is not deleted, because that would leave its pods behind.
    """
    spec: dict[str, Any] = {"ttlSecondsAfterFinished": _KEPT_SECONDS}
    if job.verdict.result in (PodResult.WAITING, PodResult.RUNNING):
        spec["suspend"] = True
    return Patch(job.key, {"metadata": {"annotations": {_RECORDED: "true"}}, "spec": spec})


def switched_job(job: PackagePodRow, *, is_suspended: bool) -> Patch | None:
    """Return the patch that suspends or resumes a Job; None if it is as it should be, or has ended."""
    if job.is_suspended == is_suspended or job.verdict.result in (PodResult.SUCCEEDED, PodResult.FAILED):
        return None
    return Patch(job.key, {"spec": {"suspend": is_suspended}})
