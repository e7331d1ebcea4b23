"""`haulout lint` of a notifyMaintenanceConfig.yaml."""

from __future__ import annotations

from pathlib import Path

from haulout.settings.lint import lint_file

WRONG = b"""\
slaPeriod: 1h
operators:
  scheduler: {enabled: true, speed: 1}
  drainer:
    afterSLA: Never
"""
VAIN = b"slaPeriod: 1h\noperators: {runner: {enabled: true, defaultClient: x}}\n"


def test_errors_have_their_places() -> None:
    assert [str(each) for each in lint_file(WRONG, "notify.yaml", {})] == [
        "notify.yaml:3:37: error: operators.scheduler.speed: there is no such key"
    ]


def test_what_is_said_in_vain_is_a_warning() -> None:
    [found] = lint_file(VAIN, "x.yaml", {})
    assert (found.severity, found.path) == ("warning", "operators.runner")


def test_a_good_file_is_good() -> None:
    assert lint_file(b"slaPeriod: 8h\ntenants: []\n", "x.yaml", {}) == []


def test_the_example_is_good() -> None:
    path = Path(__file__).parents[3] / "examples" / "notify" / "notifyMaintenanceConfig.yaml"
    assert lint_file(path.read_bytes(), str(path), {}) == []
