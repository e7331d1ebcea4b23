"""Alerts, dashboard and ServiceMonitor against a real scrape of an operator that serves all surfaces."""

from __future__ import annotations

import json
import re
import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from haulout.base import yaml as strict_yaml
from haulout.cli.root import main
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NODES
from haulout.manifests.documents import NAMESPACE
from haulout.surfaces.packages.wire import API_VERSION
from haulout.surfaces.registry import all_declarations, definition_of
from tests.build.served import PATIENCE, Served
from tests.build.skyhooks import pkg
from tests.build.workloads import node
from tests.rig.notices import notice
from tests.rig.process import free_port
from tests.scenario.test_plan_surfaces import budget, maintenance

MONITORING = Path(__file__).parents[2] / "deploy/monitoring"
NAME = re.compile(
    r"\b(?!skyhook_name\b)(?:haulout|maintenance_(?:controller|capi)|nodemaintenance|process|nm|pika|skyhook)_[a-z_]+\b"
)
BY = re.compile(r"\bby \(([\w, ]+)\)")
CONFIG = """
intervals: {requeue: 30s}
profiles: [{name: watched}]
"""
NOTIFY = """
slaPeriod: 1h
operators: {scheduler: {enabled: true, budgets: [{name: all, maxUnavailable: 1}]}}
"""
# They begin with a fault of the API server, so that a scrape of an operator without trouble has none. Their labels are declared.
# The certificate of the webhooks, which are off here, workload clusters, rollouts with gates and pauses have none either.
ABSENT = (
    *("haulout_watch_troubles_total", "haulout_refusals_total", "haulout_oversized_objects_total"),
    *("haulout_webhook_certificate_end_timestamp_seconds", "maintenance_controller_transition_failure_count"),
    *("maintenance_capi_cluster_connected", "maintenance_capi_machines", "skyhook_rollout_halted"),
    *("haulout_paused_since_timestamp_seconds", "haulout_chronic_nodes", "haulout_budget_overrides_total"),
)

Labels = dict[str, set[str]]


def expressions() -> list[str]:
    rules = yaml.safe_load((MONITORING / "prometheus-rule.yaml").read_text())["spec"]["groups"]
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return [rule["expr"] for group in rules for rule in group["rules"]] + [
        target["expr"] for panel in panels for target in panel["targets"]
    ]


def scraped(port: int, path: str = "/metrics") -> Labels:
    """Return the names of all metrics with samples, with the labels that they have."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
            text = reply.read().decode()
    except OSError:
        return {}
    found: Labels = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def settings(port: int) -> dict[str, Any]:
    blocks: dict[str, Any] = {
        each.name: {} for each in all_declarations() if each.settings is not None and not each.within
    }
    blocks["profiles"] = {"config": "maintenance.yaml"}
    blocks["notify"] = {"config": "notify.yaml"}
    return {"surfaces": blocks, "listen": {"http": f"127.0.0.1:{port}", "health": "0", "webhooks": "0"}}


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Labels]:
    """The metrics of an operator that has drained a node and met an invalid budget."""
    folder, port = tmp_path_factory.mktemp("monitoring"), free_port()
    (folder / "haulout.yaml").write_text(yaml.safe_dump(settings(port)))
    (folder / "maintenance.yaml").write_text(CONFIG)
    (folder / "notify.yaml").write_text(NOTIFY)
    with Served(folder) as served:
        definitions = [strict_yaml.load(definition_of(each, name)) for each in all_declarations() for name in each.crds]
        served.call(lambda world: [world.server.create(CUSTOM_RESOURCE_DEFINITIONS, each) for each in definitions])
        served.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        served.add_busy_node("busy", "app", 2)
        wrong = budget(1)
        wrong["metadata"]["name"] = "wrong"
        wrong["spec"] = {
            "selector": {"matchLabels": {"pool": "none"}},
            "windows": [{"from": "12:00", "timeZone": "Atlantis"}],
        }
        served.make(node("lasts"), budget(1), wrong, maintenance("one", "busy"), maintenance("two", "lasts"))
        served.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "skyhook"}})
        served.make(notice("three", "lasts", "mid") | {"metadata": {"name": "three", "namespace": "default"}})
        skyhook = {"nodeSelectors": {"matchLabels": {"kubernetes.io/hostname": "lasts"}}, "packages": {"base": pkg()}}
        served.make(
            {"apiVersion": API_VERSION, "kind": "Skyhook", "metadata": {"name": "four"}, "spec": skyhook},
        )
        served.change(NODES, "lasts", {"metadata": {"labels": {"cloud.sap/maintenance-profile": "watched"}}})
        operator = served.start("run")
        try:
            used = {name for each in expressions() for name in NAME.findall(each)} - {*ABSENT}
            found: Labels = {}

            def complete() -> bool:
                found.update(scraped(port))
                return used <= found.keys()

            served.until(lambda: operator.poll() is not None or complete())
            known = {metric.name: {*metric.labels} for each in all_declarations() for metric in each.metrics}
            yield {**{name: known[name] for name in ABSENT}, **found}
        finally:
            operator.send_signal(signal.SIGTERM)
            # The second one does not wait for one more scrape.
            operator.send_signal(signal.SIGTERM)
            operator.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_of_an_expression_is_scraped_with_the_labels_that_it_groups_by(
    expression: str, samples: Labels
) -> None:
    names = NAME.findall(expression)
    assert names
    grouped = {label for found in BY.findall(expression) for label in found.split(", ")}
    for name in names:
        assert grouped <= samples[name]


def test_the_service_monitor_selects_the_service_of_the_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifests"]) == 0
    objects = [each for each in yaml.safe_load_all(capsys.readouterr().out) if each]
    monitor = yaml.safe_load((MONITORING / "service-monitor.yaml").read_text())["spec"]
    (endpoint,) = monitor["endpoints"]
    wanted = monitor["selector"]["matchLabels"].items()
    services = [each for each in objects if each["kind"] == "Service" and wanted <= each["metadata"]["labels"].items()]
    ports = [port for each in services for port in each["spec"]["ports"] if port["name"] == endpoint["port"]]
    assert [port["port"] for port in ports] == [8080]
    assert endpoint["path"] == "/metrics"
