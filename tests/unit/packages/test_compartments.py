"""Ceilings, compartments and the sizes of batches."""

import pytest

from haulout.base.selector import parse
from haulout.surfaces.packages.skyhook.compartments import (
    BatchResult,
    assign,
    batch_size,
    ceiling,
    evaluate_batch,
    without_policy,
)
from haulout.surfaces.packages.wire import Budget
from haulout.surfaces.packages.wire_policy import Compartment, Strategy
from haulout.surfaces.packages.wire_status import FRESH_BATCH, BatchState

CEILINGS = [(10, 25, 2), (10, 30, 3), (5, 10, 1), (6, 33, 1), (2, 20, 1), (15, 20, 3), (50, 58, 28), (0, 50, 0)]


@pytest.mark.parametrize(("matched", "percent", "most"), CEILINGS)
def test_a_percentage_is_cut_off_but_never_below_one(matched: int, percent: int, most: int) -> None:
    assert ceiling(Budget(percent=percent), matched) == most


def test_a_count_is_a_ceiling_even_if_there_are_fewer_nodes() -> None:
    assert ceiling(Budget(count=7), 2) == 7


@pytest.mark.parametrize(
    ("budget", "nodes", "first"),
    [
        (None, 4, 4),
        (Budget(count=0), 4, 1),
        (Budget(percent=0), 4, 1),
        (Budget(count=9), 4, 4),
        (Budget(percent=50), 5, 2),
    ],
    ids=str,
)
def test_without_a_policy_the_budget_is_the_batch(budget: Budget | None, nodes: int, first: int) -> None:
    (compartment,) = without_policy(budget, nodes)
    assert compartment.strategy.initial_batch == first


SIZES = [
    (Strategy("fixed", initial_batch=3), BatchState(last_batch_size=3), 10, 9, 1),
    (Strategy("linear", delta=2), BatchState(last_batch_size=3), 20, 3, 5),
    (Strategy("linear", delta=2), BatchState(last_batch_size=3, last_batch_failed=True), 20, 3, 1),
    (Strategy("linear", delta=2), BatchState(last_batch_size=3, last_batch_failed=True), 20, 12, 5),
    (Strategy("exponential"), BatchState(last_batch_size=4), 20, 4, 8),
    (Strategy("exponential"), BatchState(last_batch_size=4, last_batch_failed=True), 20, 4, 2),
    (Strategy("exponential"), FRESH_BATCH, 20, 0, 1),
]


@pytest.mark.parametrize(("strategy", "last", "total", "processed", "size"), SIZES)
def test_the_size_of_the_next_batch(
    strategy: Strategy, last: BatchState, total: int, processed: int, size: int
) -> None:
    assert batch_size(strategy, last, total, processed) == size


def test_a_node_that_several_match_goes_to_the_safest() -> None:
    both = parse("a=b")
    several = (
        Compartment("fast", Budget(count=1), Strategy("exponential"), both),
        Compartment("wide", Budget(count=5), Strategy("fixed"), both),
        Compartment("narrow", Budget(count=2), Strategy("fixed"), both),
        Compartment("__default__"),
    )
    assert assign(several, {"n0": {"a": "b"}, "n1": {}}) == {
        "fast": [],
        "wide": [],
        "narrow": ["n0"],
        "__default__": ["n1"],
    }


def test_a_batch_below_its_threshold_has_failed_and_stops_the_rollout() -> None:
    strategy = Strategy(batch_threshold=60, failure_threshold=1, safety_limit=50)
    after = evaluate_batch(FRESH_BATCH, strategy, BatchResult(1, 1, 1, 1, 10))
    assert after == BatchState(2, 1, 1, 1, True, 2, True)


def test_a_batch_without_a_result_is_not_counted() -> None:
    assert evaluate_batch(FRESH_BATCH, Strategy(), BatchResult(0, 0, 3, 0, 5)) == FRESH_BATCH
