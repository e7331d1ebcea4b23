"""The schema for editors agrees with the loader: it accepts all valid files, and refuses nearly all invalid ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from haulout.base import yaml
from haulout.surfaces.notify.config_file.schema import schema
from haulout.surfaces.notify.load import load
from haulout.surfaces.notify.options import Options
from tests.build.json_schema import accepts
from tests.unit.notify.test_load import OTHERS, RECIPE

EXAMPLE = Path(__file__).parents[3] / "examples" / "notify" / "notifyMaintenanceConfig.yaml"
GOOD = [
    "core:",
    "core: {nodeGoneGracePeriod: 0, allowRetry: yes}",
    "core: {nodeGoneGracePeriod: -0s}",
    "tenants: [1]",
    "notifications: {sns: {enabled: auto, events: []}, webhook: {url: ''}}",
    "notifications: {sns: {enabled: false}, mail: {address: 'mail:25', from: a, to: [b]}}",
    "notifications: {webhook: {url: 'HTTPS://x', hmacSecret: {name: a, key: b}, requestTimeout: .5s}}",
    "operators: {scheduler: }",
    "operators: {scheduler: {budgets: [{name: a, maxUnavailable: 100%, perTopology: {key: zone, max: 0}}]}}",
    "operators: {scheduler: {budgets: [{name: a, maxUnavailable: 0}], failureThreshold: 0, minLikelihood: 1}}",
    "operators: {scheduler: {windows: [{days: [], start: 9:00, end: '23:59', timezone: Europe/Berlin}]}}",
    "operators: {scheduler: {interval: -1s, starvationAfter: 0, fairness: {weights: {a: 0.5}}, alertGate: }}",
    "operators: {drainer: {pdbTimeout: -1s, gracePeriodSeconds: -1, policies: [{action: evict}, {action: Wait}]}}",
    f"operators: {{runner: {{recipes: [{RECIPE}, namespace: '@nm'}}]}}}}",
    f"operators: {{runner: {{recipes: [{RECIPE}, timeout: 1h2m3.5s, placement: OffNode}}]}}}}",
    "operators: {runner: {recipes: [{name: a, type: webhook, url: 'http://x', namespace: '', template: {}}]}}",
    "operators: {validator: {recipes: [{name: a, type: builtin, checks: {}}]}}",
]
# What is wrong with these is beyond a schema: a text of another grammar, a number that JSON does not have.
BEYOND = (".nan",)
WRONG = [text for text, _ in OTHERS if not any(each in text for each in BEYOND)]


def content(text: str) -> Any:
    return yaml.load(f"slaPeriod: 1h\n{text}\n")


@pytest.mark.parametrize("text", GOOD)
def test_what_is_loaded_is_right_by_the_schema(text: str) -> None:
    assert isinstance(load(f"slaPeriod: 1h\n{text}\n"), Options)
    assert accepts(schema(), content(text))


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_is_wrong_by_the_schema(text: str) -> None:
    assert not accepts(schema(), content(text))


@pytest.mark.parametrize("period", ["5h", "1h30m", "250ms", ".5h", "90000000000", "+1s"])
def test_periods(period: str) -> None:
    text = f"slaPeriod: {period}"
    assert isinstance(load(text), Options)
    assert accepts(schema(), yaml.load(text))


@pytest.mark.parametrize("period", ["0s", "-5m", "soon", "1.5", "", "0", "true", "'5'", "[1h]"])
def test_what_is_no_period(period: str) -> None:
    text = f"slaPeriod: {period}"
    assert not isinstance(load(text), Options)
    assert not accepts(schema(), yaml.load(text))


def test_the_example_is_right_by_the_schema() -> None:
    assert accepts(schema(), yaml.load(EXAMPLE.read_bytes()))


def test_the_schema_knows_every_operator() -> None:
    made = schema()
    assert set(made["$defs"]["Operators"]["properties"]) == {"scheduler", "drainer", "runner", "validator", "returner"}


def test_descriptions_name_keys_as_they_stand_in_the_file() -> None:
    assert "`nodeGoneGracePeriod`" in schema()["$defs"]["Core"]["description"]
