"""DeploymentPolicy on the wire, and its row with every default filled in."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
from msgspec import Struct

from haulout.base import bounds, duration
from haulout.base.selector import Selector, SelectorError
from haulout.cluster.key import Key
from haulout.cluster.project import Resource
from haulout.cluster.rows import ObjectRow
from haulout.cluster.view import View
from haulout.model.meta import LabelSelector, ObjectMeta
from haulout.surfaces.packages.groups import GROUPS, SKYHOOK
from haulout.surfaces.packages.wire import DEFAULT_COMPARTMENT, Budget, SkyhookRow, readable_groups, selector_of
from haulout.surfaces.packages.wire_status import LONGEST_COMPARTMENT

POLICY, POLICIES = "DeploymentPolicy", "deploymentpolicies"
# Both groups have a kind of this name, so that the one of NodeWrights has another name for its table.
POLICY_KINDS = (POLICY, f"NodeWright{POLICY}")
FIXED, LINEAR, EXPONENTIAL = "fixed", "linear", "exponential"
STRATEGIES = (FIXED, LINEAR, EXPONENTIAL)
# Each node is matched against all compartments whenever the rollout is decided about.
MOST_COMPARTMENTS = 100


class Parameters(Struct, frozen=True, rename="camel"):
    """The parameters of a strategy as written in the object. Missing ones get defaults."""

    initial_batch: int | None = None
    batch_threshold: int | None = None
    failure_threshold: int | None = None
    safety_limit: int | None = None
    delta: int | None = None
    growth_factor: int | None = None


class StrategySpec(Struct, frozen=True):
    """A strategy as written in the object. Exactly one of the three is set."""

    fixed: Parameters | None = None
    linear: Parameters | None = None
    exponential: Parameters | None = None


class DefaultSpec(Struct, frozen=True):
    """The budget and strategy of nodes that no compartment selects."""

    budget: Budget = Budget()
    strategy: StrategySpec | None = None


class CompartmentSpec(Struct, frozen=True):
    """A group of nodes with its own budget, as written in the object."""

    name: str = ""
    selector: LabelSelector = LabelSelector()
    budget: Budget = Budget()
    strategy: StrategySpec | None = None


class PrometheusGate(Struct, frozen=True):
    """A Prometheus query, and the expression that its value has to fulfil."""

    url: str = ""
    query: str = ""
    expr: str = "value > 0"


class GateSpec(Struct, frozen=True, rename="camel"):
    """The gate after each wave as written in the object.

    `error_threshold`: the percentage of the wave's nodes that may be erroring.
    `rollback`: restore the last complete version if a wave fails.
    """

    soak: str | None = None
    prometheus: PrometheusGate | None = None
    error_threshold: int | None = None
    rollback: bool = False


class PolicySpec(Struct, frozen=True, rename="camel"):
    """The spec of a DeploymentPolicy."""

    default: DefaultSpec = DefaultSpec()
    compartments: tuple[CompartmentSpec, ...] = ()
    reset_batch_state_on_completion: bool | None = None
    gate: GateSpec | None = None


class DeploymentPolicy(Struct, frozen=True):
    """A DeploymentPolicy (skyhook.nvidia.com/v1alpha1): how many nodes of which compartment change at a time."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PolicySpec = PolicySpec()


class Strategy(Struct, frozen=True):
    """How the size of batches grows, with all defaults filled in.

    `failure_threshold`: stop after this many failed batches in a row; None: never.
    """

    kind: str = FIXED
    initial_batch: int = 1
    batch_threshold: int = 100
    failure_threshold: int | None = None
    safety_limit: int = 50
    delta: int = 1
    growth_factor: int = 2


class Compartment(Struct, frozen=True):
    """A compartment with all defaults filled in.

    `selector`: None for the compartment of all nodes that no other selects.
    """

    name: str
    budget: Budget = Budget()
    strategy: Strategy = Strategy()
    selector: Selector | None = None


class WaveGate(Struct, frozen=True):
    """The gate after each wave, with all defaults filled in.

    `error_threshold`: the percentage of the wave's nodes that may be erroring; None: any.
    `problem`: why the soak time cannot be read. No wave passes such a gate.
    """

    soak_for: timedelta = timedelta()
    prometheus: PrometheusGate | None = None
    error_threshold: int | None = None
    rollback: bool = False
    problem: str = ""


class PolicyRow(ObjectRow, frozen=True, kw_only=True):
    """The row of a DeploymentPolicy.

    `problem`: why the policy is invalid. No node begins under such a policy.
    """

    default: Compartment = Compartment(DEFAULT_COMPARTMENT)
    compartments: tuple[Compartment, ...] = ()
    resets: bool = True
    gate: WaveGate | None = None
    problem: str = ""


