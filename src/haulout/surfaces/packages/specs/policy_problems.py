"""What is wrong with the spec of a DeploymentPolicy, in the words of the original."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from haulout.base.arithmetic import FormulaError, truth
from haulout.base.selector import SelectorError
from haulout.surfaces.packages.specs.skyhook_problems import duration_problems
from haulout.surfaces.packages.wire import DEFAULT_COMPARTMENT, Budget, selector_of
from haulout.surfaces.packages.wire_policy import (
    STRATEGIES,
    CompartmentSpec,
    GateSpec,
    PolicySpec,
    StrategySpec,
    size_problem,
)


def policy_problem(spec: PolicySpec) -> str:
    """Return the first problem of a policy's spec; empty if it has none."""
    return next(_problems(spec), "")


def _problems(spec: PolicySpec) -> Iterator[str]:
    if too_many := size_problem(spec):
        yield too_many
    yield from _budget_problems("default", spec.default.budget)
    yield from _strategy_problems("default", spec.default.strategy or StrategySpec())
    names: set[str] = set()
    for compartment in spec.compartments:
        name = compartment.name
        if name == DEFAULT_COMPARTMENT:
            yield f'compartment name "{name}" is reserved and cannot be used'
        if name in names:
            yield f'compartment name "{name}" is not unique'
        names.add(name)
        yield from _compartment_problems(compartment)
    yield from _twins(spec.compartments)
    if spec.gate is not None:
        yield from _gate_problems(spec.gate)


def _compartment_problems(compartment: CompartmentSpec) -> Iterator[str]:
    place = f'compartment "{compartment.name}"'
    yield from _budget_problems(place, compartment.budget)
    if compartment.strategy is not None:
        yield from _strategy_problems(place, compartment.strategy)
    try:
        selector_of(compartment.selector)
    except SelectorError as error:
        yield f"{place} has invalid selector: {error}"


def _twins(compartments: tuple[CompartmentSpec, ...]) -> Iterator[str]:
    names: dict[bytes, str] = {}
    for compartment in compartments:
        other = names.setdefault(msgspec.json.encode(compartment.selector, order="deterministic"), compartment.name)
        if other != compartment.name:
            yield f'compartment "{compartment.name}" has identical selector to compartment "{other}"'


def _budget_problems(place: str, budget: Budget) -> Iterator[str]:
    if budget.percent is None and budget.count is None:
        yield f"{place} budget: exactly one of percent or count must be set"
    elif budget.percent is not None and budget.count is not None:
        yield f"{place} budget: percent and count are mutually exclusive"


def _strategy_problems(place: str, strategy: StrategySpec) -> Iterator[str]:
    if sum(getattr(strategy, kind) is not None for kind in STRATEGIES) != 1:
        yield f"{place} strategy: exactly one of fixed, linear, or exponential must be set"


def _gate_problems(gate: GateSpec) -> Iterator[str]:
    yield from duration_problems("gate: soak", gate.soak)
    if gate.prometheus is None:
        return
    if not gate.prometheus.url.startswith(("http://", "https://")):
        yield f"gate: prometheus: url is no address of a server: {gate.prometheus.url}"
    try:
        truth(gate.prometheus.expr, {"value": 0.0})
    except FormulaError as error:
        yield f"gate: prometheus: expr is not valid: {error}"
