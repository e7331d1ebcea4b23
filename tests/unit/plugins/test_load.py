"""How plugins are found: our own, and those of other packages by entry points."""

from __future__ import annotations

import importlib
import inspect
import sys
import textwrap
from pathlib import Path

import pytest

from haulout.plugins.api import Config, check
from haulout.plugins.load import PluginProblem, Registry, load_plugins

PLUGIN = """
from haulout.plugins.api import CheckInput, Config, TriggerInput, Verdict, check, trigger

class Weekday(Config, frozen=True, kw_only=True):
    day: str

@check("weekday", Weekday)
def weekday(config, given):
    return Verdict(passed=False)

@trigger("weekday", Weekday)
def remember(config, given):
    return given.node

@check("hasLabel", Weekday)
def has_label(config, given):
    return Verdict(passed=True)

def undecorated(config, given):
    return Verdict(passed=True)
"""


def offer(folder: Path, module: str, group: str, value: str, source: str = PLUGIN) -> None:
    """Write a package as pip would install it: a module, and its entry points."""
    (folder / f"{module}.py").write_text(textwrap.dedent(source))
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nsome-name = {module}:{value}\n")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        monkeypatch.delitem(sys.modules, name)
    return tmp_path


def loaded() -> Registry:
    return load_plugins()


def test_what_lies_beside_is_found_by_being_there() -> None:
    registry = loaded()
    assert {"hasLabel", "wait", "maxMaintenance"} <= set(registry.checks)
    assert "alterLabel" in registry.triggers
    assert all(name == plugin.name for name, plugin in registry.checks.items())


@pytest.mark.parametrize(
    ("group", "value"), [("haulout.checks", "weekday"), ("haulout.triggers", "remember")], ids=["check", "trigger"]
)
def test_another_package_brings_a_plugin_by_entry_point(site: Path, group: str, value: str) -> None:
    before = loaded()
    offer(site, "acme_found", group, value)
    after = loaded()
    assert set(after.checks) - set(before.checks) == ({"weekday"} if value == "weekday" else set())
    assert set(after.triggers) - set(before.triggers) == ({"weekday"} if value == "remember" else set())


def test_it_does_not_take_the_name_of_one_of_ours(site: Path) -> None:
    offer(site, "acme_thief", "haulout.checks", "has_label")
    assert loaded().checks["hasLabel"].config.__name__ == "HasLabel"


@pytest.mark.parametrize(
    ("value", "source", "problem"),
    [
        pytest.param(
            "undecorated",
            PLUGIN,
            "check plugin some-name (acme_bad:undecorated) of acme_bad is no check "
            "(decorate it with @check of haulout.plugins.api)",
            id="not decorated",
        ),
        pytest.param(
            "remember",
            PLUGIN,
            "check plugin some-name (acme_bad:remember) of acme_bad is no check "
            "(decorate it with @check of haulout.plugins.api)",
            id="a trigger among the checks",
        ),
        pytest.param(
            "absent",
            PLUGIN,
            "check plugin some-name (acme_bad:absent) of acme_bad cannot be loaded: AttributeError: "
            "module 'acme_bad' has no attribute 'absent'",
            id="not there",
        ),
        pytest.param(
            "weekday",
            "import nothing_of_that_name",
            "check plugin some-name (acme_bad:weekday) of acme_bad cannot be loaded: ModuleNotFoundError: "
            "No module named 'nothing_of_that_name'",
            id="cannot be imported",
        ),
        pytest.param(
            "weekday",
            "def broken(:",
            "check plugin some-name (acme_bad:weekday) of acme_bad cannot be loaded: SyntaxError: "
            "invalid syntax (acme_bad.py, line 1)",
            id="is no Python",
        ),
    ],
)
def test_what_is_no_plugin_is_named_with_its_package(site: Path, value: str, source: str, problem: str) -> None:
    offer(site, "acme_bad", "haulout.checks", value, source)
    with pytest.raises(PluginProblem) as caught:
        loaded()
    assert str(caught.value) == problem


def test_every_check_of_ours_names_a_probe_that_there_is() -> None:
    named = [check.probe for check in load_plugins().checks.values() if check.probe]
    assert named
    for path in named:
        module, _, function = path.partition(":")
        assert inspect.iscoroutinefunction(getattr(importlib.import_module(module), function))


def test_a_probe_is_named_by_its_module_and_function() -> None:
    with pytest.raises(ValueError, match=r"check x: the probe 'a\.b' is not written as module:function"):
        check("x", Config, probe="a.b")
