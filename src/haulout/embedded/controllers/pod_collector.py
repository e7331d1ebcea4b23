"""The simulated pod garbage collector: it force-deletes pods that no kubelet will ever remove."""

from __future__ import annotations

from datetime import timedelta

from haulout.embedded.controllers.object_fields import Key, has_ended, key_of, node_of, with_condition
from haulout.embedded.controllers.tables import Pods, Table
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import NODES, PODS
from haulout.kube.errors import Conflict, NotFound

# A node that is missing for less may just not have been seen yet (pkg/controller/podgc/gc_controller.go).
QUARANTINE = timedelta(seconds=40)
_TARGETED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByPodGC",
    "message": "PodGC: node no longer exists",
}


class PodCollector:
    """The simulated pod garbage collector: it removes pods that no kubelet will ever remove."""

    def __init__(self, objects: Objects, timers: Timers, pods: Pods, nodes: Table) -> None:
        self._objects = objects
        self._timers = timers
        self._pods = pods
        self._nodes = nodes
        self._planned: set[str] = set()
        nodes.listen(self._on_node)
        pods.listen(self._on_pod)

    def _on_node(self, key: Key, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._plan(key[1])

    def _on_pod(self, key: Key, old: Json | None, new: Json | None) -> None:
        node = node_of(new) if new else ""
        if node and ("", node) not in self._nodes.rows and (old is None or not node_of(old)):
            self._plan(node)

    def _plan(self, node: str) -> None:
        if node not in self._planned:
            self._planned.add(node)
            self._timers.at(self._timers.now() + QUARANTINE, lambda: self._collect(node))

    def _collect(self, node: str) -> None:
        self._planned.discard(node)
        if self._objects.get(NODES, "", node) is not None:
            return
        for pod in self._pods.on_node(node):
            self._remove(pod)

    def _remove(self, pod: Json) -> None:
        key = key_of(pod)
        try:
            if not has_ended(pod):
                old = (pod.get("status") or {}).get("conditions") or ()
                status = {"phase": "Failed", "conditions": with_condition(old, _TARGETED, self._timers.now())}
                self._objects.patch(PODS, *key, {"status": status}, subresource="status")
            self._objects.delete(PODS, *key, uid=pod["metadata"]["uid"], grace=0)
        except (NotFound, Conflict):
            pass
        self._pods.refresh(key)
