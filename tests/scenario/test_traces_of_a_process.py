"""`haulout run` with traces, as a process: collectors that fail, an operator that is killed, a drain by hand, a scrape."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from haulout.base import yaml
from haulout.core.logbook.trace import trace_id
from haulout.embedded import Json, Resource
from haulout.surfaces.registry import definition
from tests.build.collector import Collector, attributes
from tests.build.maintenances import MAINTENANCES
from tests.build.served import PATIENCE, Served
from tests.build.workloads import node
from tests.rig.process import free_port

RECORDS = Resource("haulout.dev", "v1alpha1", "maintenancerecords")


class Operators:
    """Operators with traces, one after the other, on one cluster."""

    def __init__(self, folder: Path, collector: Collector) -> None:
        # A dead collector would otherwise be waited for at each end.
        self.served = Served(folder, OTEL_EXPORTER_OTLP_TIMEOUT="1")
        self.collector, self.port = collector, free_port()
        self.running: subprocess.Popen[str] | None = None
        self.logged = ""

    def begin(self, endpoint: str = "", **traces: Any) -> None:
        listen = {"http": f"127.0.0.1:{self.port}", "health": "0", "webhooks": "0"}
        chosen = {"enabled": True, "endpoint": endpoint or self.collector.url, **traces}
        settings = {"listen": listen, "traces": chosen, "leader": {"elect": False}, "surfaces": {"nodemaintenance": {}}}
        (self.served.folder / "haulout.yaml").write_text(json.dumps(settings))
        self.running = self.served.start("run")

    def kill(self) -> None:
        self.end(signal.SIGKILL)

    def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self.running is not None:
            self.running.send_signal(by)
            out, err = self.running.communicate(timeout=PATIENCE)
            self.logged += out + err
            self.running = None

    def maintain(self, name: str, **notes: str) -> Json:
        """Maintain a node with pods, which behave as the notes say. Return the record of it once it is closed."""
        self.served.add_busy_node(name, f"app-{name}", 2, notes=notes)
        body = {
            "apiVersion": "nodemaintenance.medik8s.io/v1beta1",
            "kind": "NodeMaintenance",
            "metadata": {"name": name},
        }
        self.served.make({**body, "spec": {"nodeName": name, "reason": "firmware"}})
        self.served.until(lambda: self._phase(name) == "Succeeded")
        self.served.call(lambda world: world.server.delete(MAINTENANCES, "", name))
        self.served.until(lambda: bool(self.closed(name)) and not self.served.node(name)["spec"].get("unschedulable"))
        return self.closed(name)[0]

    def _phase(self, name: str) -> str:
        found = self.served.call(lambda world: world.server.get(MAINTENANCES, "", name))
        return str((found or {}).get("status", {}).get("phase", ""))

    def closed(self, name: str) -> list[Json]:
        """Return the closed records of a node."""
        found: list[Json] = self.served.call(lambda world: world.server.list(RECORDS, ""))
        return [
            each for each in found if each["spec"]["node"]["name"] == name and each.get("status", {}).get("endedAt")
        ]

    def scrape(self) -> tuple[str, str]:
        """Return the type and the text of a scrape by Prometheus."""
        accept = "application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return answer.headers["Content-Type"], answer.read().decode()


@pytest.fixture
def operators(tmp_path: Path) -> Iterator[Operators]:
    with Collector() as collector:
        made = Operators(tmp_path, collector)
        with made.served:
            made.served.make(
                *(yaml.load(definition(name)) for name in ("maintenancerecords", "nodemaintenances")),
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "medik8s-leases"}},
            )
            try:
                yield made
            finally:
                collector.goes_on.set()
                made.end()


def spans_of_node(operators: Operators, name: str) -> dict[str, Any]:
    """Return the spans of the trace of a node by their names, once the root has arrived."""

    def found() -> list[Any]:
        spans = operators.collector.traces().values()
        return [each for each in spans if attributes(each[0]).get("k8s.node.name") == name]

    operators.served.until(lambda: bool(found()))
    (spans,) = found()
    return {each.name: each for each in spans}


def test_a_maintenance_has_a_trace_and_its_duration_an_exemplar(operators: Operators) -> None:
    operators.begin(slowEviction="1s")
    # The instant of a deletion is written in whole seconds.
    record = operators.maintain("n1", **{"stops-after": "2500ms"})
    trace = trace_id(record["metadata"]["uid"])
    operators.served.until(lambda: "return" in {each.name for each in operators.collector.spans})
    spans = spans_of_node(operators, "n1")
    assert {"maintenance", "cordon", "drain", "evict", "return"} <= spans.keys()
    assert {each.trace_id.hex() for each in spans.values()} == {trace}
    assert spans["evict"].parent_span_id == spans["drain"].span_id
    assert attributes(spans["evict"])["k8s.namespace.name"] == "default"

    kind, page = operators.scrape()
    assert kind.startswith("application/openmetrics-text")
    families = {each.name: each for each in text_string_to_metric_families(page)}  # type: ignore[no-untyped-call]
    exemplars = [each.exemplar for each in families["haulout_maintenance_seconds"].samples if each.exemplar]
    assert [each.labels for each in exemplars] == [{"trace_id": trace}]
    history = operators.served.run("history", "n1", "-o", "json")
    assert json.loads(history.stdout)["records"][0]["traceId"] == trace


def test_a_drain_by_hand_has_a_trace(operators: Operators) -> None:
    operators.served.add_busy_node("n1", "app", 2)
    operators.begin()
    assert operators.served.run("drain", "n1", "--reason", "disk").returncode == 0
    assert operators.served.run("uncordon", "n1").returncode == 0
    spans = spans_of_node(operators, "n1")
    assert attributes(spans["maintenance"])["haulout.surface"] == "byhand"


@pytest.mark.parametrize("failure", ["dead", "silent", "refusing"])
def test_a_collector_that_fails_holds_no_maintenance_up(operators: Operators, failure: str) -> None:
    collector = operators.collector
    collector.status = 401
    (collector.goes_on.clear if failure == "silent" else collector.goes_on.set)()
    operators.begin(f"http://127.0.0.1:{free_port()}" if failure == "dead" else "")
    outcomes = [operators.maintain(name)["status"]["outcome"] for name in ("n1", "n2")]
    assert outcomes == ["Completed", "Completed"]
    operators.end()
    assert operators.logged.count("traces are not exported") <= 1
    assert "Traceback" not in operators.logged
    assert "Transient error" not in operators.logged


def test_a_trace_that_was_not_exported_before_a_crash_is_exported_after_it(operators: Operators) -> None:
    operators.collector.status = 503
    operators.begin()
    record = operators.maintain("n1")
    operators.kill()
    assert operators.collector.spans == []
    operators.collector.status = 200
    operators.begin()
    first = spans_of_node(operators, "n1")
    assert {each.trace_id.hex() for each in first.values()} == {trace_id(record["metadata"]["uid"])}
    ids = {each.name: each.span_id for each in first.values()}

    # The next operator repeats the same spans.
    operators.kill()
    operators.collector.spans.clear()
    operators.begin()
    assert {each.name: each.span_id for each in spans_of_node(operators, "n1").values()} == ids


def test_spans_that_wait_are_sent_at_the_end(operators: Operators) -> None:
    operators.collector.goes_on.clear()
    operators.begin()
    record = operators.maintain("n1")
    operators.collector.goes_on.set()
    operators.end()
    traces = {each.trace_id.hex() for each in operators.collector.spans}
    assert traces == {trace_id(record["metadata"]["uid"])}


def test_without_the_extra_the_process_says_what_to_install(operators: Operators) -> None:
    (operators.served.folder / "opentelemetry.py").write_text("raise ImportError\n")
    operators.served._variables["PYTHONPATH"] = str(operators.served.folder)
    operators.served.make(node("n1"))
    operators.begin()
    assert operators.running is not None
    out, err = operators.running.communicate(timeout=PATIENCE)
    assert operators.running.returncode == 1
    operators.running = None
    assert "pip install 'haulout[otel]'" in out + err
    assert "Traceback" not in out + err
