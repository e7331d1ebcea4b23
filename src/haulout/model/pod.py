"""Pod."""

from __future__ import annotations

from msgspec import Struct

from haulout.model.meta import ConditionState, ObjectMeta


class EmptyDir(Struct, frozen=True, gc=False):
    medium: str = ""


class Volume(Struct, frozen=True, gc=False, rename="camel"):
    empty_dir: EmptyDir | None = None


class Toleration(Struct, frozen=True, gc=False, rename="camel"):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeRequirement(Struct, frozen=True, gc=False):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeTerm(Struct, frozen=True, gc=False, rename="camel"):
    match_expressions: tuple[NodeRequirement, ...] = ()


class PreferredTerm(Struct, frozen=True, gc=False):
    preference: NodeTerm = NodeTerm()


class NodeAffinity(Struct, frozen=True, gc=False, rename="camel"):
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredTerm, ...] = ()


class Affinity(Struct, frozen=True, gc=False, rename="camel"):
    node_affinity: NodeAffinity | None = None


class PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    node_name: str = ""
    priority: int = 0
    restart_policy: str = "Always"
    termination_grace_period_seconds: int | None = None
    volumes: tuple[Volume, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None

    @property
    def has_empty_dir(self) -> bool:
        return any(volume.empty_dir is not None for volume in self.volumes)

    @property
    def preferences(self) -> tuple[NodeRequirement, ...]:
        """Everything that it asks of nodes without insisting."""
        wishes = self.affinity.node_affinity if self.affinity else None
        terms = wishes.preferred_during_scheduling_ignored_during_execution if wishes else ()
        return tuple(requirement for term in terms for requirement in term.preference.match_expressions)


class ContainerWaiting(Struct, frozen=True, gc=False):
    reason: str = ""
    message: str = ""


class ContainerTerminated(Struct, frozen=True, gc=False, rename="camel"):
    exit_code: int = 0
    reason: str = ""


class ContainerState(Struct, frozen=True, gc=False):
    waiting: ContainerWaiting | None = None
    terminated: ContainerTerminated | None = None


class ContainerStatus(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    ready: bool = False
    restart_count: int = 0
    state: ContainerState = ContainerState()


class PodStatus(Struct, frozen=True, gc=False, rename="camel"):
    phase: str = ""
    reason: str = ""
    conditions: tuple[ConditionState, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()


class Pod(Struct, frozen=True, gc=False):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
