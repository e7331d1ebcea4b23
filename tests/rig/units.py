"""Skyhooks and NodeWrights of one name on a real API server: the operator, a kubelet that a test steers, and what is there."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from haulout.surfaces.packages.groups import GROUPS, NODEWRIGHT, SKYHOOK, Group
from haulout.surfaces.packages.node.prefixes import condition_unit, unit_in
from tests.rig.api import BROKEN, CRDS, Api, ApiError, Json
from tests.rig.fleet import node_object, now
from tests.rig.operator import HAULOUT, Operator, environment
from tests.rig.package_pods import safe
from tests.rig.plane import ControlPlane
from tests.rig.rights import printed
from tests.rig.wait import eventually
from tests.rig.warm import WarmProcess

PATHS = {group: f"{group.api_version}/{group.plural}" for group in GROUPS}
POLICIES = {group: f"{group.api_version}/deploymentpolicies" for group in GROUPS}
JOBS = "batch/v1/jobs"
MANAGED = "haulout.test/managed"
IMAGE = "reg.test/alpha"
OVER = ("Succeeded", "Failed")


def define(api: Api) -> None:
    """Have the kinds of both groups served, if they are not yet."""
    for crd in printed("crds", "packages"):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    for path in (*PATHS.values(), *POLICIES.values()):
        eventually(lambda path=path: api.items(path) is not None, f"{path} is served", refused=(ApiError,))  # type: ignore[misc]


def pkg(version: str = "1.2.3", **more: Any) -> Json:
    return {"version": version, "image": IMAGE, **more}


def entry(version: str = "1.2.3", stage: str = "config", state: str = "complete", name: str = "alpha") -> Json:
    body = {"name": name, "version": version, "image": IMAGE, "stage": stage, "state": state}
    return {f"{name}|{version}": body}


@dataclass(frozen=True)
class Stage:
    """A stage of a package that runs on a node, or has run, in a pod."""

    package: str
    version: str
    stage: str
    node: str
    pod: Json = field(repr=False, compare=False)

    @property
    def uid(self) -> str:
        return str(self.pod["metadata"]["uid"])

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def executor(self) -> str:
        """The name of the pod, or of the Job whose pod it is."""
        owners = self.pod["metadata"].get("ownerReferences", [])
        return next((str(each["name"]) for each in owners if each["kind"] == "Job"), self.name)

    @property
    def is_over(self) -> bool:
        return self.pod.get("status", {}).get("phase") in OVER

    @property
    def identity(self) -> tuple[str, str]:
        """The resource id and the copy directory that the agent gets."""
        last = self.pod["spec"]["initContainers"][-1]
        found = {each["name"]: each.get("value", "") for each in last["env"]}
        return found["SKYHOOK_RESOURCE_ID"], last["args"][2]


def stage_of(metadata: Json, spec: Json, pod: Json) -> Stage | None:
    """Return the stage that a pod or Job runs, from its annotation under either prefix; None for anything else."""
    notes = metadata.get("annotations", {})
    text = next((notes[each] for group in GROUPS if (each := f"{group.prefix}package") in notes), None)
    if text is None:
        return None
    about = json.loads(text)
    return Stage(about["name"], about["version"], about["stage"], spec.get("nodeName", ""), pod)


class Kubelet:
    """Runs the pods of packages in one namespace as `works` says: to their success, or not to their end at all."""

    def __init__(self, api: Api, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.works: Callable[[Stage], bool] = lambda stage: True
        self.seen: dict[str, Stage] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kubelet")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.set()
        self._thread.join()

    def stages(self) -> list[Stage]:
        """Return the stages at work: those of pods that have neither ended nor are being deleted."""
        return [each for each in self._listed() if not each.is_over and "deletionTimestamp" not in each.pod["metadata"]]

    def succeed(self, stage: Stage) -> None:
        ended = {"exitCode": 0, "startedAt": now(), "finishedAt": now()}
        status = self._status(stage.pod, {"terminated": ended})
        if stage.pod["spec"]["restartPolicy"] == "Never" or _is_of_job(stage.pod):
            names = [each["name"] for each in stage.pod["spec"]["containers"]]
            status |= {"phase": "Succeeded", "containerStatuses": _statuses(names, {"terminated": ended})}
        self._report(stage, status)

    def begin(self, stage: Stage) -> None:
        self._report(stage, self._status(stage.pod, {"running": {"startedAt": now()}}))

    def fail(self, stage: Stage) -> None:
        """Let the pod fail as a whole, as one that is not restarted."""
        ended = {"exitCode": 1, "startedAt": now(), "finishedAt": now()}
        self._report(stage, {**self._status(stage.pod, {"terminated": ended}), "phase": "Failed"})

    def lose(self, stage: Stage) -> None:
        """Let the pod vanish, as in a reboot."""
        self.api.delete("pods", stage.name, self.namespace, grace=0)

    def _status(self, pod: Json, state: Json) -> Json:
        names = [each["name"] for each in pod["spec"]["initContainers"]]
        return {"phase": "Running", "initContainerStatuses": _statuses(names, state)}

    def _report(self, stage: Stage, status: Json) -> None:
        self.api.patch("pods", stage.name, {"status": status}, self.namespace, sub="status")

    def _listed(self) -> list[Stage]:
        found = (stage_of(pod["metadata"], pod["spec"], pod) for pod in self.api.items("pods", self.namespace))
        return [each for each in found if each is not None]

    def _run(self) -> None:
        done: set[str] = set()
        while not self._ends.wait(0.05):
            with suppress(ApiError, OSError, http.client.HTTPException, *BROKEN):
                for each in self._listed():
                    self.seen.setdefault(each.uid, each)
                    if "deletionTimestamp" in each.pod["metadata"]:
                        self._end(each)
                    elif not each.is_over and each.uid not in done and self.works(each):
                        self.succeed(each)
                        done.add(each.uid)

    def _end(self, each: Stage) -> None:
        if _is_of_job(each.pod) and not each.is_over:
            self._report(each, {"phase": "Failed"})
        self.api.delete("pods", each.name, self.namespace, grace=0)


def _is_of_job(pod: Json) -> bool:
    return any(each["kind"] == "Job" for each in pod["metadata"].get("ownerReferences", []))


def _statuses(names: list[str], state: Json) -> list[Json]:
    ready = "terminated" in state
    return [
        {"name": name, "image": "", "imageID": "", "ready": ready, "restartCount": 0, "state": state} for name in names
    ]


class NodeWrightOperator(Operator):
    """`haulout as nodewright-operator`, without webhooks. `variables`: those of its environment."""

    def __init__(
        self, plane: ControlPlane, directory: Path, namespace: str, server: str | None = None, **variables: str
    ) -> None:
        super().__init__(directory, "")
        self._token = plane.token("test")
        env = environment(
            KUBECONFIG=str(plane.kubeconfig("operator", server=server)),
            NAMESPACE=namespace,
            ENABLE_WEBHOOKS="false",
            METRICS_PORT=f"127.0.0.1:{self.port}",
            PROBE_PORT=f"127.0.0.1:{self.health_port}",
            LOG_LEVEL="info",
            **variables,
        )
        words = [str(HAULOUT), "as", "nodewright-operator"]
        self.process = WarmProcess("operator", words, directory, env=env, cwd=directory)

    def get(self, path: str) -> tuple[int, str]:
        """Read a page with a token, over TLS with a certificate that the operator has made itself."""
        tls = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=tls)
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._token}"})
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


class UnitWorld:
    """Nodes, and objects of one name in both groups. The name is that of the test's namespace."""

    def __init__(self, plane: ControlPlane, namespace: str, directory: Path, server: str | None = None) -> None:
        self.plane, self.name, self.namespace, self.directory = plane, namespace, namespace, directory
        self.api = plane.api()
        self.kubelet = Kubelet(self.api, namespace)
        self.server = server
        self.operator: Operator | None = None
        self.since = plane.audit.mark()

    def __enter__(self) -> Self:
        self.kubelet.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        if self.operator is not None:
            self.operator.process.stop()
        self.kubelet.__exit__()

    def ready_operator(self, **variables: str) -> Operator:
        """Return the operator, which is not started yet."""
        self.operator = NodeWrightOperator(self.plane, self.directory, self.namespace, self.server, **variables)
        return self.operator

    def start(self, **variables: str) -> Self:
        self.ready_operator(**variables).start()
        return self

    def restart(self) -> None:
        assert self.operator is not None
        self.operator.process.kill()
        self.operator.start()

    # Objects

    def node(self, number: int = 1, *, taints: tuple[Json, ...] = (), annotations: Json | None = None) -> str:
        """Put a ready node into the storage. KWOK does not know it."""
        name = f"{self.name}-n{number}"
        self.plane.load([node_object(name, labels={MANAGED: self.name}, annotations=annotations or {}, taints=taints)])
        return name

    def nodes(self, count: int) -> list[str]:
        return [self.node(number) for number in range(1, count + 1)]

    def create(self, group: Group, packages: Json, name: str = "", **more: Any) -> Json:
        name = name or self.name
        metadata = {"name": name, "annotations": more.pop("annotations", {}), "finalizers": more.pop("finalizers", [])}
        spec = {"nodeSelectors": {"matchLabels": {MANAGED: self.name}}, "packages": packages, **more}
        body = {"apiVersion": group.api_version, "kind": group.kind, "metadata": metadata, "spec": spec}
        return self.api.create(PATHS[group], body)

    def change(self, group: Group, sub: str | None = None, **body: Any) -> Json:
        return self.api.patch(PATHS[group], self.name, body, sub=sub)

    def set_packages(self, group: Group, **packages: Json | None) -> Json:
        """Add, change or remove packages."""
        return self.change(group, spec={"packages": packages})

    def annotate(self, group: Group, **notes: str | None) -> Json:
        return self.change(group, metadata={"annotations": {f"{group.prefix}{key}": notes[key] for key in notes}})

    def remove(self, group: Group) -> None:
        self.api.delete(PATHS[group], self.name)

    def swap(self, old: Group, new: Group) -> None:
        """Create the object in the other group, and delete this one at once."""
        self.create(new, self.read(old)["spec"]["packages"])
        self.remove(old)

    def await_gone(self, group: Group, within: float = 60) -> None:
        eventually(lambda: self.api.find(PATHS[group], self.name) is None, f"the {group.kind} is gone", within)

    def mirror(self, packages: Json, generation: int = 1, **more: Any) -> Json:
        """Create the NodeWright that the original makes of a Skyhook."""
        notes = {"mirrored-from": self.name, "mirrored-generation": str(generation), "version": "v0.20.0"}
        notes["legacy-migrated-at"] = "2026-10-01T00:00:00Z"
        annotations = {f"{NODEWRIGHT.prefix}{key}": value for key, value in notes.items()}
        return self.create(NODEWRIGHT, packages, annotations=annotations, finalizers=[NODEWRIGHT.finalizer], **more)

    def inherited(self, packages: Json, version: str = "v0.17.1", **more: Any) -> Json:
        """Create a Skyhook as an operator of this version leaves it."""
        notes = {f"{SKYHOOK.prefix}version": version}
        return self.create(SKYHOOK, packages, annotations=notes, finalizers=[SKYHOOK.finalizer], **more)

    def stamp(self, node: str, group: Group, entries: Json, status: str = "complete", **notes: str) -> None:
        """Leave the keys of the unit on a node, as an operator does."""
        values = {"nodeState": json.dumps(entries), "status": status, "version": "v0.17.1", **notes}
        annotations = {f"{group.prefix}{word}_{self.name}": value for word, value in values.items()}
        labels = {f"{group.prefix}status_{self.name}": status}
        self.api.patch("nodes", node, {"metadata": {"annotations": annotations, "labels": labels}})

    def tell(self, group: Group, states: dict[str, Json], status: str = "complete", **more: Any) -> None:
        """Write the status of an object as another operator does."""
        done = len(states) if status == "complete" else 0
        body = {
            "status": status,
            "observedGeneration": self.read(group)["metadata"]["generation"],
            "completeNodes": f"{done}/{len(states)}",
            "nodeState": states,
            "nodeStatus": dict.fromkeys(states, status),
            **more,
        }
        self.change(group, "status", status=body)

    def leave_pod(self, owner: Json, stage: str, node: str) -> Json:
        """Create the pod that an operator before v0.18 has made for a stage of `alpha`, at work."""
        metadata, spec = self._template(SKYHOOK, owner, stage, node)
        containers = [{"name": "pause", "image": "reg.test/pause:1"}]
        body = {"metadata": {**metadata, "name": self.pod_name("alpha", "1.2.3", stage, node)}}
        return self.api.create("pods", {**body, "spec": {**spec, "containers": containers}}, self.namespace)

    def leave_job(self, owner: Json, stage: str, node: str, *, suspend: bool = False) -> Json:
        """Create the Job that an operator since v0.18 has made for a stage of `alpha`."""
        metadata, spec = self._template(NODEWRIGHT, owner, stage, node)
        labels = {**metadata["labels"], f"{NODEWRIGHT.prefix}stage": stage, f"{NODEWRIGHT.prefix}node": node}
        notes = {**metadata["annotations"], f"{NODEWRIGHT.prefix}resource-id": self._resource_id(owner)}
        template = {"metadata": {"labels": labels, "annotations": metadata["annotations"]}}
        template["spec"] = {**spec, "restartPolicy": "Never", "containers": [{"name": "done", "image": IMAGE}]}
        body = {
            "metadata": {
                **metadata,
                "name": self.pod_name("alpha", "1.2.3", stage, node),
                "labels": labels,
                "annotations": notes,
            },
            "spec": {"backoffLimit": 3, "podReplacementPolicy": "Failed", "suspend": suspend, "template": template},
        }
        return self.api.create(JOBS, body, self.namespace)

    def _template(self, group: Group, owner: Json, stage: str, node: str) -> tuple[Json, Json]:
        """Return metadata and spec of a pod of the original, without its containers after the first ones."""
        about = {"name": "alpha", "version": "1.2.3", "skyhook": self.name, "stage": stage, "image": IMAGE}
        reference = {
            "apiVersion": group.api_version,
            "kind": group.kind,
            "name": self.name,
            "uid": owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        metadata = {
            "labels": {f"{group.prefix}name": self.name, f"{group.prefix}package": "alpha-1.2.3"},
            "annotations": {f"{group.prefix}package": json.dumps(about)},
            "ownerReferences": [reference],
        }
        where = f"/var/lib/skyhook/{self.name}/alpha-1.2.3-{owner['metadata']['uid']}-1"
        values = {
            "SKYHOOK_LOG_DIR": f"/var/log/skyhook/{self.name}",
            "SKYHOOK_ROOT_DIR": f"/var/lib/skyhook/{self.name}",
            "COPY_RESOLV": "false",
            "SKYHOOK_RESOURCE_ID": self._resource_id(owner),
        }
        env = [{"name": name, "value": value} for name, value in values.items()]
        agent: Json = {
            "image": "ghcr.io/nvidia/nodewright/agent:latest",
            "env": env,
            "securityContext": {"privileged": True},
        }
        copying = {"name": "alpha-init", "image": f"{IMAGE}:1.2.3", "env": [{"name": "SKYHOOK_DIR", "value": where}]}
        stages = [
            {
                "name": f"alpha-{stage}{check}",
                "args": [f"{stage}{'-' if check else ''}{check}", "/root", where],
                **agent,
            }
            for check in ("", "check")
        ]
        spec = {
            "nodeName": node,
            "restartPolicy": "OnFailure",
            "hostNetwork": True,
            "hostPID": True,
            "initContainers": [copying, *stages],
            "tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}],
        }
        return metadata, spec

    def _resource_id(self, owner: Json) -> str:
        return f"{self.name}-{owner['metadata']['uid']}-1_alpha_1.2.3"

    def workload(self, name: str, node: str) -> None:
        """Create a pod of another owner that is ready on a node."""
        spec = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
        self.api.create("pods", {"metadata": {"name": name, "labels": {"app": name}}, "spec": spec}, self.namespace)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        self.api.patch("pods", name, {"status": status}, self.namespace, sub="status")

    # What is there

    def read(self, group: Group) -> Json:
        return self.api.get(PATHS[group], self.name)

    def status(self, group: Group) -> Json:
        found: Json = self.read(group).get("status", {})
        return found

    def counts(self, group: Group) -> tuple[str | None, str | None]:
        status = self.status(group)
        return status.get("status"), status.get("completeNodes")

    def condition(self, group: Group, kind: str) -> tuple[str, str] | None:
        found = self.status(group).get("conditions", [])
        return next(((each["status"], each["reason"]) for each in found if each["type"] == kind), None)

    def entries(self, node: str, group: Group) -> dict[str, str]:
        text = self.annotations(node).get(f"{group.prefix}nodeState_{self.name}", "{}")
        return {key: f"{each['stage']}/{each['state']}" for key, each in json.loads(text).items()}

    def annotations(self, node: str) -> Json:
        found: Json = self.api.get("nodes", node)["metadata"].get("annotations", {})
        return found

    def keys(self, node: str, group: Group) -> set[str]:
        """Return the names of annotations, labels and conditions of the unit under one prefix."""
        found = self.api.get("nodes", node)
        names = (*found["metadata"].get("annotations", {}), *found["metadata"].get("labels", {}))
        kinds = (each["type"] for each in found["status"].get("conditions", []))
        return {each for each in names if unit_in(each, group) == self.name} | {
            each for each in kinds if condition_unit(each, group) == self.name
        }

    def is_cordoned(self, node: str) -> bool:
        return bool(self.api.get("nodes", node)["spec"].get("unschedulable"))

    def owners(self) -> set[str]:
        """Return the kinds that own pods, Jobs and ConfigMaps of the unit."""
        found = [each for kind in ("pods", JOBS, "configmaps") for each in self.api.items(kind, self.namespace)]
        return {owner["kind"] for each in found for owner in each["metadata"].get("ownerReferences", [])} - {"Job"}

    def made(self) -> list[Stage]:
        """Return the stages for which the operator has created a pod or Job, in order, from the audit log."""
        entries = self.plane.audit.entries(since=self.since, user="operator", verb="create")
        own = [
            each for each in entries if each.ns == self.namespace and each.what in ("pods", "jobs") and each.code == 201
        ]
        found = []
        for each in sorted(own, key=lambda each: each.received_at):
            spec = each.body["spec"]
            found.append(stage_of(each.body["metadata"], spec.get("template", {}).get("spec", spec), each.body))
        return [each for each in found if each is not None]

    def trail(self) -> list[str]:
        return [f"{each.package}/{each.stage}" for each in self.made()]

    def pod_name(self, package: str, version: str, stage: str, node: str) -> str:
        return safe(63, self.name, package, version, stage, node)

    # Waiting

    def await_equal(self, probe: Callable[[], object], wanted: object, within: float = 60) -> None:
        """Wait until something is so. The message of a failure says what it was last."""
        last: list[object] = []

        def is_so() -> bool:
            last[:] = [probe()]
            return last[0] == wanted

        try:
            eventually(is_so, f"{wanted!r}", within, refused=(KeyError,))
        except AssertionError as error:
            raise AssertionError(f"{error}; last: {last}") from None

    def await_complete(self, group: Group, nodes: int = 1, within: float = 90) -> None:
        def is_complete() -> bool:
            found = self.read(group)
            is_seen = found.get("status", {}).get("observedGeneration") == found["metadata"]["generation"]
            return is_seen and self.counts(group) == ("complete", f"{nodes}/{nodes}")

        eventually(is_complete, f"the {group.kind} is complete on {nodes} nodes", within)

    def await_stage(self, stage: str, node: str = "", package: str = "alpha") -> Stage:
        """Wait for the pod of a stage, and let it begin."""

        def found() -> Stage | None:
            wanted = (package, stage)
            return next((each for each in self.kubelet.stages() if _is(each, wanted, node)), None)

        each = eventually(found, f"{package} is at {stage}")
        self.kubelet.begin(each)
        return each

    def never(self, probe: Callable[[], object], what: str, seconds: float = 3) -> None:
        """Watch for some time that something does not happen."""
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            assert not probe(), what
            time.sleep(0.1)

    def is_quiet(self, seconds: float = 3) -> bool:
        """Whether the operator writes nothing for some seconds, once it has come to rest."""
        for _ in range(20):
            before = self.writes()
            time.sleep(seconds)
            if self.writes() == before:
                return True
        return False

    def writes(self) -> int:
        """Return how many writes the operator has sent, apart from those of its lease and of events."""
        entries = self.plane.audit.entries(since=self.since, user="operator")
        return sum(each.writes and each.resource not in ("leases", "events") for each in entries)


def _is(each: Stage, wanted: tuple[str, str], node: str) -> bool:
    return (each.package, each.stage) == wanted and (not node or each.node == node)
