"""A roll behind a gate on the real control plane: Prometheus reports errors, and the last version is restored."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.real.test_packages_fleet import MANAGED, SKYHOOKS, P
from tests.rig.api import CRDS, ApiError, Json
from tests.rig.kwok import Kwok
from tests.rig.operator import SkyhookOperator
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.rights import grant, printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

POLICIES = "skyhook.nvidia.com/v1alpha1/deploymentpolicies"
NODES = 2


@contextmanager
def prometheus(port: int, value: float) -> Iterator[None]:
    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            result = [{"metric": {}, "value": [0, str(value)]}]
            content = json.dumps({"status": "success", "data": {"resultType": "vector", "result": result}}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", port), Answer)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()


def test_an_alarm_after_the_first_wave_takes_the_roll_back(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path
) -> None:
    api, name, port = managed_plane.api(), managed_namespace, free_port()
    for crd in printed("crds", "packages"):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    eventually(lambda: api.items(SKYHOOKS) is not None, "Skyhooks are served", refused=(ApiError,))
    managed_kwok.nodes(name, NODES, labels={MANAGED: name})
    gate: Json = {"soak": "1s", "rollback": True}
    default = {"budget": {"count": 2}, "strategy": {"fixed": {"initialBatch": 2}}}
    policy = {"apiVersion": f"{P}v1alpha1", "kind": "DeploymentPolicy", "metadata": {"name": name}}
    api.create(POLICIES, {**policy, "spec": {"default": default, "gate": gate}})
    spec = {
        "nodeSelectors": {"matchLabels": {MANAGED: name}},
        "deploymentPolicy": name,
        "packages": {"base": {"version": "1.0.0", "image": "reg.test/base"}},
    }

    def status() -> Json:
        found: Json = api.get(SKYHOOKS, name).get("status", {})
        return found

    def said(kind: str) -> tuple[str, str]:
        found = (each for each in status().get("conditions", []) if each["type"] == f"{P}{kind}")
        return next(((each["reason"], each["message"]) for each in found), ("", ""))

    def versions() -> list[str]:
        nodes = api.items("nodes", labelSelector=f"{MANAGED}={name}")
        return [",".join(json.loads(each["metadata"]["annotations"][f"{P}nodeState_{name}"])) for each in nodes]

    def uninstallations() -> set[str]:
        told = api.items("events", "default", fieldSelector=f"involvedObject.name={name}")
        return {each["message"] for each in told if "stage [uninstall]" in each["message"]}

    user = grant(managed_plane, name, "kernel", "packages", "-n", name, f"--packages-namespace={name}").user
    with SkyhookOperator(managed_plane, tmp_path, name, user=user, ALLOW_HTTP_PROMETHEUS="true") as operator:
        metadata = {"name": name}
        api.create(SKYHOOKS, {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": metadata, "spec": spec})
        eventually(lambda: "lastComplete" in status(), "the first version is complete everywhere")
        query = {"url": f"http://127.0.0.1:{port}", "query": "errors", "expr": "value < 3"}
        api.patch(POLICIES, name, {"spec": {"gate": {"prometheus": query}}})
        with prometheus(port, 7):
            api.patch(SKYHOOKS, name, {"spec": {"packages": {"base": {"version": "2.0.0"}}}})
            eventually(lambda: status().get("halt", {}).get("rollback") == "done", "it is rolled back")
        assert versions() == ["base|1.0.0"] * NODES
        assert said("Halted")[0] == "QueryNotFulfilled"
        halted = f'skyhook_rollout_halted{{policy_name="{name}",skyhook_name="{name}"}}'
        eventually(lambda: operator.metric(halted) == 1, "the metric shows it")
        eventually(lambda: len(uninstallations()) == NODES, "each uninstallation is told")
