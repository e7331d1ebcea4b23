"""Packages and notify under exactly the roles that are printed: nothing is refused, and no right is unused."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real.test_packages_fleet import SKYHOOKS, P
from tests.real.test_packages_fleet import define as define_packages
from tests.real.test_rights import Scene
from tests.rig.api import Api, ApiError, Json
from tests.rig.faults import Answer, FaultProxy
from tests.rig.kwok import ENDS_AFTER, STOPS_AFTER, Kwok
from tests.rig.maintenances import BUDGETS, budget
from tests.rig.notices import CLIENT, JOBS, NMS, Workshop, notice
from tests.rig.notices import define as define_notices
from tests.rig.operator import Platform
from tests.rig.plane import ControlPlane
from tests.rig.process import free_port
from tests.rig.rights import printed
from tests.rig.wait import eventually

pytestmark = pytest.mark.tools("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok")

POLICIES = "skyhook.nvidia.com/v1alpha1/deploymentpolicies"
REGISTRATIONS = {
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
    "MutatingWebhookConfiguration": "admissionregistration.k8s.io/v1/mutatingwebhookconfigurations",
}
HMAC = b"signed"
# Repeated events about pods are shown by NodeMaintenances, whose drains are the same.
SHOWN_ELSEWHERE = {("patch", "events")}
# The objects of the other group, and the Jobs that NodeWright has made, are in tests/scenario/test_packages_units.py alone.
OF_NODEWRIGHT = {*((verb, "jobs") for verb in ("create", "patch", "delete")), ("patch", "pods")}


@pytest.fixture
def managed_proxy(managed_plane: ControlPlane) -> Iterator[FaultProxy]:
    with FaultProxy(managed_plane) as made:
        # Not every server knows streaming lists.
        made.rule(Answer(422), watch=True, query="sendInitialEvents")
        yield made


class Crew(Scene):
    """A scene with the webhooks of its surface."""

    def serve(self, surface: str, block: str, config: str = "") -> None:
        port = free_port()
        operator = self.operator = Platform(
            *(self.plane, self.folder, config, f"namespace: {self.ns}"),
            surfaces=f"{{{surface}: {{{block}lease: {{namespace: {self.ns}}}}}}}",
            user=self.granted.user,
            server=self.proxy.url,
        )
        operator.basic = operator.basic.replace('webhooks: "0"', f'webhooks: "127.0.0.1:{port}"')
        operator.settle(f"namespace: {self.ns}")
        operator.start()
        eventually(
            lambda: self.api.get("secrets", "haulout-webhook-cert", self.ns).get("data"), "a certificate is made"
        )
        self.registrations = printed("webhooks", surface, "--url", f"https://127.0.0.1:{port}")
        for each in self.registrations:
            self.api.create(REGISTRATIONS[each["kind"]], each)
        for each in self.registrations:
            eventually(lambda each=each: self._has_authority(each), "its authority is registered")  # type: ignore[misc]

    def _has_authority(self, registration: Json) -> bool:
        found = self.api.get(REGISTRATIONS[registration["kind"]], registration["metadata"]["name"])
        return all(hook["clientConfig"].get("caBundle") for hook in found["webhooks"])

    def end(self) -> None:
        for each in self.registrations:
            self.api.delete(REGISTRATIONS[each["kind"]], each["metadata"]["name"])
        self.operator.process.stop()

    def deployment(self, name: str, node: str, **spec: object) -> None:
        labels = {"app": name}
        pod = {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [{"name": "c", "image": "x"}], **spec}
        template = {"metadata": {"labels": labels, "annotations": {STOPS_AFTER: "200ms"}}, "spec": pod}
        body = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        self.api.create("apps/v1/deployments", {"metadata": {"name": name}, "spec": body}, self.ns)
        running = {"fieldSelector": "status.phase=Running", "labelSelector": f"app={name}"}
        eventually(lambda: self.api.items("pods", self.ns, **running), f"{name} runs")

    def left_over(self, since: int, surface: str) -> set[str]:
        entries = self.plane.audit.entries(since=since)
        refused = {
            f"{entry.act} {entry.of}" for entry in entries if entry.user == self.granted.user and entry.code == 403
        }
        assert refused == set()
        unused = self.granted.unused(entries)
        return {
            str(right)
            for right in unused
            if surface in right.role
            and (right.verb, right.resource) not in SHOWN_ELSEWHERE | OF_NODEWRIGHT
            and right.group != "nodewright.nvidia.com"
        }


def test_packages(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_proxy: FaultProxy, prefix: str, tmp_path: Path
) -> None:
    since = managed_plane.audit.mark()
    words = ("packages", "--delete-pods", "--original-lease={ns}", "--packages-namespace={ns}")
    scene = Crew(managed_plane, managed_proxy, tmp_path / "packages", prefix, *words)
    api, name = scene.api, scene.ns
    define_packages(api)
    evicts, deletes, gone = managed_kwok.nodes(name, 3, labels={"crew": name})
    for node in (evicts, deletes):
        api.patch("nodes", node, {"metadata": {"labels": {"kubernetes.io/hostname": node}}})
        scene.deployment(node, node)
    api.create(BUDGETS, budget("open", "nothing", minAvailable=0), name)
    for path in (f"/nodes/{evicts}$", f"/nodes/{evicts}/status$", f"/skyhooks/{name}$", f"/skyhooks/{name}/status$"):
        scene.refuse_once("PATCH", path)
    scene.refuse_once("POST", f"/namespaces/{name}/pods$")
    scene.refuse_once("POST", "/pods/.*/eviction$")
    scene.serve("packages", f"namespace: {name}, ")
    policy = {"default": {"budget": {"percent": 100}, "strategy": {"fixed": {}}}}
    kind = {"apiVersion": f"{P}v1alpha1", "kind": "DeploymentPolicy", "metadata": {"name": name}}
    # The API server and the webhook come to the same certificate in their own time.
    eventually(lambda: api.create(POLICIES, {**kind, "spec": policy}), "it is admitted", refused=(ApiError,))
    package: Json = {
        "version": "1.0.0",
        "image": "reg.test/base",
        "interrupt": {"type": "noop"},
        "configMap": {"a.conf": "one"},
    }
    for each, nodes, more in ((name, evicts, {}), (f"{name}-d", deletes, {"disableEviction": True})):
        spec = {
            "nodeSelectors": {"matchLabels": {"kubernetes.io/hostname": nodes}},
            "packages": {"base": package},
            "deploymentPolicy": name,
            "drainConfig": more,
        }
        body = {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": {"name": each}, "spec": spec}
        eventually(lambda body=body: api.create(SKYHOOKS, body), "it is admitted", refused=(Exception,))  # type: ignore[misc]

    def completes(each: str) -> None:
        def is_complete() -> bool:
            found = api.get(SKYHOOKS, each)
            status = found.get("status", {})
            is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
            return bool(is_seen and status.get("status") == "complete")

        eventually(is_complete, f"{each} is complete")

    completes(name)
    completes(f"{name}-d")
    assert "not found" in _refusal(
        api, {**body, "metadata": {"name": f"{name}-x"}, "spec": {"deploymentPolicy": "none"}}
    )
    api.patch(SKYHOOKS, name, {"spec": {"packages": {"base": {"configMap": {"a.conf": "two"}}}}})
    completes(name)
    api.patch(SKYHOOKS, name, {"spec": {"packages": {"base": None, "next": {**package, "configMap": None}}}})
    completes(name)
    api.delete("nodes", gone)
    api.delete("nodes", deletes)
    api.delete(SKYHOOKS, name)
    api.patch(SKYHOOKS, f"{name}-d", {"metadata": {"annotations": {"haulout.dev/expires": "2026-01-01T00:00:00Z"}}})
    for each in (name, f"{name}-d"):
        eventually(lambda each=each: api.find(SKYHOOKS, each) is None, f"{each} is gone")  # type: ignore[misc]
    scene.break_settings_twice()
    scene.end()
    assert sorted(scene.left_over(since, "packages")) == []
    managed_plane.wipe(name)


def _refusal(api: Api, body: Json) -> str:
    try:
        api.create(SKYHOOKS, body)
    except ApiError as error:
        return str(error)
    return ""


def _is_running(body: Json) -> bool:
    return bool(body["metadata"].get("annotations", {}).get(CLIENT) == "inprogress")


def recipe(name: str, namespace: str, ends_after: str = "200ms") -> Json:
    meta: Json = {"annotations": {ENDS_AFTER: ends_after}}
    job = {"spec": {"template": {"metadata": meta, "spec": {"containers": [{"name": "c", "image": "x"}]}}}}
    return {"name": name, "type": "job", "namespace": namespace, "template": job}


def test_notify(
    managed_plane: ControlPlane, managed_kwok: Kwok, managed_proxy: FaultProxy, prefix: str, tmp_path: Path
) -> None:
    since = managed_plane.audit.mark()
    words = (
        *("notify", "--original-lease={ns}", "--notify-scheduler", "--notify-drainer"),
        *("--notify-jobs={ns}", "--notify-configmaps={ns}", "--notify-secret={ns}/key"),
    )
    scene = Crew(managed_plane, managed_proxy, tmp_path / "notify", prefix, *words)
    api, name = scene.api, scene.ns
    define_notices(api)
    api.create("secrets", {"metadata": {"name": "key"}, "data": {"hmac": base64.b64encode(HMAC).decode()}}, name)
    nodes = managed_kwok.nodes(name, 2, labels={"crew": name})
    for node in nodes:
        api.patch("nodes", node, {"metadata": {"labels": {"kubernetes.io/hostname": node}}})
        scene.deployment(node, node)
    # Kept by its budget until the SLA is over, then deleted.
    api.create(BUDGETS, budget("shut", nodes[1], minAvailable=1), name)
    for path in (f"/nodes/{nodes[0]}$", "/notifymaintenances/a$", "/notifymaintenances/a/status$"):
        scene.refuse_once("PATCH", path)
    scene.refuse_once("POST", "/pods/.*/eviction$")
    scene.refuse_once("POST", "/jobs$")
    workshop = Workshop(HMAC)
    with workshop.open() as url:
        secret = {"name": "key", "key": "hmac"}
        hook = {"name": "hook", "type": "webhook", "url": url, "hmacSecret": secret, "retryBackoff": "1s"}
        blocks: dict[str, Json] = {
            "scheduler": {"budgets": [{"name": "all", "nodeSelector": f"crew={name}", "maxUnavailable": 2}]},
            "drainer": {
                "settle": "200ms",
                "retryInterval": "1s",
                "pdbTimeout": "1s",
                "waitForVolumeDetach": True,
            },
            "runner": {"defaultClient": "rec", "recipes": [recipe("rec", name), hook, recipe("slow", name, "1h")]},
            "validator": {"default": "rec", "recipes": [recipe("rec", name)]},
            "returner": {},
        }
        match = {"enabled": True, "match": {"namespaces": [name]}}
        config = {"slaPeriod": "5s", "operators": {key: {**match, **block} for key, block in blocks.items()}}
        scene.serve("notify", "config: config/maintenance.yaml, ", json.dumps(config))
        # How long it ran is remembered: the operator has to be there when it ends.
        pod = {"restartPolicy": "Never", "nodeName": nodes[0], "containers": [{"name": "c", "image": "x"}]}
        template = {"metadata": {"annotations": {ENDS_AFTER: "8s"}}, "spec": pod}
        api.create(JOBS, {"metadata": {"name": "train"}, "spec": {"template": template}}, name)
        api.create("configmaps", {"metadata": {"name": "facts"}}, name)
        body = notice("a", nodes[0], "mid")
        body["spec"]["metadataConfigmap"] = "facts"
        eventually(lambda: api.create(NMS, body, name), "it is admitted", refused=(Exception,))
        api.create(NMS, notice("b", nodes[1], "mid", labels={"maintenance/maintenance-client": "hook"}), name)
        eventually(lambda: not api.items(NMS, name), "both are done")
        # One that is deleted while its Job runs.
        api.create(NMS, notice("c", nodes[0], "mid", labels={"maintenance/maintenance-client": "slow"}), name)
        eventually(lambda: _is_running(api.get(NMS, "c", name)), "its Job runs")
        api.delete(NMS, "c", name)
        eventually(lambda: not api.items(JOBS, name, labelSelector="haulout.dev/recipe=slow"), "the Job is deleted")
    scene.break_settings_twice()
    scene.end()
    assert sorted(scene.left_over(since, "notify")) == []
    managed_plane.wipe(name)
