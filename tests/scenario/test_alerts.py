"""Each alert fires when it should, and its runbook is a heading of the page about troubles."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.build.promql import Alert, firing, seconds, series
from tools.promtool import promtool

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "deploy/monitoring/prometheus-rule.yaml").read_text())["spec"]["groups"][0]["rules"]
ALERTS = {rule["alert"]: rule for rule in RULES}
TESTS = yaml.safe_load((Path(__file__).parent / "alerts.yaml").read_text())
PAGE = (ROOT / "docs/troubleshooting.md").read_text()
SITE = "https://haulout.dev/troubleshooting/#"
CASES = [
    pytest.param(test, case, id=f"{case['alertname']}-{case['eval_time']}")
    for test in TESTS["tests"]
    for case in test["alert_rule_test"]
]


@pytest.mark.parametrize(("test", "case"), CASES)
def test_it_fires_exactly_then(test: dict[str, Any], case: dict[str, Any]) -> None:
    interval = seconds(test["interval"])
    data = [series(each["series"], each["values"], interval) for each in test["input_series"]]
    rule = ALERTS[case["alertname"]]
    found = firing(rule, data, seconds(case["eval_time"]), seconds(TESTS["evaluation_interval"]))
    expected = (Alert(rule["alert"], tuple(sorted(each["exp_labels"].items()))) for each in case["exp_alerts"])
    assert sorted(found) == sorted(expected)


def test_promtool_agrees(tmp_path: Path) -> None:
    """The program of Prometheus itself. It compares annotations, too, which the cases leave out."""
    program = promtool()
    if program is None:
        pytest.skip("promtool is not here (apt-get install prometheus)")
    rules = [{key: value for key, value in rule.items() if key != "annotations"} for rule in RULES]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "haulout", "rules": rules}]}))
    (tmp_path / "alerts.yaml").write_text(yaml.safe_dump(TESTS))
    argv = [str(program), "test", "rules", "alerts.yaml"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout


def test_every_alert_is_seen_to_fire() -> None:
    cases = (case for test in TESTS["tests"] for case in test["alert_rule_test"])
    assert {case["alertname"] for case in cases if case["exp_alerts"]} == ALERTS.keys()


@pytest.mark.parametrize("name", ALERTS)
def test_its_runbook_is_a_heading_that_ends_with_a_command(name: str) -> None:
    assert ALERTS[name]["annotations"]["runbook_url"] == f"{SITE}{name.lower()}"
    _, _, rest = PAGE.partition(f"\n### {name}\n")
    section = rest.partition("\n#")[0].rstrip().splitlines()
    assert section
    assert section[-1].startswith("    ")


def test_every_heading_of_an_alert_has_one() -> None:
    headings = {line.removeprefix("### ") for line in PAGE.splitlines() if line.startswith("### Haulout")}
    assert headings == ALERTS.keys()


def test_the_table_lists_every_alert() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert [line.split("`")[1] for line in page.splitlines() if line.startswith("| `Haulout")] == list(ALERTS)
