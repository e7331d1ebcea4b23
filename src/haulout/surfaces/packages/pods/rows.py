"""The rows of package pods, in a table of their own because decisions read more of them than of other pods."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from haulout.base import bounds
from haulout.base.quantity import QuantityError, amount
from haulout.cluster.key import Key
from haulout.cluster.project import Resource, within
from haulout.cluster.rows import ObjectRow, Row
from haulout.cluster.store import Index
from haulout.model.meta import ObjectMeta
from haulout.surfaces.packages.entries.entry import go_json
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.pods import agent_results, names
from haulout.surfaces.packages.pods.bodies import (
    ALWAYS_RUN,
    COPY_VARIABLE,
    OWN_VARIABLES,
    RERUN_VARIABLE,
    RESOURCE_ID,
    About,
)
from haulout.surfaces.packages.pods.owners import owner_uid
from haulout.surfaces.packages.pods.verdict import InitContainer, PodResult, PodVerdict, verdict
from haulout.surfaces.packages.wire import INTERRUPT_LABEL, NAME, PACKAGE

# Only pods in the packages' own namespace are watched, because a tenant can put any label on a pod.
PACKAGE_POD = "PackagePod"
# The annotation of the admission plugin that sets resources on a pod that has none.
LIMIT_RANGER = "kubernetes.io/limit-ranger"
# The label of a pod that only pulls images, and the kubelet's waiting reasons for an image that cannot be pulled.
PREPULL = "haulout.dev/prepull"
PULL_ERRORS = frozenset({"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "RegistryUnavailable"})


class _Terminated(Struct, frozen=True, rename="camel"):
    exit_code: int = 0
    message: str = ""
    # This is a text, because a time that cannot be decoded would hide the whole pod.
    finished_at: str | None = None


class _Waiting(Struct, frozen=True):
    reason: str = ""


class _State(Struct, frozen=True):
    waiting: _Waiting | None = None
    running: dict[str, Any] | None = None
    terminated: _Terminated | None = None


class _ContainerStatus(Struct, frozen=True, rename="camel"):
    name: str = ""
    restart_count: int = 0
    image_id: str = msgspec.field(default="", name="imageID")
    state: _State = _State()
    last_state: _State = _State()


class _Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()
    env: tuple[dict[str, Any], ...] = ()
    resources: dict[str, Any] = {}


class _PodSpec(Struct, frozen=True, rename="camel"):
    node_name: str = ""
    init_containers: tuple[_Container, ...] = ()
    containers: tuple[_Container, ...] = ()


class _PodStatus(Struct, frozen=True, rename="camel"):
    phase: str = ""
    reason: str = ""
    init_container_statuses: tuple[_ContainerStatus, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class PodObject(Struct, frozen=True):
    """The parts of a package pod that are read, as the API server sends them."""

    metadata: ObjectMeta = ObjectMeta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


class ContainerShape(Struct, frozen=True):
    """An init container in a form that can be compared.

    Quantities are compared by value. What the operator or the API server adds is left out.
    """

    name: str
    image: str
    env: tuple[str, ...] = ()
    resources: tuple[tuple[str, str, str], ...] = ()


class PullState(Struct, frozen=True):
    """How far a pod has come that only pulls images.

    `is_over`: it has pulled all images, or it has ended.
    `has_failed`: it has ended without all images.
    `error`: the kubelet's reason why an image cannot be pulled.
    """

    images: tuple[str, ...] = ()
    is_over: bool = False
    has_failed: bool = False
    error: str = ""


class PackagePodRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a pod with a Skyhook's label.

    `about`: the package, stage and Skyhook in its annotation; None if that cannot be read, and then it belongs to no
    Skyhook.
    `has_limits_set`: the LimitRange of the namespace has set its resources.
    `is_package`: it runs a stage of a package, not an interrupt.
    `reruns`: it also runs steps that the agent has recorded as done.
    `pull`: the progress of a pod that only pulls images; None for other pods.
    `owner`: the UID of the object that owns it. `identity`: the part of its resource id that comes from its Skyhook.
    `is_job`: it is a Job and stands for its pods (`pods/jobs.py`). `is_suspended`: such a Job does not run.
    `job`: the UID of the Job whose pod it is; such a pod counts only through its Job.
    `has_failed`: it has failed as a whole, and does not run any more. `is_refused`: the kubelet has not started it at all.
    `has_ended`: a Job has succeeded or failed for good.
    """

    node: str = ""
    about: About | None = None
    containers: tuple[InitContainer, ...] = ()
    shapes: tuple[ContainerShape, ...] = ()
    has_limits_set: bool = False
    is_package: bool = True
    reruns: bool = False
    skyhook: str = ""
    package: str = ""
    pull: PullState | None = None
    owner: str = ""
    identity: str = ""
    is_job: bool = False
    is_suspended: bool = False
    job: str = ""
    has_failed: bool = False
    is_refused: bool = False
    has_ended: bool = False

    @property
    def verdict(self) -> PodVerdict:
        return verdict(self.containers)


