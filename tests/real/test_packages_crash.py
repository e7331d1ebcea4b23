"""The whole life of a package with an interrupt on a real API server, with an operator that is killed again and again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.build.examples import rotating
from tests.real.test_packages_fleet import MANAGED, SKYHOOKS, P, define
from tests.rig.api import Api, Json
from tests.rig.crash import Run, leases_and_events_apart
from tests.rig.faults import FaultProxy, Write
from tests.rig.kwok import Kwok
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.wait import eventually
from tests.rig.warm import WarmProcess

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

# The operator is killed at one write in so many, in turn before and after it. In a long run there are as many lives that
# each write is killed at before and after: that takes minutes. Otherwise there is one of them, another one each day.
STRIDE = 7
LIVES = rotating(range(2 * STRIDE), 2 * STRIDE)
STAGES = [
    *("apply", "config", "interrupt", "post-interrupt"),
    *("config", "interrupt", "post-interrupt"),
    *("upgrade", "config", "interrupt", "post-interrupt"),
    "uninstall",
]


def package(version: str, text: str) -> Json:
    restart = {"type": "service", "services": ["x"]}
    return {
        "version": version,
        "image": "reg.test/base",
        "interrupt": {"type": "noop"},
        "configMap": {"a.conf": text},
        "configInterrupts": {"*.conf": restart},
    }


def live(api: Api, name: str) -> None:
    """Install a package, configure it anew, upgrade it, uninstall it and delete its Skyhook."""

    def is_complete() -> bool:
        found = api.get(SKYHOOKS, name)
        status = found.get("status", {})
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return bool(is_seen and status.get("status") == "complete")

    spec = {"nodeSelectors": {"matchLabels": {MANAGED: name}}, "packages": {"base": package("1.0.0", "1")}}
    body = {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": name}, "spec": spec}
    api.create(SKYHOOKS, body)
    eventually(is_complete, "it is complete", 120)
    for changed in (package("1.0.0", "2"), package("1.1.0", "2"), None):
        api.patch(SKYHOOKS, name, {"spec": {"packages": {"base": changed}}})
        eventually(is_complete, "it is complete again", 120)
    api.delete(SKYHOOKS, name)
    eventually(lambda: api.find(SKYHOOKS, name) is None, "it is gone")


def stages_of(plane: ControlPlane, since: int, namespace: str) -> list[str]:
    """Return the stages for which the operator has created pods, as the API server's audit log has them.

    The proxy has no record of a pod whose creation was on its way when the operator was killed at another write.
    """
    entries = plane.audit.entries(since=since, user="operator", verb="create", what="pods")
    made = [entry for entry in entries if entry.ns == namespace and entry.code == 201]
    order = sorted(made, key=lambda entry: entry.received_at)
    return [json.loads(entry.body["metadata"]["annotations"][f"{P}package"])["stage"] for entry in order]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", LIVES)
def test_killed_again_and_again_each_stage_runs_once(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_namespace: str, tmp_path: Path, first: int
) -> None:
    api, name = managed_plane.api(), managed_namespace
    define(api)
    (node,) = managed_kwok.nodes(name, 1, labels={MANAGED: name}, suffix="-n")
    since = managed_plane.audit.mark()
    with FaultProxy(managed_plane) as proxy:
        env = environment(
            KUBECONFIG=str(managed_plane.kubeconfig("operator", server=proxy.url)),
            NAMESPACE=name,
            ENABLE_WEBHOOKS="false",
            METRICS_PORT=f"127.0.0.1:{free_port()}",
            PROBE_PORT=f"127.0.0.1:{free_port()}",
        )
        process = WarmProcess("operator", [HAULOUT, "as", "skyhook-operator"], tmp_path, env=env)

        def kills(write: Write) -> bool:
            return ((write.number - first) % (2 * STRIDE), write.moment) in ((0, "before"), (STRIDE, "after"))

        with Run(proxy, process, leases_and_events_apart, kills) as run:
            live(api, name)
            assert run.killed_at is not None
    assert stages_of(managed_plane, since, name) == STAGES
    found = api.get("nodes", node)
    assert "unschedulable" not in found["spec"]
    marks = {key: value for key, value in found["metadata"]["annotations"].items() if key.startswith(P)}
    assert marks == {f"{P}nodeState_{name}": "{}"}
