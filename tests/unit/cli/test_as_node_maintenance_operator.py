"""The command line of `haulout as node-maintenance-operator`, beyond what Go's flag package checks."""

from __future__ import annotations

import pytest

from haulout.cli.as_node_maintenance_operator import main
from haulout.settings.settings import Settings


@pytest.mark.parametrize(
    ("word", "right"),
    [
        ("--lease-duration=0s", "at least 1s"),
        ("--lease-duration=-5s", "at least 1s"),
        ("--skip-unreachable-after=-1s", "0s or more"),
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