def shape_of(container: Mapping[str, Any]) -> ContainerShape:
    env = tuple(
        _variable(each)
        for each in container.get("env") or ()
        if each.get("name") not in (*OWN_VARIABLES, COPY_VARIABLE, ALWAYS_RUN)
    )
    return ContainerShape(container["name"], container["image"], env, _resources(container.get("resources") or {}))


def _variable(entry: Mapping[str, Any]) -> str:
    """Return an environment variable as comparable text, without the members that the API server fills in."""
    variable = dict(entry)
    if not variable.get("value"):
        variable.pop("value", None)
    source = {name: dict(value) for name, value in (variable.get("valueFrom") or {}).items() if value is not None}
    if source.get("fieldRef", {}).get("apiVersion") == "v1":
        del source["fieldRef"]["apiVersion"]
    if "resourceFieldRef" in source:
        divisor = source["resourceFieldRef"].pop("divisor", None)
        if divisor is not None and _amount(divisor) not in ("0", "1"):
            source["resourceFieldRef"]["divisor"] = _amount(divisor)
    variable |= {"valueFrom": source} if source else {}
    return go_json(_sorted(variable))


def _sorted(value: Any) -> Any:
    return {name: _sorted(value[name]) for name in sorted(value)} if isinstance(value, dict) else value


