"""The surfaces clusterapi and profiles in one process, on an embedded cluster that is its own workload cluster, and what explain says."""

from __future__ import annotations

import base64
import json
import signal
from collections.abc import Iterator

import pytest

from haulout.embedded import NODES, Json, Resource
from tests.build.maintenances import definition
from tests.build.served import PATIENCE, Served
from tests.build.workloads import node

PREFIX = "runtime-extension-maintenance-controller.cloud.sap/"
HOOK = "pre-drain.delete.hook.machine.cluster.x-k8s.io/maintenance-controller"
FINALIZER = "machine.cluster.x-k8s.io/kept"
MACHINES = Resource("cluster.x-k8s.io", "v1beta2", "machines")
SECRETS = Resource("", "v1", "secrets")
SETTINGS = """
listen: {http: "0", health: "0", webhooks: "0"}
leader: {elect: false}
surfaces: {profiles: {config: maintenance.yaml}, clusterapi: {}}
"""
PROFILES = f"""
intervals: {{requeue: 60s}}
instances:
  check:
  - {{type: hasLabel, name: deleted, config: {{key: {PREFIX}machine-deleted, value: "true"}}}}
  - {{type: hasLabel, name: asked, config: {{key: {PREFIX}machine-maintenance, value: "true"}}}}
  - {{type: maxMaintenance, name: single, config: {{max: 1}}}}
  trigger:
  - {{type: alterLabel, name: let_go, config: {{key: {PREFIX}approve-deletion, value: "true"}}}}
  - {{type: alterLabel, name: let_work, config: {{key: {PREFIX}approve-maintenance, value: "true"}}}}
  - {{type: alterLabel, name: work_no_more, config: {{key: {PREFIX}approve-maintenance, remove: true}}}}
profiles:
- name: hardware
  operational: {{transitions: [{{check: deleted || asked, next: maintenance-required}}]}}
  maintenance-required:
    transitions:
    - {{check: single && deleted, trigger: let_go, next: in-maintenance}}
    - {{check: single && asked, trigger: let_work, next: in-maintenance}}
  in-maintenance: {{transitions: [{{check: "!asked && !deleted", trigger: work_no_more, next: operational}}]}}
"""


def machine(name: str, **labels: str) -> Json:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "Machine",
        "metadata": {
            "name": name,
            "finalizers": [FINALIZER],
            "labels": {f"{PREFIX}{key}": text for key, text in labels.items()},
        },
        "spec": {"clusterName": "alpha"},
    }


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served(tmp_path_factory.mktemp("clusterapi")) as made:
        (made.folder / "haulout.yaml").write_text(SETTINGS)
        (made.folder / "maintenance.yaml").write_text(PROFILES)
        made.make(definition("Machine", "cluster.x-k8s.io", "v1beta2", namespaced=True))
        for name in ("worker-0", "worker-1"):
            managed = node(name)
            managed["metadata"].setdefault("labels", {})["cloud.sap/maintenance-profile"] = "hardware"
            made.make(managed, machine(name, enabled="true"))
            refer(made, name)
        made.make(machine("left-alone"), machine("lost", enabled="true"))
        kubeconfig = base64.b64encode((made.folder / "kubeconfig").read_bytes()).decode()
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alpha-kubeconfig"}}
        made.make({**secret, "data": {"value": kubeconfig}})
        operator = made.start("run")
        try:
            made.until(lambda: hooked(made, "worker-0") and hooked(made, "worker-1"))
            yield made
        finally:
            operator.send_signal(signal.SIGTERM)
            _, logged = operator.communicate(timeout=PATIENCE)
            assert "Unclosed" not in logged


def refer(served: Served, name: str) -> None:
    """Set `status.nodeRef` of a Machine, as Cluster API does once the Node exists."""
    body = {"status": {"nodeRef": {"name": name}}}
    served.call(lambda world: world.server.patch(MACHINES, "default", name, body, subresource="status"))


def hooked(served: Served, name: str) -> bool:
    return HOOK in read(served, name)["metadata"].get("annotations", {})


def request(served: Served, name: str) -> str | None:
    found: str | None = read(served, name)["metadata"]["labels"].get(f"{PREFIX}maintenance")
    return found


def read(served: Served, name: str) -> Json:
    found = served.call(lambda world: world.server.get(MACHINES, "default", name))
    assert found is not None
    return found


def ask(served: Served, name: str, value: str | None) -> None:
    served.change(MACHINES, name, {"metadata": {"labels": {f"{PREFIX}maintenance": value}}})


def lines(served: Served, *words: str) -> list[str]:
    served.has_leader()
    done = served.run("explain", *words)
    assert (done.returncode, done.stderr) == (0, "")
    shown = done.stdout.splitlines()
    return [line for line in shown if line != "  settings: haulout.yaml" and not line.startswith("look up: ")]


