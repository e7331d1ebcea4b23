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
    [speed, sla] = lint_file(WRONG, "notify.yaml", {})
    known = "known: enabled, match, dryRun, interval, budgets,"
    assert str(speed).startswith(f"notify.yaml:3:37: error: operators.scheduler.speed: there is no such key ({known}")
    assert str(sla) == "notify.yaml:5:15: error: operators.drainer.afterSLA: Never is not known (one of Force, Keep)"


def test_what_is_said_in_vain_is_a_warning() -> None:
    [found] = lint_file(VAIN, "x.yaml", {})
    assert (found.severity, found.path) == ("warning", "operators.runner.defaultClient")


ODD = b"""\
slaPeriod: 1h
operator: {}
operators:
  scheduler: {enabled: true}
  drainer: {enabled: true, maxConcurrentEvictions: 0}
  runner:
    enabled: true
    enabled: true
    maxConcurrent: 0
    recipes:
    - name: a
      type: webhook
      url: https://x
      namespace: n
      checks: {}
"""


def test_what_has_no_effect_is_a_warning_at_its_place() -> None:
    assert [(each.severity, each.line, each.path) for each in lint_file(ODD, "x.yaml", {})] == [
        ("warning", 2, "operator"),
        ("warning", 4, "operators.scheduler"),
        ("warning", 5, "operators.drainer.maxConcurrentEvictions"),
        ("warning", 8, "operators.runner.enabled"),
        ("warning", 9, "operators.runner.maxConcurrent"),
        ("warning", 14, "operators.runner.recipes.0.namespace"),
        ("warning", 15, "operators.runner.recipes.0.checks"),
    ]


def test_a_good_file_is_good() -> None:
    assert lint_file(b"slaPeriod: 8h\ntenants: []\n", "x.yaml", {}) == []


def test_the_example_is_good() -> None:
    path = Path(__file__).parents[3] / "examples" / "notify" / "notifyMaintenanceConfig.yaml"
    assert lint_file(path.read_bytes(), str(path), {}) == []


PLAYBOOK = b"""\
slaPeriod: 1h
operators:
  runner:
    enabled: true
    recipes:
    - name: a
      type: ansible
      namespace: n
      image: i
      playbook: {configMap: c, key: k}
      sshKeySecret: {name: s, key: k}
"""


def test_a_playbook_without_host_keys_is_a_warning() -> None:
    [found] = lint_file(PLAYBOOK, "x.yaml", {})
    assert (found.severity, found.path) == ("warning", "operators.runner.recipes.0")
    assert lint_file(PLAYBOOK + b"      knownHosts: {configMap: c, key: k}\n", "x.yaml", {}) == []
