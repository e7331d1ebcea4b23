"""One-line builders of rows of pods and PodDisruptionBudgets."""

from __future__ import annotations

from typing import Any

from haulout.cluster.key import Key
from haulout.cluster.rows import BudgetRow, Owner, PodRow, PodTraits


def pod_key(name: str, namespace: str = "default") -> Key:
    return Key("", "Pod", namespace, name)


def budget_key(name: str, namespace: str = "default") -> Key:
    return Key("", "PodDisruptionBudget", namespace, name)


def owner(kind: str = "ReplicaSet", name: str = "web", api: str = "apps/v1", *, controller: bool = True) -> Owner:
    return Owner(kind, name, f"uid-{name}", controller, api)


def pod(name: str, *owners: Owner, node: str = "n0", namespace: str = "default", **fields: Any) -> PodRow:
    """Return a pod that runs and is ready. `fields`: fields of the row and of its traits."""
    spec = PodTraits(**{trait: fields.pop(trait) for trait in PodTraits.__struct_fields__ if trait in fields})
    given = {"uid": f"uid-{name}", "phase": "Running", "ready": True, "version": 1, **fields}
    return PodRow(key=pod_key(name, namespace), node=node, owners=owners, spec=spec, **given)


def budget(name: str, app: str = "web", *, allowed: int = 0, **fields: Any) -> BudgetRow:
    """Return a budget that its controller has seen, with enough healthy pods for what it allows."""
    given = {"current_healthy": 3, "desired_healthy": 3 - allowed, "expected_pods": 3, "version": 1, **fields}
    selector = {"matchLabels": {"app": app}}
    return BudgetRow(
        key=budget_key(name), uid=f"uid-{name}", **{"selector": selector, "disruptions_allowed": allowed, **given}
    )
