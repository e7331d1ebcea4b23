"""How many nodes may change at once: compartments of nodes, their ceilings and the sizes of their batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from haulout.surfaces.packages.wire import DEFAULT_COMPARTMENT, Budget
from haulout.surfaces.packages.wire_policy import (
    EXPONENTIAL,
    FIXED,
    LINEAR,
    STRATEGIES,
    Compartment,
    PolicyRow,
    Strategy,
)
from haulout.surfaces.packages.wire_status import BatchState

Labels = Mapping[str, str]


def ceiling(budget: Budget, matched: int) -> int:
    """Return how many of the matched nodes may change at once.

    The percentage is taken in binary floating point: 58 % of 50 is 28. The original shows that number in its status.
    """
    if budget.count is not None:
        return budget.count
    if not matched:
        return 0
    percent = 100 if budget.percent is None else budget.percent
    return max(1, int(matched * (percent / 100)))


def without_policy(budget: Budget | None, nodes: int) -> tuple[Compartment, ...]:
    """Return the one compartment of a Skyhook that names no policy."""
    default_budget = budget or Budget()
    if default_budget.percent is not None:
        first, stated = max(1, int(nodes * (default_budget.percent / 100))), Budget(percent=default_budget.percent)
    elif default_budget.count is not None:
        first, stated = max(1, min(nodes, default_budget.count)), Budget(count=default_budget.count)
    else:
        first, stated = max(1, nodes), Budget(percent=100)
    return (Compartment(DEFAULT_COMPARTMENT, stated, Strategy(FIXED, initial_batch=first)),)


def of_policy(policy: PolicyRow) -> tuple[Compartment, ...]:
    return (*policy.compartments, policy.default)


def assign(compartments: Sequence[Compartment], nodes: Mapping[str, Labels]) -> dict[str, list[str]]:
    """Return the names of each compartment's nodes, in the given order.

    A node that several compartments select goes to the safest: by strategy, then the lowest ceiling, then the name.
    """
    matches = {name: [each for each in compartments if _selects(each, labels)] for name, labels in nodes.items()}
    sizes: dict[str, int] = {}
    for found in matches.values():
        for each in found:
            sizes[each.name] = sizes.get(each.name, 0) + 1
    members: dict[str, list[str]] = {each.name: [] for each in compartments}
    for name, found in matches.items():
        chosen = min(found, key=lambda each: _safety(each, sizes[each.name])).name if found else DEFAULT_COMPARTMENT
        members.setdefault(chosen, []).append(name)
    return members


def _selects(compartment: Compartment, labels: Labels) -> bool:
    return compartment.selector is not None and compartment.selector.matches(labels)


def _safety(compartment: Compartment, matched: int) -> tuple[int, int, str]:
    limit = max(1, ceiling(compartment.budget, matched))
    return STRATEGIES.index(compartment.strategy.kind), limit, compartment.name


def batch_size(strategy: Strategy, last: BatchState, total: int, processed: int) -> int:
    """Return the size of the next batch that the strategy asks for, before budgets."""
    if not total:
        return 0
    careful = last.last_batch_failed and processed * 100 // total < strategy.safety_limit
    size = _grown(strategy, last.last_batch_size, total, careful=careful)
    return max(1, min(size, total - processed))


def _grown(strategy: Strategy, last: int, total: int, *, careful: bool) -> int:
    if strategy.kind == LINEAR and last:
        return max(1, last - strategy.delta) if careful else last + strategy.delta
    if strategy.kind == EXPONENTIAL and last:
        grown = max(1, last // strategy.growth_factor) if careful else last * strategy.growth_factor
        return min(grown, total)
    return strategy.initial_batch


class BatchResult(msgspec.Struct, frozen=True):
    """The numbers of one ended batch and of its compartment.

    `succeeded`, `failed`: nodes of the batch. `completed_nodes`, `failed_nodes`, `total`: nodes of the compartment.
    """

    succeeded: int
    failed: int
    completed_nodes: int
    failed_nodes: int
    total: int


def evaluate_batch(state: BatchState, strategy: Strategy, result: BatchResult) -> BatchState:
    """Return the batch state after a batch has ended; unchanged if no node of it has succeeded or failed."""
    size = result.succeeded + result.failed
    if not size:
        return state
    failed = result.succeeded * 100 // size < strategy.batch_threshold
    failures = state.consecutive_failures + 1 if failed else 0
    progress = (result.completed_nodes + result.failed_nodes) * 100 // max(1, result.total)
    threshold = strategy.failure_threshold
    stops = failed and threshold is not None and progress < strategy.safety_limit and failures >= threshold
    return BatchState(
        current_batch=state.current_batch + 1,
        consecutive_failures=failures,
        completed_nodes=result.completed_nodes,
        failed_nodes=result.failed_nodes,
        should_stop=state.should_stop or stops,
        last_batch_size=size,
        last_batch_failed=failed,
    )
