"""prometheusInstant: its judgement, without the probe, and its use in a profile."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.cluster.rows import Value
from haulout.cluster.view import FactDemand
from haulout.plugins.checks.prometheus_instant import PROBE, Sample
from tests.build.checks import judged, refusal
from tests.build.profiles import Profiles, config_text, worker
from tests.build.rows import node

DEMAND = FactDemand(PROBE, ("http://prom", "up"), timedelta(seconds=30))
CONFIG = "{{url: http://prom, query: up, expr: {expr}}}"
INFO = {"url": "http://prom", "query": "up"}


def answered(value: str, *warnings: str) -> Value:
    return Value(key=DEMAND.key, value=Sample(value, warnings), state="fresh")


def failed(times: int) -> Value:
    return Value(key=DEMAND.key, error="failed to query prometheus http://prom: no", state="unknown", failures=times)


@pytest.mark.parametrize(
    ("expr", "value", "passes"),
    [
        pytest.param("value > 3", "3.5", True, id="holds"),
        pytest.param("value > 3", "3", False, id="does not hold"),
        pytest.param("value", "0.1", True, id="a number that is not zero"),
        pytest.param("value - 1", "1", False, id="zero"),
        pytest.param("value > 3", "NaN", False, id="no number is not greater"),
        pytest.param("value > 3", "+Inf", True, id="infinite"),
    ],
)
def test_passes(expr: str, value: str, passes: bool) -> None:
    assert judged("prometheusInstant", CONFIG.format(expr=f'"{expr}"'), node("n"), answered(value)).passed is passes


def test_says_what_it_asked_and_what_was_answered() -> None:
    verdict = judged("prometheusInstant", CONFIG.format(expr="value"), node("n"), answered("2", "slow"))
    assert verdict.info == {**INFO, "expr": "value", "value": 2.0, "warns": ["slow"]}


def test_nothing_is_said_before_the_first_answer() -> None:
    verdict = judged("prometheusInstant", CONFIG.format(expr="value"))
    assert (verdict.known, verdict.passed, verdict.error) == (False, False, "")


@pytest.mark.parametrize("expr", ['""', '"value >"', "other"])
def test_a_bad_expression_is_an_error_when_it_is_asked(expr: str) -> None:
    verdict = judged("prometheusInstant", CONFIG.format(expr=expr), node("n"), answered("1"))
    assert verdict.error.startswith("failed to evaluate prometheus expression: ")


def test_needs_a_url() -> None:
    assert refusal("check", "prometheusInstant", "{query: up}") == "string value is not set"


def profiles() -> Profiles:
    text = config_text(
        "- {name: p, operational: {transitions: [{check: a && !m, next: maintenance-required}]}}\n"
        "- {name: q, operational: {transitions: [{check: a, next: maintenance-required}]}}\n",
        checks=f"- {{type: prometheusInstant, name: m, config: {CONFIG.format(expr='value > 3')}}}",
    )
    return Profiles(text, worker(profiles="p--q", a="1")).settle()


def test_a_profile_waits_for_the_first_answer_and_others_do_not() -> None:
    world = profiles()
    assert world.current() == {"p": "operational", "q": "maintenance-required"}
    assert not world.counted
    world.desk.store.write(answered("1"))
    assert world.settle().current()["p"] == "maintenance-required"


def test_every_failed_renewal_is_counted_and_the_first_is_told() -> None:
    world = profiles()
    for times in (1, 2, 3):
        world.desk.store.write(failed(times))
        world.desk.run()
        assert len(world.counted) == times
    assert len([note for note in world.notes if "At least one check plugin failed" in note]) == 1
    assert world.current()["p"] == "operational"
    world.desk.store.write(answered("1"))
    world.settle()
    assert len(world.counted) == 3
    assert world.current()["p"] == "maintenance-required"
