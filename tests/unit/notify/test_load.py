"""The configuration file: what it means, and what is wrong with it, each with its place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.surfaces.notify.load import load, schema
from haulout.surfaces.notify.options import Options


def problems(text: str) -> list[str]:
    read = load(text)
    assert isinstance(read, tuple), "it is valid"
    return [f"{'.'.join(each.path)}: {each.what}" for each in read]


def read(text: str) -> Options:
    made = load(text)
    assert isinstance(made, Options), made
    return made


@pytest.mark.parametrize(
    ("text", "period"),
    [
        ("slaPeriod: 5h", timedelta(hours=5)),
        ("slaPeriod: 1h30m", timedelta(minutes=90)),
        ("slaPeriod: 250ms", timedelta(milliseconds=250)),
        ("slaPeriod: 90000000000", timedelta(seconds=90)),
        ('{"slaPeriod": "90s", "tenants": [1], "operators": {}}', timedelta(seconds=90)),
    ],
)
def test_periods(text: str, period: timedelta) -> None:
    assert read(text).sla_for == period


@pytest.mark.parametrize(
    "text",
    ["", "other: 1", "slaPeriod: 0s", "slaPeriod: -5m", "slaPeriod: soon", "slaPeriod: [", "slaPeriod: 1.5", "[]"],
)
def test_files_without_a_period(text: str) -> None:
    assert len(problems(text)) == 1


def test_all_operators_are_off_by_default() -> None:
    operators = read("slaPeriod: 1h").operators
    names = ("scheduler", "drainer", "runner", "validator", "returner")
    assert not any(getattr(operators, name).enabled for name in names)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("scheduler: {speed: 1}", "operators.scheduler.speed: there is no such key"),
        ("scheduler: {minLikelihood: 1.5}", "operators.scheduler.minLikelihood: 1.5 is not from 0 to 1"),
        ("scheduler: {failureThreshold: -1}", "operators.scheduler.failureThreshold: must not be below 0"),
        ("scheduler: {starvationAfter: -5m}", "operators.scheduler.starvationAfter: must not be below 0"),
        (
            "scheduler: {alertGate: {url: prometheus, query: ALERTS}}",
            "operators.scheduler.alertGate.url: is not the address of a Prometheus server",
        ),
        (
            "scheduler: {alertGate: {url: https://x, query: ' '}}",
            "operators.scheduler.alertGate.query: must not be empty",
        ),
        (
            "scheduler: {blackouts: [{from: '2027-01-02T00:00:00Z', to: '2026-12-23T00:00:00Z'}]}",
            "operators.scheduler.blackouts.0.to: the blackout ends before it begins (2027-01-02T00:00:00Z)",
        ),
        ("nobody: {}", "operators.nobody: there is no such key"),
        ("scheduler: {match: {speed: 1}}", "operators.scheduler.match.speed: there is no such key"),
        ("scheduler: {enabled: perhaps}", "operators.scheduler.enabled: Expected `bool`, got `str`"),
        ("scheduler: {halfLife: 15}", "operators.scheduler.halfLife: a duration is text with a unit, as 90s or 1h30m"),
        (
            "scheduler: {budgets: [{name: a, maxUnavailable: many}]}",
            "operators.scheduler.budgets.0.maxUnavailable: many is neither a number nor a percentage",
        ),
        ("drainer: {maxConcurrentEvictions: -1}", "operators.drainer.maxConcurrentEvictions: must not be below 0"),
        ("drainer: {settle: -5s}", "operators.drainer.settle: must not be below 0"),
        ("runner: {maxConcurrent: -1}", "operators.runner.maxConcurrent: must not be below 0"),
        (
            "runner: {recipes: [{name: a, type: webhook, url: https://x, timeout: 0s}]}",
            "operators.runner.recipes.0.timeout: must be above 0",
        ),
        (
            "runner: {recipes: [{name: a, type: webhook, url: https://x, requestRetries: -1}]}",
            "operators.runner.recipes.0.requestRetries: must not be below 0",
        ),
        ("drainer: {afterSLA: Never}", "operators.drainer.afterSLA: Never is not known"),
        (
            "runner: {recipes: [{name: a, type: job}]}",
            "operators.runner.recipes.0.template: a recipe of type job needs it",
        ),
        ("runner: {recipes: [{name: a, type: builtin}]}", "operators.runner.recipes.0.type: builtin is not known"),
        (
            "scheduler: {windows: [{days: [Mon], start: '22:00', end: '4:00', timezone: Mars/Base}]}",
            "operators.scheduler.windows.0.timezone: unknown time zone Mars/Base (a name such as Europe/Berlin)",
        ),
    ],
)
def test_what_is_wrong_in_an_operator_is_named_by_its_path(block: str, expected: str) -> None:
    assert expected in problems(f"slaPeriod: 1h\noperators:\n  {block}\n")


def test_several_operators_tell_their_errors_at_once() -> None:
    found = problems("operators:\n  scheduler: {a: 1}\n  drainer: {b: 1}\n")
    assert [each.partition(":")[0] for each in found] == ["slaPeriod", "operators.scheduler.a", "operators.drainer.b"]


def test_an_error_has_its_place() -> None:
    made = load("slaPeriod: 1h\noperators:\n  drainer:\n    afterSLA: Never\n")
    assert isinstance(made, tuple)
    assert made[0].place is not None
    assert made[0].place.line == 4


def test_the_schema_knows_every_operator() -> None:
    made = schema()
    assert set(made["$defs"]["Operators"]["properties"]) == {"scheduler", "drainer", "runner", "validator", "returner"}


def test_the_schema_lists_the_words_that_are_known() -> None:
    blocks = schema()["$defs"]
    assert blocks["Scheduler"]["properties"]["stacking"]["enum"] == ["Join", "Hold"]
    assert blocks["Returner"]["properties"]["uncordon"]["enum"] == ["IfOwned", "Always"]
