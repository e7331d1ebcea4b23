"""Structs of PodDisruptionBudgets."""

from __future__ import annotations

from datetime import datetime

from msgspec import Struct

from haulout.model.meta import Condition, LabelSelector, ObjectMeta


class PodDisruptionBudgetSpec(Struct, frozen=True, gc=False, rename="camel"):
    """The spec of a PodDisruptionBudget (policy/v1).

    In policy/v1 an absent selector selects no pod, an empty one every pod of the namespace.
    """

    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str = ""


class PodDisruptionBudgetStatus(Struct, frozen=True, gc=False, rename="camel"):
    """The status of a PodDisruptionBudget (policy/v1).

    `disrupted_pods`: evictions allowed but not yet seen by the budget's controller, with their times.
    """

    observed_generation: int = 0
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    disrupted_pods: dict[str, datetime | None] = {}
    conditions: tuple[Condition, ...] = ()


class PodDisruptionBudget(Struct, frozen=True, gc=False):
    """A PodDisruptionBudget (policy/v1): how many of the selected pods may be evicted at the moment."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()
