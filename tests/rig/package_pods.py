"""The pods with which an operator of packages starts the package agent, field by field, and what they end with.

One thing differs from the originals' pods: images are never pulled, because tests have no registry.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.rig.api import Api, Json
from tests.rig.node import IMAGE
from tests.rig.wait import eventually

AGENT = "haulout.test/skyhook-agent:1"
UID = "5f1c5d0e-0b1f-4d53-9d5a-0c6f0a9a7b11"
COPIES, LOGS = "/var/lib/skyhook", "/var/log/skyhook"
COPY = "mkdir -p /root/${SKYHOOK_DIR} && cp -rf /skyhook-package/* /root/${SKYHOOK_DIR}"
PAYLOADS = {"reboot": "node_restart", "service": "service_restart", "noop": "no_op"}
SMALL = {"cpu": "100m", "memory": "20Mi"}
INTERRUPT = {"cpu": "500m", "memory": "64Mi"}


def safe(limit: int, *parts: str) -> str:
    """Return the name that the operator gives to an object about these parts."""
    text = "-".join(parts).replace(".", "-")
    mark = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{text[: limit - 9]}-{mark}".lower()


@dataclass(frozen=True)
class PackagePods:
    """The pods of one package of one Skyhook on one node."""

    api: Api
    namespace: str
    node: str
    package: str
    version: str = "1.0.0"
    generation: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def skyhook(self) -> str:
        """The name of the Skyhook, which keeps the state of this test on the shared node apart from that of others."""
        return self.namespace

    @property
    def copy_dir(self) -> str:
        return f"{COPIES}/{self.skyhook}/{self.package}-{self.version}-{UID}-{self.generation}"

    @property
    def resource_id(self) -> str:
        return f"{self.skyhook}-{UID}-{self.generation}_{self.package}_{self.version}"

    def run(self, stage: str) -> list[Json]:
        """Run a stage and its check successfully. Return the results that the two have written."""
        return self._complete(self.start(stage))

    def interrupt(self, kind: str, **more: Any) -> list[Json]:
        return self._complete(self.start_interrupt(kind, **more))

    def run_all(self, runs: Sequence[tuple[str, Mapping[str, str]]]) -> list[Json]:
        """Run the agent once for each mode, with variables of its own, in one pod. Return the results in order."""
        agents = [self._agent(f"run-{number}", mode, more) for number, (mode, more) in enumerate(runs)]
        return self._complete(self._start("all", agents))

    def start(self, stage: str) -> str:
        checking = self._agent(f"{self.package}-{stage}check", f"{stage}-check", {})
        return self._start(stage, [self._agent(f"{self.package}-{stage}", stage, {}), checking])

    def _agent(self, name: str, mode: str, more: Mapping[str, str]) -> Json:
        env = {**self.env, **more, **self._own_env()}
        return {"name": name, "image": AGENT, "args": [mode, "/root", self.copy_dir], "env": variables(env)}

    def _start(self, stage: str, agents: list[Json]) -> str:
        self._write_config_maps()
        copying = {
            "name": f"{self.package}-init",
            "image": f"haulout.test/{self.package}:{self.version}",
            "command": ["/bin/sh", "-c", COPY],
            "env": variables({"SKYHOOK_DIR": self.copy_dir}),
        }
        metadata = safe(63, "metadata", self.node)
        mounts = [(metadata, "/skyhook-package/node-metadata")]
        volumes = [(metadata, safe(253, self.skyhook, self.node, "metadata"))]
        if self.config:
            mounts.append((self.package, "/skyhook-package/configmaps"))
            volumes.append((self.package, self._config_map))
        each = {
            "imagePullPolicy": "Never",
            "securityContext": {"privileged": True},
            "volumeMounts": [ROOT, *({"name": name, "mountPath": path} for name, path in mounts)],
        }
        body = self._pod(stage, [container | each for container in (copying, *agents)])
        body["spec"]["volumes"] += [{"name": name, "configMap": {"name": source}} for name, source in volumes]
        return self._create(body, safe(63, self.skyhook, self.package, self.version, stage, self.node))

    def start_interrupt(self, kind: str, **more: Any) -> str:
        payload = json.dumps({"type": PAYLOADS[kind], **more}, separators=(",", ":"))
        container = {
            "name": "interrupt",
            "image": AGENT,
            "args": ["interrupt", "/root", self.copy_dir, base64.b64encode(payload.encode()).decode()],
            "env": variables(self._own_env()),
            "imagePullPolicy": "Never",
            "securityContext": {"privileged": True},
            "volumeMounts": [ROOT],
            "resources": {"requests": INTERRUPT, "limits": INTERRUPT},
        }
        body = self._pod("interrupt", [container])
        body["metadata"]["labels"]["skyhook.nvidia.com/interrupt"] = "True"
        return self._create(body, safe(63, self.skyhook, "interrupt", kind, self.node))

    def statuses(self, pod: str) -> list[Json]:
        found: list[Json] = self.api.get("pods", pod, self.namespace)["status"].get("initContainerStatuses", [])
        return found

    def delete(self, pod: str) -> None:
        """Delete a pod and wait until the kubelet has ended it: the next one may have the same name."""
        self.api.delete("pods", pod, self.namespace, grace=1)
        eventually(lambda: self.api.find("pods", pod, self.namespace) is None, f"{pod} is gone")

    def _complete(self, pod: str) -> list[Json]:
        states = eventually(lambda: ended(self.statuses(pod)), f"{pod} has ended")
        codes = {status["name"]: status["state"]["terminated"]["exitCode"] for status in states}
        assert set(codes.values()) == {0}, codes
        self.api.delete("pods", pod, self.namespace, grace=0)
        return [told(status) for status in states if status["image"].startswith(AGENT)]

    def _create(self, body: Json, name: str) -> str:
        body["metadata"]["name"] = name
        self.api.create("pods", body, self.namespace)
        return name

    def _pod(self, stage: str, containers: list[Json]) -> Json:
        about = {"name": self.package, "version": self.version, "skyhook": self.skyhook, "stage": stage}
        owner = {"apiVersion": "skyhook.nvidia.com/v1alpha1", "kind": "Skyhook", "name": self.skyhook, "uid": UID}
        pause = {"name": "pause", "image": IMAGE, "resources": {"requests": SMALL, "limits": SMALL}}
        return {
            "metadata": {
                "labels": {
                    "skyhook.nvidia.com/name": self.skyhook,
                    "skyhook.nvidia.com/package": f"{self.package}-{self.version}",
                },
                "annotations": {
                    "skyhook.nvidia.com/package": json.dumps({**about, "image": f"haulout.test/{self.package}"})
                },
                "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
            },
            "spec": {
                "nodeName": self.node,
                "restartPolicy": "OnFailure",
                "hostPID": True,
                "hostNetwork": True,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}, NOT_READY],
                "initContainers": containers,
                "containers": [pause],
                "volumes": [{"name": "root-mount", "hostPath": {"path": "/"}}],
            },
        }

    def _own_env(self) -> dict[str, str]:
        return {
            "SKYHOOK_LOG_DIR": f"{LOGS}/{self.skyhook}",
            "SKYHOOK_ROOT_DIR": f"{COPIES}/{self.skyhook}",
            "COPY_RESOLV": "false",
            "SKYHOOK_RESOURCE_ID": self.resource_id,
        }

    @property
    def _config_map(self) -> str:
        return f"{self.skyhook}-{self.package}-{self.version}".lower()

    def _write_config_maps(self) -> None:
        node = self.api.get("nodes", self.node)["metadata"]
        metadata = {
            "labels.json": json.dumps(node.get("labels", {})),
            "annotations.json": json.dumps(node.get("annotations", {})),
            "packages.json": json.dumps({"agentVersion": "1", "packages": {}}),
        }
        self._put(safe(253, self.skyhook, self.node, "metadata"), metadata)
        if self.config:
            self._put(self._config_map, self.config)

    def _put(self, name: str, data: Mapping[str, str]) -> None:
        if self.api.find("configmaps", name, self.namespace) is None:
            self.api.create("configmaps", {"metadata": {"name": name}, "data": dict(data)}, self.namespace)
        else:
            self.api.patch("configmaps", name, {"data": dict(data)}, self.namespace)


ROOT: Json = {"name": "root-mount", "mountPath": "/root", "mountPropagation": "HostToContainer"}
# The original tolerates the taint that its administrator names. Here that is the one that the control plane puts on new
# nodes.
NOT_READY: Json = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}


def variables(env: Mapping[str, str]) -> list[Json]:
    return [{"name": name, "value": value} for name, value in env.items()]


def ended(statuses: list[Json]) -> list[Json] | None:
    """Return the statuses once the last init container has succeeded, or any has failed."""
    codes = [status["state"].get("terminated", {}).get("exitCode") for status in statuses]
    over = bool(codes) and (codes[-1] == 0 or any(codes))
    return [status for status in statuses if "terminated" in status["state"]] if over else None


def told(status: Json) -> Json:
    """Return the result that an agent has written for Kubernetes."""
    result: Json = json.loads(status["state"]["terminated"]["message"])
    return result
