"""The command line of `haulout as node-maintenance-operator`, beyond what Go's flag package checks."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from haulout.cli.original import start
from haulout.settings.settings import Settings
from haulout.surfaces.nodemaintenance.declare import SURFACE
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings


def main(words: Sequence[str]) -> int | Settings:
    return start(SURFACE, words)


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("--lease-duration=0s", "at least 1s"),
        ("--lease-duration=-5s", "at least 1s"),
        ("--skip-unreachable-after=-1s", "0s for never"),
        ("--max-concurrent-maintenances=-1", "0 or more"),
        ("--timeout-seconds=-1", "0 or more"),
        ("--deadline-action=Shout", "one of Fail, ForceDelete"),
        ("--pod-selector=a in b)", "expected"),
    ],
)
def test_a_value_that_cannot_be_meant_is_a_flag_error(
    word: str, right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([word]) == 2
    name = word.strip("-").partition("=")[0]
    said = capsys.readouterr().err.splitlines()[0]
    assert said.startswith("invalid value ")
    assert f"for flag -{name}: " in said
    assert right in said


def test_the_graces_own_and_no_selector_can_be_asked_for() -> None:
    assert isinstance(main(["--grace-period-seconds=-1", "--pod-selector="]), Settings)


def test_the_namespace_of_leases_stands_in_the_environment(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LEASE_NAMESPACE", "held")
    made = main([])
    assert isinstance(made, Settings)
    assert made.blocks == {"nodemaintenance": NodeMaintenanceSettings(lease_namespace="held", restore_node_state=False)}
    monkeypatch.setenv("LEASE_NAMESPACE", "")
    assert main([]) == 1
    assert capsys.readouterr().err.startswith("LEASE_NAMESPACE is set, but empty")
