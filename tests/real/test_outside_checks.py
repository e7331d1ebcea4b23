"""Checks that ask other systems, in the whole process: a Prometheus that is away, and objects of a kind that is not served."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.real.profiles import PROFILE, STATE, label_of
from tests.rig.kwok import Kwok
from tests.rig.operator import MaintenanceController
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.wait import eventually

FAILURES = 'maintenance_controller_transition_failure_count{{profile="{}"}}'


def config(port: int) -> str:
    return f"""
intervals: {{requeue: 1s}}
instances:
  check:
  - {{type: prometheusInstant, name: load, config: {{url: "http://127.0.0.1:{port}", query: up, expr: value > 1}}}}
  - {{type: checkHypervisor, name: evicted, config: {{evicted: true}}}}
profiles:
- name: quiet
  operational: {{transitions: [{{check: load, next: maintenance-required}}]}}
- name: kvm
  operational: {{transitions: [{{check: evicted, next: maintenance-required}}]}}
"""


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {}, "value": [0, "1"]}]}}
        content = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None: ...


@contextmanager
def prometheus(port: int) -> Iterator[None]:
    server = ThreadingHTTPServer(("127.0.0.1", port), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.tools("etcd", "kube-apiserver", "kwok")
def test_a_failing_check_is_counted_at_its_pace_until_it_recovers(
    plane: ControlPlane, kwok: Kwok, prefix: str, tmp_path: Path
) -> None:
    (name,) = kwok.nodes(prefix, 1, labels={PROFILE: "quiet--kvm"})
    port = free_port()
    with MaintenanceController(plane, tmp_path, config(port)) as operator:

        def failures(profile: str) -> float:
            return operator.metric(FAILURES.format(profile))

        eventually(lambda: failures("quiet") >= 4, "it goes on being counted")
        with prometheus(port):
            eventually(lambda: _stands_still(lambda: failures("quiet")), "it settles")
        # The kind is not served, so that there is no such object: nothing changes, and it is counted all the same.
        before = failures("kvm")
        eventually(lambda: failures("kvm") > before >= 1, "a failure that lasts goes on being counted")
        assert label_of(plane.api().get("nodes", name), STATE) == "operational"
        operator.process.stop()
    plane.wipe(prefix)


def _stands_still(read: Callable[[], float]) -> bool:
    before = read()
    time.sleep(2.5)
    return read() == before