def gate_of(spec: GateSpec | None) -> WaveGate | None:
    """Return the gate with all defaults filled in; None if the policy has none."""
    if spec is None:
        return None
    gate = WaveGate(prometheus=spec.prometheus, error_threshold=spec.error_threshold, rollback=spec.rollback)
    try:
        soak_for = bounds.span(duration.parse(spec.soak).total_seconds()) if spec.soak else timedelta()
    except duration.DurationError as error:
        return msgspec.structs.replace(gate, problem=f"gate: soak: {error}")
    return msgspec.structs.replace(gate, soak_for=max(soak_for, timedelta()))


def strategy_of(spec: StrategySpec | None, inherited: Strategy) -> Strategy:
    """Return the strategy with its defaults; `inherited` if the object has none."""
    for kind in STRATEGIES:
        parameters: Parameters | None = getattr(spec, kind) if spec is not None else None
        if parameters is not None:
            return _with_defaults(kind, parameters)
    return inherited


def _with_defaults(kind: str, parameters: Parameters) -> Strategy:
    return Strategy(
        kind=kind,
        initial_batch=max(1, parameters.initial_batch or 1),
        batch_threshold=parameters.batch_threshold or 100,
        failure_threshold=parameters.failure_threshold,
        safety_limit=parameters.safety_limit or 50,
        delta=max(1, parameters.delta or 1),
        growth_factor=max(2, parameters.growth_factor or 2),
    )


def size_problem(spec: PolicySpec) -> str:
    """Return why a policy has too many compartments, or too long names of them; empty if it has not."""
    count = len(spec.compartments)
    if count <= MOST_COMPARTMENTS:
        long = any(len(each.name) > LONGEST_COMPARTMENT for each in spec.compartments)
        return f"the name of a compartment has more than {LONGEST_COMPARTMENT} characters" if long else ""
    return f"the policy has {count} compartments, and may have at most {MOST_COMPARTMENTS}"


def _project(obj: DeploymentPolicy, common: dict[str, Any]) -> PolicyRow:
    spec = obj.spec
    if not bounds.is_within(spec, bounds.ORDINARY):
        return PolicyRow(
            **common, problem=f"it is too large (at most {bounds.ORDINARY.characters // 1024} KiB of text)"
        )
    default = Compartment(DEFAULT_COMPARTMENT, spec.default.budget, strategy_of(spec.default.strategy, Strategy()))
    resets = spec.reset_batch_state_on_completion
    found: list[Compartment] = []
    problem = size_problem(spec)
    for each in spec.compartments[:MOST_COMPARTMENTS]:
        try:
            selector = selector_of(each.selector)
        except SelectorError as error:
            problem = problem or f'compartment "{each.name}" has invalid selector: {error}'
            continue
        found.append(Compartment(each.name, each.budget, strategy_of(each.strategy, default.strategy), selector))
    return PolicyRow(
        **common,
        default=default,
        compartments=tuple(found),
        resets=True if resets is None else resets,
        gate=gate_of(spec.gate),
        problem=problem,
    )


POLICY_RESOURCES = tuple(
    Resource(kind, f"/apis/{group.api_version}", POLICIES, False, DeploymentPolicy, _project, bounds=None)
    for kind, group in zip(POLICY_KINDS, GROUPS, strict=True)
)
POLICY_RESOURCE = POLICY_RESOURCES[0]


def policy_key(name: str, kind: str = POLICY) -> Key:
    return Key("", kind, "", name)


def policy_of(view: View, row: SkyhookRow) -> PolicyRow | None:
    """Return the policy that a Skyhook or NodeWright names: that of its own group, or else of the other one."""
    name = row.spec.deployment_policy
    if not name:
        return None
    kinds: tuple[str, ...] = POLICY_KINDS if row.group is SKYHOOK else POLICY_KINDS[::-1]
    if len(readable_groups(view)) == 1:
        kinds = POLICY_KINDS[:1]
    return next((found for kind in kinds if (found := view.get(policy_key(name, kind), PolicyRow)) is not None), None)


def parameters_with_defaults(spec: StrategySpec) -> StrategySpec:
    """Return the strategy with the defaults that admission fills in. `failureThreshold` stays as written."""
    changes = {
        kind: _completed(kind, parameters) for kind in STRATEGIES if (parameters := getattr(spec, kind)) is not None
    }
    return msgspec.structs.replace(spec, **changes)


def _completed(kind: str, parameters: Parameters) -> Parameters:
    read = _with_defaults(kind, parameters)
    return Parameters(
        initial_batch=parameters.initial_batch or read.initial_batch,
        batch_threshold=parameters.batch_threshold or read.batch_threshold,
        failure_threshold=parameters.failure_threshold,
        safety_limit=parameters.safety_limit or read.safety_limit,
        delta=(parameters.delta or read.delta) if kind == LINEAR else parameters.delta,
        growth_factor=(parameters.growth_factor or read.growth_factor)
        if kind == EXPONENTIAL
        else parameters.growth_factor,
    )
