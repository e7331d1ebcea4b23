"""`haulout plan`: what it forecasts, in which order, and what it says nodes wait for."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest

from haulout.cli.root import main
from haulout.plan.command import plan
from haulout.plan.document import Document
from haulout.settings.settings import PlanSettings

CONFIG = """
intervals: {requeue: 30s}
instances:
  check:
  - {type: hasLabel, name: wanted, config: {key: wanted}}
  - {type: hasLabel, name: booted, config: {key: booted}}
  - {type: timeWindow, name: night, config: {start: "22:00", end: "04:00", weekdays: [thursday], allowOvernight: true}}
  - {type: maxMaintenance, name: few, config: {max: 1, groupBy: [topology.kubernetes.io/zone]}}
  trigger:
  - {type: alterLabel, name: done, config: {key: wanted, remove: true}}
  - {type: eviction, name: cordon, config: {action: cordon}}
  - {type: eviction, name: drain, config: {action: drain}}
  - {type: eviction, name: uncordon, config: {action: uncordon}}
profiles:
- name: image
  operational: {transitions: [{check: wanted, next: maintenance-required}]}
  maintenance-required: {transitions: [{check: night && few, next: in-maintenance, trigger: cordon}]}
  in-maintenance: {enter: drain, transitions: [{check: booted, trigger: done && uncordon, next: operational}]}
"""
WORDS = ("--profile", "image", "--set", "wanted=v2", "--at", "2026-04-01T12:00:00Z")
BOOT = ("--after", "in-maintenance=40m:booted=v2")
OPENS = datetime(2026, 4, 2, 22, tzinfo=UTC)


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "maintenance.yaml"
    path.write_text(CONFIG)
    return str(path)


def planned(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    made = main(["plan", *words, "-o", "json"])
    assert isinstance(made, PlanSettings)
    assert plan(made) == 0
    out = capsys.readouterr().out
    # The schema is made of the same type: `haulout schema plan`.
    msgspec.json.decode(out, type=Document)
    return json.loads(out)


def entered(found: Any) -> dict[str, datetime]:
    return {
        node["name"]: datetime.fromisoformat(span["from"])
        for node in found["nodes"]
        for span in node["states"]
        if span["state"] == "in-maintenance"
    }


def test_nodes_go_in_the_window_one_of_a_zone_at_a_time(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, "--config", config, "--nodes", "6", "--zones", "2", *WORDS, *BOOT)
    rounds = sorted(entered(found).values())
    assert [(at - OPENS) // timedelta(minutes=40) for at in rounds] == [0, 0, 1, 1, 2, 2]
    assert datetime.fromisoformat(found["finishedAt"]) - OPENS - timedelta(hours=2) < timedelta(minutes=1)
    causes = [each["cause"] for each in found["waitedFor"]]
    assert causes[0] == "night: the time window 22:00-04:00 UTC on thursday is closed"
    assert any("1 of 1" in cause for cause in causes)


def test_the_same_plan_every_time(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--config", config, "--nodes", "6", *WORDS, *BOOT)
    assert planned(capsys, *words) == planned(capsys, *words)


def test_what_nobody_does_is_waited_for_to_the_end(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, "--config", config, "--nodes", "1", *WORDS)
    assert found["finishedAt"] is None
    assert found["nodes"][0]["waitsFor"] == "booted: the label booted is missing on the node"


def test_a_snapshot_is_planned_with_its_workloads(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"uid": "1", "resourceVersion": "7"}, "status": {"x": 1}}
    nodes = [{**node, "metadata": {**node["metadata"], "name": f"n{number}"}} for number in range(3)]  # type: ignore[dict-item]
    labels = {"app": "web"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"replicas": 3, "selector": {"matchLabels": labels}, "template": pod},
    }
    guard = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"minAvailable": 3, "selector": {"matchLabels": labels}},
    }
    path = tmp_path / "snapshot.yaml"
    path.write_text(json.dumps({"kind": "List", "items": [*nodes, web, guard]}))
    found = planned(capsys, "--config", config, "--snapshot", str(path), "--days", "1.5", *WORDS, *BOOT)
    assert len(entered(found)) == 1, "the first is never drained: its budget lets no pod go"


def test_text_and_picture(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = main(["plan", "--config", config, "--nodes", "3", *WORDS, *BOOT, "--svg", str(tmp_path / "plan.svg")])
    assert isinstance(made, PlanSettings)
    assert plan(made) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["2026-04-01", "12:00", "2026-04-02", "22:40"]
    assert lines[1].startswith("node-1  .")
    assert "3 of 3 nodes finish within 30 d, the last 2026-04-02 22:40 UTC" in lines
    drawn = ET.parse(tmp_path / "plan.svg").getroot()
    # The ground, four states in the legend and two spans of each node; the window in the legend, in its row and behind the nodes.
    assert len(drawn.findall("{http://www.w3.org/2000/svg}rect")) == 1 + 4 + 2 * 3 + 3
    texts = [text.text for text in drawn.findall("{http://www.w3.org/2000/svg}text")]
    assert "window is open" in texts
    assert "open from 2026-04-02 22:00 to 2026-04-03 04:00" in (tmp_path / "plan.svg").read_text()


def test_the_document_says_when_windows_are_open(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = planned(capsys, "--config", config, "--nodes", "1", "--days", "9", *WORDS)
    assert found["windows"] == [
        {
            "name": "check night",
            "open": [
                {"from": "2026-04-02T22:00:00.000000Z", "to": "2026-04-03T04:00:00.000000Z"},
                {"from": "2026-04-09T22:00:00.000000Z", "to": "2026-04-10T04:00:00.000000Z"},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        pytest.param(("--after", "x=1m:a=b"), 2, "STATE=TIME:LABEL=VALUE", id="no state"),
        pytest.param(("--after", "in-maintenance=soon:a=b"), 2, "a time such as 30m", id="no time"),
        pytest.param(("--set", "wanted"), 2, "LABEL=VALUE", id="no value"),
        pytest.param(("--at", "tomorrow"), 2, "is no instant", id="no instant"),
        pytest.param(("--days", "-1"), 2, "a plan looks ahead", id="no future"),
    ],
)
def test_wrong_words(words: tuple[str, ...], code: int, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *words]) == code
    assert said in capsys.readouterr().err


def test_what_cannot_be_planned_says_why(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert plan(PlanSettings(config=str(tmp_path / "none.yaml"), nodes=1)) == 1
    assert "No such file" in capsys.readouterr().err
    (tmp_path / "empty.yaml").write_text("")
    assert plan(PlanSettings(config=config, snapshot=str(tmp_path / "empty.yaml"))) == 1
    assert "there are no nodes to plan for" in capsys.readouterr().err
    assert plan(PlanSettings(config=config, nodes=1, node_labels={"profiles": "ghost"})) == 1
    assert "there is no profile 'ghost' (there are: " in capsys.readouterr().err
    assert plan(PlanSettings(config=config, nodes=1, svg=str(tmp_path / "no" / "such.svg"))) == 1
    assert "such.svg: No such file or directory" in capsys.readouterr().err


def test_a_haulout_yaml_names_the_profiles(config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = tmp_path / "haulout.yaml"
    whole.write_text(f"surfaces: {{profiles: {{config: {config}}}, nodemaintenance: {{}}}}\n")
    assert plan(PlanSettings(config=str(whole), nodes=1, days=1)) == 0
    whole.write_text("surfaces: {nodemaintenance: {}}\n")
    assert plan(PlanSettings(config=str(whole), nodes=1, node_labels={"profiles": "image"})) == 1
    assert "there is no profile 'image' (there are: none)" in capsys.readouterr().err
