"""A small simulated world, and workloads of one line: `deployment("web", 3)`, `budget("web", minAvailable=2)`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from haulout.embedded import (
    DAEMON_SETS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    NODES,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    ActorOptions,
    Actors,
    Change,
    Json,
    Objects,
    Resource,
    Server,
    VirtualTimers,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
KINDS = {
    "DaemonSet": DAEMON_SETS,
    "Deployment": DEPLOYMENTS,
    "Job": JOBS,
    "Node": NODES,
    "Pod": PODS,
    "PodDisruptionBudget": DISRUPTION_BUDGETS,
    "ReplicaSet": REPLICA_SETS,
    "StatefulSet": STATEFUL_SETS,
}


class World:
    """A simulated world: virtual time, objects and actors. `log`: every change of the kinds above, in order."""

    def __init__(self, options: ActorOptions | None = None, *, nodes: int = 0, zones: int = 1) -> None:
        options = options or ActorOptions(heartbeats=False)
        self.time = VirtualTimers(START)
        self.objects: Objects = Server(self.time, brief=options.brief)
        self.log: list[Change] = []
        for resource in KINDS.values():
            self.objects.subscribe(resource, self.log.append)
        self.actors = Actors(self.objects, self.time, options)
        for number in range(nodes):
            self.make(node(f"n{number}", zone=f"z{number % zones}"))
        self.actors.start()

    def make(self, *objects: Json) -> World:
        for obj in objects:
            self.objects.create(KINDS[obj["kind"]], obj)
        return self

    def run(self, seconds: float = 60) -> World:
        self.time.run_for(timedelta(seconds=seconds))
        return self

    def get(self, resource: Resource, name: str, namespace: str = "default") -> Json:
        found = self.objects.get(resource, "" if resource == NODES else namespace, name)
        assert found is not None, f"{resource.plural} {name} is not there"
        return found

    def status(self, resource: Resource, name: str) -> Json:
        status: Json = self.get(resource, name).get("status", {})
        return status

    def change(self, resource: Resource, name: str, body: Mapping[str, Any], namespace: str = "default") -> None:
        self.objects.patch(resource, "" if resource == NODES else namespace, name, body)

    def change_taints(self, name: str, taints: list[Json]) -> None:
        self.change(NODES, name, {"spec": {"taints": taints}})

    def pods(self, labels: str = "") -> list[Json]:
        return self.objects.list(PODS, "default", labels=labels)

    def names(self, labels: str = "") -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(labels)]

    def places(self, labels: str = "") -> list[str]:
        return sorted(pod["spec"].get("nodeName", "-") for pod in self.pods(labels))

    def ready(self, labels: str = "") -> int:
        return sum(condition_of(pod, "Ready") == "True" for pod in self.pods(labels) if not is_leaving(pod))

    def taints(self, name: str) -> list[str]:
        taints = self.get(NODES, name)["spec"].get("taints") or []
        return [f"{taint['key'].removeprefix('node.kubernetes.io/')}:{taint['effect']}" for taint in taints]


def is_leaving(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def condition_of(obj: Json, kind: str) -> str:
    conditions = obj.get("status", {}).get("conditions") or []
    return next((str(one["status"]) for one in conditions if one["type"] == kind), "")


def node(name: str, *, zone: str = "z0", room: Mapping[str, str] | None = None, **labels: str) -> Json:
    metadata = {"name": name, "labels": {"topology.kubernetes.io/zone": zone, "kubernetes.io/hostname": name, **labels}}
    made: Json = {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}}
    if room:
        amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", **room}
        made["status"] = {"capacity": amounts, "allocatable": amounts}
    return made


def template(app: str, *, notes: Mapping[str, str] | None = None, cpu: str = "", **spec: Any) -> Json:
    container: Json = {"name": "main", "image": "registry.test/app:1"}
    if cpu:
        container["resources"] = {"requests": {"cpu": cpu}}
    metadata: Json = {"labels": {"app": app}}
    if notes:
        metadata["annotations"] = {f"simulate.haulout.dev/{name}": value for name, value in notes.items()}
    return {"metadata": metadata, "spec": {"containers": [container], "terminationGracePeriodSeconds": 30, **spec}}


def _workload(kind: str, api: str, name: str, pods: Json, spec: Mapping[str, Any]) -> Json:
    return {
        "apiVersion": api,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default", "labels": {"app": name}},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": pods, **spec},
    }


def deployment(name: str, replicas: int, pods: Json | None = None, **spec: Any) -> Json:
    return _workload("Deployment", "apps/v1", name, pods or template(name), {"replicas": replicas, **spec})


def replica_set(name: str, replicas: int, pods: Json | None = None, **spec: Any) -> Json:
    return _workload("ReplicaSet", "apps/v1", name, pods or template(name), {"replicas": replicas, **spec})


def stateful_set(name: str, replicas: int, pods: Json | None = None, **spec: Any) -> Json:
    given = {"serviceName": name, "replicas": replicas, **spec}
    return _workload("StatefulSet", "apps/v1", name, pods or template(name), given)


def daemon_set(name: str, pods: Json | None = None, **spec: Any) -> Json:
    return _workload("DaemonSet", "apps/v1", name, pods or template(name), spec)


def job(name: str, pods: Json | None = None, **spec: Any) -> Json:
    made = _workload("Job", "batch/v1", name, pods or template(name, restartPolicy="Never"), spec)
    del made["spec"]["selector"]
    return made


def pod(name: str, *, app: str = "", **spec: Any) -> Json:
    body = template(app or name, **spec)
    metadata = {**body["metadata"], "name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": body["spec"]}


def budget(app: str, **spec: Any) -> Json:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": app}}, **spec},
    }
