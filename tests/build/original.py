"""The objects that the original packages operator, v0.13, leaves in a cluster at points of a package's life, field by field."""

from __future__ import annotations

import json
from typing import Any

from haulout.embedded import NODES, PODS, Json
from haulout.surfaces.packages.options import Options
from tests.build.skyhooks import CONFIG_MAPS, IMAGE, SKYHOOKS, P, Skyhooks
from tests.rig.package_pods import COPIES, COPY, INTERRUPT, LOGS, SMALL, safe, variables

NAME, NODE, STAMP = "demo", "n0", "v0.13.0"
AT = "2026-01-01T00:00:00Z"
AGENT, PAUSE = Options().agent_image, Options().pause_image
TOLERATIONS = [
    {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"},
    {"key": "skyhook.nvidia.com", "operator": "Equal", "value": "runtime-required", "effect": "NoSchedule"},
]


def entry(stage: str, state: str, version: str = "1.0.0", **more: Any) -> dict[str, Json]:
    """Return an entry of a node's state, for the package `base`."""
    about = {"name": "base", "version": version, "image": IMAGE, "stage": stage, "state": state, **more}
    return {f"base|{version}": about}


def compact(value: Json) -> str:
    return json.dumps(value, separators=(",", ":"))


class Original:
    """Writes the objects of one Skyhook with the package `base`, and of one node."""

    def __init__(self, package: Json) -> None:
        self.ops = Skyhooks(nodes=1)
        self.package = package
        metadata = {
            "name": NAME,
            "finalizers": [f"{P}skyhook"],
            "annotations": {f"{P}version": STAMP},
        }
        body = {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "metadata": metadata}
        made = self.ops.world.objects.create(SKYHOOKS, body | {"spec": {"packages": {"base": package}}})
        self.uid: str = made["metadata"]["uid"]

    @property
    def version(self) -> str:
        return str(self.package["version"])

    def stands(self, status: str, state: dict[str, Json] | None, *, cordoned: bool = False) -> Original:
        """Write the state of a node: its annotations, its conditions, the Skyhook's status and the ConfigMap of the node."""
        annotations = {f"{P}status_{NAME}": status, f"{P}version_{NAME}": STAMP}
        if state is not None:
            annotations[f"{P}nodeState_{NAME}"] = compact(state)
        if cordoned:
            annotations[f"{P}cordon_{NAME}"] = "true"
        body: Json = {"metadata": {"annotations": annotations, "labels": {f"{P}status_{NAME}": status}}}
        self.ops.change_node(NODE, body | {"spec": {"unschedulable": True if cordoned else None}})
        self._conditions(status)
        self._status(status, state or {})
        self._metadata()
        return self

    def _conditions(self, status: str) -> None:
        shown = {
            "NotReady": (status != "complete", "Incomplete", "Complete", f"Skyhook {NAME} Ready"),
            "Erroring": (
                status == "erroring",
                "Package(s) Erroring or Unknown",
                "Not Erroring",
                f"Package Erroring or Unknown for {NAME}",
            ),
        }
        times = {"lastHeartbeatTime": AT, "lastTransitionTime": AT}
        conditions = [
            {"type": f"{P}{NAME}/{kind}", "status": str(on), "reason": yes if on else no, "message": text, **times}
            for kind, (on, yes, no, text) in shown.items()
        ]
        objects = self.ops.world.objects
        objects.patch(NODES, "", NODE, {"status": {"conditions": conditions}}, subresource="status", strategic=True)

    def _status(self, status: str, state: dict[str, Json]) -> None:
        is_complete = status == "complete"
        body: Json = {
            "status": status,
            "nodeState": {NODE: state},
            "nodeStatus": {NODE: status},
            "nodesInProgress": int(status in ("in_progress", "erroring")),
            "completeNodes": f"{int(is_complete)}/1",
            "packageList": f"base:{self.version}",
            "compartmentStatuses": {
                "__default__": {
                    "matched": 1,
                    "ceiling": 1,
                    "inProgress": int(not is_complete),
                    "completed": int(is_complete),
                    "progressPercent": 100 * int(is_complete),
                }
            },
        }
        if is_complete:
            body["observedGeneration"] = 1
        elif status != "waiting":
            body["nodePriority"] = {NODE: AT}
        self.ops.world.objects.patch(SKYHOOKS, "", NAME, {"status": body}, subresource="status")

    def _metadata(self) -> None:
        node = self.ops.node(NODE)["metadata"]
        known = {key: self.package[key] for key in ("version", "image", "interrupt") if key in self.package}
        packages: Json = {"agentVersion": AGENT.rpartition(":")[2], "packages": {"base": {"name": "base", **known}}}
        metadata = {
            "name": safe(253, NAME, NODE, "metadata"),
            "namespace": "skyhook",
            "labels": {f"{P}skyhook-node-meta": NAME},
            "annotations": {f"{P}name": NAME, f"{P}Node.name": NODE},
            "ownerReferences": [self._owner()],
        }
        data = {
            "annotations.json": compact(node["annotations"]),
            "labels.json": compact(node["labels"]),
            "packages.json": compact(packages),
        }
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
        self.ops.world.objects.create(CONFIG_MAPS, body)

    def _owner(self) -> Json:
        own = {"apiVersion": f"{P}v1alpha1", "kind": "Skyhook", "name": NAME, "uid": self.uid}
        return {**own, "controller": True, "blockOwnerDeletion": True}

    def runs(self, stage: str, containers: list[Json] | None = None) -> Original:
        """Make the pod of a stage, which runs, or has the given statuses of its init containers."""
        self.ops.fate = lambda about: "hang"
        copy = f"{COPIES}/{NAME}/base-{self.version}-{self.uid}-1"
        own = {
            "SKYHOOK_LOG_DIR": f"{LOGS}/{NAME}",
            "SKYHOOK_ROOT_DIR": f"{COPIES}/{NAME}",
            "COPY_RESOLV": "false",
            "SKYHOOK_RESOURCE_ID": f"{NAME}-{self.uid}-1_base_{self.version}",
        }
        image = f"{IMAGE}:{self.version}"
        copying: Json = {"name": "base-init", "image": image, "command": ["/bin/sh"], "args": ["-c", COPY]}
        copying["env"] = variables({"SKYHOOK_DIR": copy})
        agents: list[Json] = [
            {"name": f"base-{name}", "image": AGENT, "args": [mode, "/root", copy], "env": variables(own)}
            for name, mode in ((stage, stage), (f"{stage}check", f"{stage}-check"))
        ]
        interrupt: Json = {
            "name": "interrupt",
            "image": AGENT,
            "args": ["interrupt", "/root", copy],
            "env": variables(own),
        }
        interrupt["resources"] = {"limits": INTERRUPT, "requests": INTERRUPT}
        inits = [interrupt] if stage == "interrupt" else [copying, *agents]
        self._make_pod(stage, inits)
        if containers:
            meta = self.ops.pods()[0].pod["metadata"]
            body = {"status": {"initContainerStatuses": containers}}
            self.ops.world.objects.patch(PODS, "skyhook", meta["name"], body, subresource="status")
        return self

    def _make_pod(self, stage: str, inits: list[Json]) -> None:
        about = {"name": "base", "version": self.version, "skyhook": NAME, "stage": stage, "image": IMAGE}
        labels = {f"{P}name": NAME, f"{P}package": f"base-{self.version}"}
        name = safe(63, NAME, "base", self.version, stage, NODE)
        if stage == "interrupt":
            labels[f"{P}interrupt"] = "True"
            name = safe(63, NAME, "interrupt", self.package["interrupt"]["type"], NODE)
        metadata = {
            "name": name,
            "namespace": "skyhook",
            "labels": labels,
            "annotations": {f"{P}package": compact(about)},
            "ownerReferences": [self._owner()],
        }
        limits = {"limits": SMALL, "requests": SMALL}
        spec = {
            "nodeName": NODE,
            "restartPolicy": "OnFailure",
            "hostPID": True,
            "hostNetwork": True,
            "tolerations": TOLERATIONS,
            "initContainers": [each | {"securityContext": {"privileged": True}} for each in inits],
            "containers": [{"name": "pause", "image": PAUSE, "resources": limits}],
        }
        self.ops.world.objects.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})

    def taken_over(self, seconds: float = 5) -> Skyhooks:
        """Start our operator on these objects.

        Return it after a while. Only what it creates itself counts as created.
        """
        there = {about.pod["metadata"]["uid"] for about in self.ops.pods()}
        self.ops.begin().run(seconds)
        self.ops.made[:] = [about for about in self.ops.made if about.pod["metadata"]["uid"] not in there]
        return self.ops