def _resources(resources: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    return tuple(
        sorted(
            (kind, name, _amount(quantity))
            for kind in ("limits", "requests")
            for name, quantity in (resources.get(kind) or {}).items()
        )
    )


def _amount(quantity: Any) -> str:
    try:
        return str(amount(quantity))
    except (QuantityError, TypeError):
        return str(quantity)


_ABOUT = msgspec.json.Decoder(About)


def about_of(obj: PodObject) -> About | None:
    """Return the package, stage and Skyhook in a pod's annotation; None if that cannot be read."""
    try:
        annotations = obj.metadata.annotations
        found = _ABOUT.decode(annotations.get(PACKAGE) or annotations.get(NODEWRIGHT.named(PACKAGE), ""))
    except (msgspec.DecodeError, RecursionError):
        return None
    return found if found.name and found.skyhook else None


def init_containers_of(obj: PodObject) -> tuple[InitContainer, ...]:
    return tuple(map(_container, obj.status.init_container_statuses))


def _container(status: _ContainerStatus) -> InitContainer:
    state = status.state
    # While a container waits for its restart, its last run is in `lastState`.
    ended = state.terminated or status.last_state.terminated
    return InitContainer(
        name=status.name,
        exit_code=state.terminated.exit_code if state.terminated is not None else None,
        waits_for=state.waiting.reason if state.waiting is not None else "",
        running=state.running is not None,
        restarts=status.restart_count,
        failure=agent_results.failure_of(ended.message) if ended is not None and ended.exit_code else "",
        last_exit_code=ended.exit_code if ended is not None else None,
        ended_at=_instant(state.terminated.finished_at) if state.terminated is not None else None,
    )


def _instant(text: str | None) -> datetime | None:
    try:
        return bounds.instant(datetime.fromisoformat(text)) if text else None
    except ValueError:
        return None


def _project(obj: PodObject, common: dict[str, Any]) -> PackagePodRow:
    labels, annotations = obj.metadata.labels, obj.metadata.annotations
    about = about_of(obj)
    return PackagePodRow(
        **common,
        node=obj.spec.node_name,
        about=about,
        containers=init_containers_of(obj),
        shapes=tuple(shape_of(msgspec.to_builtins(each)) for each in obj.spec.init_containers),
        has_limits_set=LIMIT_RANGER in annotations,
        is_package=INTERRUPT_LABEL not in labels,
        reruns=any(RERUN_VARIABLE in each.env for each in obj.spec.init_containers),
        skyhook=labels.get(NAME, ""),
        package=labels.get(PACKAGE, ""),
        pull=_pull(obj) if PREPULL in labels else None,
        owner=owner_uid(obj.metadata),
        identity=identity_of_pod(obj, about),
        job=_job_of(obj),
        has_failed=obj.status.phase == "Failed",
        is_refused=_is_refused(obj.status),
    )


def _is_refused(status: _PodStatus) -> bool:
    return status.phase == "Failed" and not status.init_container_statuses and status.reason != "DeadlineExceeded"


def _job_of(obj: PodObject) -> str:
    owner = obj.metadata.controller
    return owner.uid if owner is not None and owner.kind == "Job" else ""


def identity_of_pod(obj: PodObject, about: About | None) -> str:
    """Return UID and generation of the object that a pod was made for, from the resource id in its environment."""
    variables = (each for container in obj.spec.init_containers for each in container.env)
    found = next((each.get("value") for each in variables if each.get("name") == RESOURCE_ID), None)
    if about is None or not isinstance(found, str):
        return ""
    return names.identity_in(found, about.skyhook, about.name, about.version)[: bounds.LONGEST_NAME]


def failure_of(pod: PackagePodRow) -> str:
    """Return the package, the stage and the cause of a failed pod as text; empty if the pod has not failed."""
    about, verdict = pod.about, pod.verdict
    if about is None or verdict.result is not PodResult.FAILED:
        return ""
    where = f" (Job {pod.key.name})" if pod.is_job else ""
    return f"package {about.name} {about.version}, stage {about.stage}: {verdict.container.cause}{where}"


def _pull(obj: PodObject) -> PullState:
    statuses = obj.status.container_statuses
    images = tuple(each.image for each in obj.spec.containers)
    has_all = len(statuses) >= len(images) and all(map(_has_image, statuses))
    has_ended = obj.status.phase in ("Succeeded", "Failed")
    waits_for = [each.state.waiting.reason for each in statuses if each.state.waiting is not None]
    error = next((reason for reason in waits_for if reason in PULL_ERRORS), "")
    return PullState(images, has_all or has_ended, has_ended and not has_all, error)


def _has_image(status: _ContainerStatus) -> bool:
    """Whether the image of a container is pulled. The container need not be able to start."""
    return bool(status.image_id) or status.state.running is not None or status.state.terminated is not None


POD_RESOURCE = Resource(PACKAGE_POD, "/api/v1", "pods", True, PodObject, _project, labels=NAME, bounds=bounds.LARGE)


def _node_of(row: Row) -> Iterable[Hashable]:
    return (row.node,) if isinstance(row, PackagePodRow) and row.node and not row.job else ()


@lru_cache(maxsize=8)
def package_pods_of_node(namespace: str) -> Index:
    return Index("package-pods-of-node", within(PACKAGE_POD, namespace), _node_of)


def _owner_of(row: Row) -> Iterable[Hashable]:
    return (row.owner,) if isinstance(row, PackagePodRow) and row.owner else ()


@lru_cache(maxsize=8)
def pods_of_owner(namespace: str) -> Index:
    return Index("package-pods-of-owner", within(PACKAGE_POD, namespace), _owner_of)


def pod_key(namespace: str, name: str) -> Key:
    return Key("", within(PACKAGE_POD, namespace), namespace, name)
