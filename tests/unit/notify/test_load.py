"""The configuration file: its options, and its errors, each with its place."""

from __future__ import annotations

from datetime import timedelta

import pytest

from haulout.surfaces.notify.load import load
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
            "operators.scheduler.alertGate.url: is not the address of a web server",
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
        ("scheduler: {enabled: perhaps}", "operators.scheduler.enabled: not a truth value"),
        ("scheduler: {halfLife: 15}", "operators.scheduler.halfLife: not a duration"),
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


RECIPE = "{name: a, type: job, template: {spec: {template: {spec: {containers: [{name: c, image: x}]}}}}"
OTHERS = [
    ("core: {nodeGoneGracePeriod: -5m}", "core.nodeGoneGracePeriod: must not be below 0"),
    ("core: []", "core: a map of settings belongs here"),
    ("notifications: {sns: {events: [Started]}}", "notifications.sns.events.0: Started is not known"),
    ("notifications: {sns: {events: SLAStarted}}", "notifications.sns.events: a list belongs here"),
    ("notifications: {sns: {enabled: maybe}}", "notifications.sns.enabled: maybe is not known"),
    ("notifications: {webhook: {url: 'https://'}}", "notifications.webhook.url: is not the address of a web server"),
    (
        "notifications: {webhook: {url: 'https://x', hmacSecret: {name: x}}}",
        "notifications.webhook.hmacSecret.key: is missing",
    ),
    (
        "notifications: {webhook: {url: 'https://x', hmacSecret: {name: '', key: k}}}",
        "notifications.webhook.hmacSecret.name: must not be empty",
    ),
    (
        "notifications: {mail: {address: mail, from: a, to: [b]}}",
        "notifications.mail.address: mail is not the address of a mail server",
    ),
    (
        "notifications: {mail: {address: 'mail:25', from: a}}",
        "notifications.mail.to: is missing, and a mail server is set",
    ),
    ("operators: []", "operators: a map of settings belongs here"),
    (
        "operators: {scheduler: {budgets: [{maxUnavailable: 2}]}}",
        "operators.scheduler.budgets.0.name: is missing",
    ),
    (
        "operators: {scheduler: {budgets: [{name: a, maxUnavailable: 1.5}]}}",
        "operators.scheduler.budgets.0.maxUnavailable: neither a number nor a percentage",
    ),
    (
        "operators: {scheduler: {budgets: [{name: a, perTopology: {key: '', max: 1}}]}}",
        "operators.scheduler.budgets.0.perTopology.key: must not be empty",
    ),
    ("operators: {scheduler: {weights: {drain: .nan}}}", "operators.scheduler.weights.drain: not a number"),
    ("operators: {scheduler: {gpuResources: gpu}}", "operators.scheduler.gpuResources: a list belongs here"),
    (
        "operators: {drainer: {policies: [{action: Keep}]}}",
        "operators.drainer.policies.0.action: Keep is not known",
    ),
    (
        "operators: {drainer: {policies: [{action: Wait, restartPolicies: [never]}]}}",
        "operators.drainer.policies.0.restartPolicies.0: never is not known",
    ),
    ("operators: {drainer: {gracePeriodSeconds: -2}}", "operators.drainer.gracePeriodSeconds: must not be below -1"),
    (
        "operators: {drainer: {gracePeriodSeconds: 99999999999}}",
        "operators.drainer.gracePeriodSeconds: not a whole number",
    ),
    (
        "operators: {runner: {recipes: [{name: a, type: job, template: {spec: 3}}]}}",
        "operators.runner.recipes.0.template.spec: a map of settings belongs here",
    ),
    (
        "operators: {runner: {recipes: [{name: a, type: job, template: {spec: {template: {spec: {containers: []}}}}}]}}",
        "operators.runner.recipes.0.template.spec.template.spec.containers: must not be empty",
    ),
    (
        f"operators: {{runner: {{recipes: [{RECIPE}, namespace: '@mn'}}]}}}}",
        "operators.runner.recipes.0.namespace: '@mn' is not the name of a namespace",
    ),
    (
        f"operators: {{runner: {{recipes: [{RECIPE}, success: {{readyFor: -1s}}}}]}}}}",
        "operators.runner.recipes.0.success.readyFor: must not be below 0",
    ),
    (
        "operators: {runner: {recipes: [{name: a, type: webhook, url: 'ftp://x'}]}}",
        "operators.runner.recipes.0.url: is not the address of a web server",
    ),
    (
        "operators: {validator: {recipes: [{name: a, type: builtin, checks: {checksTimeout: -1s}}]}}",
        "operators.validator.recipes.0.checks.checksTimeout: must not be below 0",
    ),
]


@pytest.mark.parametrize(("text", "expected"), OTHERS)
def test_what_is_wrong_elsewhere_is_named_by_its_path(text: str, expected: str) -> None:
    assert expected in problems(f"slaPeriod: 1h\n{text}\n")


def test_every_problem_says_what_would_be_right() -> None:
    for text, _ in OTHERS:
        made = load(f"slaPeriod: 1h\n{text}\n")
        assert isinstance(made, tuple)
        assert all(each.right for each in made), text


def test_a_mistyped_key_is_told_with_the_one_that_is_similar() -> None:
    made = load("slaPeriod: 1h\noperators: {scheduler: {weights: {drian: 1}}}\n")
    assert isinstance(made, tuple)
    assert [each.right for each in made] == ['did you mean "drain"?']


def test_everything_that_is_wrong_is_told_at_once_from_top_to_bottom() -> None:
    found = problems(
        "operators:\n  scheduler: {enabled: perhaps, stacking: Never}\n  drainer: {settle: -1s, policies: [{}]}\n"
        "slaPeriod: soon\nnotifications: {mail: {address: 'mail:25', to: me}}\n"
    )
    assert [each.partition(":")[0] for each in found] == [
        *("operators.scheduler.enabled", "operators.scheduler.stacking", "operators.drainer.settle"),
        *("operators.drainer.policies.0.action", "slaPeriod", "notifications.mail.from", "notifications.mail.to"),
    ]


@pytest.mark.parametrize("key", ["core", "notifications", "operators"])
def test_a_block_of_which_all_is_commented_out_counts_as_absent(key: str) -> None:
    assert read(f"slaPeriod: 1h\n{key}:\n  # nothing\n") == read("slaPeriod: 1h\n")


def test_several_operators_tell_their_errors_at_once() -> None:
    found = problems("operators:\n  scheduler: {a: 1}\n  drainer: {b: 1}\n")
    assert [each.partition(":")[0] for each in found] == ["slaPeriod", "operators.scheduler.a", "operators.drainer.b"]


def test_an_error_has_its_place() -> None:
    made = load("slaPeriod: 1h\noperators:\n  drainer:\n    afterSLA: Never\n")
    assert isinstance(made, tuple)
    assert made[0].place is not None
    assert made[0].place.line == 4
