"""Defaults and checks of PodDisruptionBudgets."""

from __future__ import annotations

from haulout.embedded.interfaces import Json
from haulout.embedded.rules.podspec import check_selector
from haulout.embedded.rules.refusals import Problem, unsupported_value, wrong
from haulout.embedded.rules.workloads import check_share

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def prepare(budget: Json) -> None:
    budget["status"] = dict.fromkeys(_COUNTS, 0)


def check(budget: Json) -> list[Problem]:
    spec = budget["spec"]
    problems: list[Problem] = []
    if "minAvailable" in spec and "maxUnavailable" in spec:
        # Printed as the server's own Go type, which no manifest has.
        names = ("minAvailable", "selector", "maxUnavailable", "unhealthyPodEvictionPolicy")
        value = {name[0].upper() + name[1:]: spec.get(name) for name in names}
        problems.append(wrong("spec", value, "minAvailable and maxUnavailable cannot be both set"))
    for member in ("minAvailable", "maxUnavailable"):
        if member in spec:
            problems += check_share(spec[member], f"spec.{member}", most=True)
    problems += check_selector(spec.get("selector", {}), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        problems.append(unsupported_value("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
    return problems


def check_status(budget: Json, old: Json) -> list[Problem]:
    status, problems = budget["status"], list[Problem]()
    for name in _COUNTS:
        if status[name] < 0:
            problems.append(wrong(f"status.{name}", status[name], "must be greater than or equal to 0"))
    return problems
