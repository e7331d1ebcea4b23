"""The schema and the reference page of `maintenance.yaml`."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from haulout.surfaces.profiles.lint import lint_file
from haulout.surfaces.profiles.load import known_plugins
from haulout.surfaces.profiles.reference import page, schema

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "plugins.md"


def items(kind: str) -> Any:
    return schema(known_plugins())["properties"]["instances"]["properties"][kind]["anyOf"][0]["items"]


def config_of(kind: str, plugin: str) -> Any:
    [found] = [each for each in items(kind)["allOf"] if each["if"]["properties"]["type"] == {"const": plugin}]
    return found["then"]["properties"]["config"]


def test_every_plugin_is_described_in_its_own_words() -> None:
    lines = list(page(known_plugins()))
    plugins = known_plugins()
    for name in (*plugins.checks, *plugins.triggers, *plugins.notifiers):
        place = lines.index(f"### {name}")
        assert lines[place + 2].endswith(".")
        assert lines[place + 2][0].isupper()


def test_every_plugin_has_an_example_that_is_valid_in_a_file() -> None:
    checks, triggers, notifications = re.split(r"^## ", "\n".join(page(known_plugins())), flags=re.MULTILINE)[1:]
    plugins = known_plugins()
    written = "intervals: {requeue: 30s}\ninstances:\n"
    for kind, text, names in (
        ("check", checks, plugins.checks),
        ("trigger", triggers, plugins.triggers),
        ("notify", notifications, plugins.notifiers),
    ):
        examples = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
        assert [re.findall(r"type: (\w+)", each)[0] for each in examples] == sorted(names)
        written += f"  {kind}:\n" + "".join(indent(each, "  ") for each in examples)
    environment = {"SLACK_HOOK": "https://hooks.example.com", "SLACK_TOKEN": "t"}
    problems = lint_file(written.encode(), source="maintenance.yaml", environment=environment)
    assert [str(each) for each in problems if "is used by no profile" not in str(each)] == []


@pytest.mark.parametrize(("kind", "plugin"), [("check", "hasLabel"), ("trigger", "eviction"), ("notify", "slack")])
def test_types_are_those_that_are_installed(kind: str, plugin: str) -> None:
    assert plugin in items(kind)["properties"]["type"]["enum"]


def test_a_configuration_is_that_of_its_type() -> None:
    label = config_of("check", "hasLabel")
    assert (label["required"], set(label["properties"])) == (["key"], {"key", "value"})
    assert config_of("check", "stagger")["properties"]["duration"]["type"] == ["string", "number"]
    assert config_of("check", "wait")["properties"]["duration"]["type"] == "string"
    assert config_of("trigger", "alterHypervisor") == {"type": "object"}


def test_states_are_the_three_there_are() -> None:
    profile = schema(known_plugins())["properties"]["profiles"]["anyOf"][0]["items"]
    states = ["operational", "maintenance-required", "in-maintenance"]
    for state in states:
        transition = profile["properties"][state]["properties"]["transitions"]["anyOf"][0]["items"]
        assert transition["required"] == ["check", "next"]
        assert transition["properties"]["next"]["enum"] == states
