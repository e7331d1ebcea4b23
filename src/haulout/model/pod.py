"""Structs of Pods."""

from __future__ import annotations

from msgspec import Struct

from haulout.model.meta import ConditionState, ObjectMeta


class EmptyDir(Struct, frozen=True, gc=False):
    """An emptyDir volume of a pod. Its data are lost when the pod leaves its node."""


class Volume(Struct, frozen=True, gc=False, rename="camel"):
    """A volume of a pod (core v1), in part: only whether it is an emptyDir."""

    empty_dir: EmptyDir | None = None


class Toleration(Struct, frozen=True, gc=False, rename="camel"):
    """A Toleration of a pod (core v1), in part: without tolerationSeconds."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class NodeRequirement(Struct, frozen=True, gc=False):
    """One of a node term's matchExpressions: a NodeSelectorRequirement of core v1."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeTerm(Struct, frozen=True, gc=False, rename="camel"):
    """Requirements on the labels of a node: a NodeSelectorTerm of core v1, in part."""

    match_expressions: tuple[NodeRequirement, ...] = ()


class PreferredTerm(Struct, frozen=True, gc=False):
    """A term that a pod prefers but does not require: a PreferredSchedulingTerm of core v1, without its weight."""

    preference: NodeTerm = NodeTerm()


class NodeAffinity(Struct, frozen=True, gc=False, rename="camel"):
    """The NodeAffinity of a pod (core v1), in part: only its preferences."""

    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class Affinity(Struct, frozen=True, gc=False, rename="camel"):
    """The Affinity of a pod (core v1), in part: only its affinity to nodes."""

    node_affinity: NodeAffinity | None = None


class Resources(Struct, frozen=True, gc=False):
    """The limits of a container by resource: ResourceRequirements of core v1, in part."""

    limits: dict[str, str | int] = {}


class Container(Struct, frozen=True, gc=False):
    """A container of a pod (core v1), in part: only its resource limits."""

    resources: Resources = Resources()


class PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a Pod, in part: what a drain and the `affinity` check read."""

    node_name: str = ""
    priority: int = 0
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    volumes: tuple[Volume, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    active_deadline_seconds: int | None = None
    containers: tuple[Container, ...] = ()

    @property
    def has_empty_dir(self) -> bool:
        return any(volume.empty_dir is not None for volume in self.volumes)

    @property
    def preferences(self) -> tuple[NodeRequirement, ...]:
        """The requirements on nodes that the pod prefers but does not require."""
        wishes = self.affinity.node_affinity if self.affinity else None
        terms = wishes.preferred_during_scheduling_ignored_during_execution if wishes else ()
        return tuple(requirement for term in terms for requirement in term.preference.match_expressions)


class ContainerWaiting(Struct, frozen=True, gc=False):
    """Why a container does not run: ContainerStateWaiting of core v1. `reason` is one word, as ImagePullBackOff."""

    reason: str = ""
    message: str = ""


class ContainerTerminated(Struct, frozen=True, gc=False, rename="camel"):
    """How a container ended: ContainerStateTerminated of core v1, in part."""

    exit_code: int = 0
    reason: str = ""


class ContainerState(Struct, frozen=True, gc=False):
    """The ContainerState of core v1, in part. A container that runs has neither field."""

    waiting: ContainerWaiting | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct, frozen=True, gc=False, rename="camel"):
    """The status of one container of a pod: ContainerStatus of core v1, in part."""

    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, gc=False, rename="camel"):
    """The status of a Pod, in part: its phase, whether it is ready, and how its containers are."""

    phase: str = ""
    reason: str = ""
    start_time: str | None = None
    conditions: tuple[ConditionState, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Struct, frozen=True, gc=False):
    """A Pod (core v1), in part: what rows are made of."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