def test_both_flows_and_how_they_are_explained(served: Served) -> None:
    """One after the other: what waits for the first is followed through to it."""
    assert lines(served, "machine", "worker-0") == [
        "machine default/worker-0 (workload cluster default/alpha) of node worker-0",
        "  no maintenance is requested; its deletion would wait for Node worker-0",
    ]
    ask(served, "worker-0", "requested")
    served.until(lambda: request(served, "worker-0") == "approved")
    served.call(lambda world: world.server.delete(MACHINES, "default", "worker-1"))
    told = {f"{PREFIX}machine-deleted": "true", "cloud.sap/maintenance-state": "maintenance-required"}
    served.until(lambda: told.items() <= served.node("worker-1")["metadata"]["labels"].items())
    shown = lines(served, "machine/worker-1", "--config", "maintenance.yaml")
    assert shown[0] == "machine default/worker-1 (workload cluster default/alpha, being deleted) of node worker-1"
    waits = f"  its deletion waits for label {PREFIX}approve-deletion=true on Node worker-1 (since "
    assert any(line.startswith(waits) for line in shown), shown
    assert "      profile hardware is maintenance-required" in shown
    assert "  single: 1 of 1 nodes in maintenance (worker-0)" in shown[shown.index("blocked by:") :]
    label = f"kubectl label node worker-1 {PREFIX}approve-deletion=true (in the workload cluster)"
    assert lines(served, "machine/worker-1")[-2:] == ["what would help:", f"  {label}"], (
        "where nobody else is known to agree"
    )
    assert hooked(served, "worker-1")
    ask(served, "worker-0", None)
    served.until(lambda: not hooked(served, "worker-1"))
    assert request(served, "worker-0") is None
    shown = lines(served, "ma", "worker-1", "--config", "maintenance.yaml")
    assert "  Node worker-1 is approved for deletion: Cluster API goes on" in shown


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("left-alone", f"the Machine is not enabled: label {PREFIX}enabled is not true", id="not enabled"),
        pytest.param("lost", "Cluster API has not said yet which Node is its own (status.nodeRef)", id="no Node"),
    ],
)
def test_what_is_not_connected(served: Served, name: str, why: str) -> None:
    assert f"  {why}" in lines(served, "machine", name)


def test_a_kubeconfig_that_is_gone_is_named_and_cuts_nothing_off(served: Served) -> None:
    secret = served.call(lambda world: world.server.get(SECRETS, "default", "alpha-kubeconfig"))
    assert secret is not None
    served.call(lambda world: world.server.delete(SECRETS, "default", "alpha-kubeconfig"))
    done = served.run("explain", "machine", "worker-0", "-o", "json")
    shown = json.loads(done.stdout)
    assert shown["object"] == {"kind": "machine", "name": "default/worker-0"}
    assert shown["reasons"][0]["text"].startswith("Secret default/alpha-kubeconfig does not exist")
    assert shown["act"] == "put a kubeconfig into Secret default/alpha-kubeconfig"
    ask(served, "worker-0", "requested")
    served.until(lambda: f"{PREFIX}machine-maintenance" in served.node("worker-0")["metadata"]["labels"])
    ask(served, "worker-0", None)
    served.until(lambda: f"{PREFIX}machine-maintenance" not in served.node("worker-0")["metadata"]["labels"])
    body = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "alpha-kubeconfig"}, "data": secret["data"]}
    served.make(body)


def test_a_label_that_is_taken_away_by_hand_comes_back(served: Served) -> None:
    ask(served, "worker-0", "requested")
    label = f"{PREFIX}machine-maintenance"
    served.until(lambda: label in served.node("worker-0")["metadata"]["labels"])
    served.change(NODES, "worker-0", {"metadata": {"labels": {label: None}}})
    served.until(lambda: label in served.node("worker-0")["metadata"]["labels"])
    ask(served, "worker-0", None)
    served.until(lambda: label not in served.node("worker-0")["metadata"]["labels"])


def test_settings_are_followed_although_nothing_else_happens(served: Served) -> None:
    (served.folder / "haulout.yaml").write_text(
        SETTINGS.replace("clusterapi: {}", "clusterapi: {guardRemediation: true}")
    )
    ask(served, "left-alone", "approved")
    skip = "cluster.x-k8s.io/skip-remediation"
    served.until(lambda: skip in read(served, "left-alone")["metadata"].get("annotations", {}))
    (served.folder / "haulout.yaml").write_text(SETTINGS)
    ask(served, "left-alone", None)
    served.until(lambda: skip not in read(served, "left-alone")["metadata"].get("annotations", {}))


@pytest.mark.parametrize(("name", "namespace"), [("ghost", "default"), ("fleet/ghost", "fleet")])
def test_explain_a_machine_that_is_not_there(served: Served, name: str, namespace: str) -> None:
    done = served.run("explain", "machine", name)
    assert (done.returncode, done.stderr) == (1, f"Error: there is no Machine named ghost in namespace {namespace}\n")
