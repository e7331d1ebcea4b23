"""The simulated taint eviction controller: it deletes pods that do not tolerate a NoExecute taint, or no longer do."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from haulout.base.bounds import span
from haulout.embedded.controllers.node_fit import NO_EXECUTE, tolerates
from haulout.embedded.controllers.object_fields import Key, has_ended, is_terminating, key_of, node_of, with_condition
from haulout.embedded.controllers.tables import Pods, Table
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import PODS
from haulout.kube.errors import NotFound

_TARGETED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


class TaintEviction:
    """The simulated taint eviction controller: it deletes pods that do not tolerate a NoExecute taint of their node."""

    def __init__(self, objects: Objects, timers: Timers, pods: Pods, nodes: Table) -> None:
        self._objects = objects
        self._timers = timers
        self._pods = pods
        self._taints: dict[str, tuple[Json, ...]] = {}
        # When the pod's toleration began to run, when the pod is deleted, and how to cancel that.
        self._planned: dict[Key, tuple[datetime, datetime, Callable[[], None]]] = {}
        self._work: WorkQueue[Key] = WorkQueue(timers, self._evict)
        nodes.listen(self._on_node)
        pods.listen(self._on_pod)

    def _on_node(self, key: Key, old: Json | None, new: Json | None) -> None:
        if old and new and old.get("spec") is new.get("spec"):
            return
        name = key[1]
        taints = _no_execute(new) if new else ()
        if taints == self._taints.get(name, ()):
            return
        if taints:
            self._taints[name] = taints
        else:
            self._taints.pop(name, None)
        for pod in self._pods.on_node(name):
            self._judge(pod, taints)

    def _on_pod(self, key: Key, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._call_off(key)
        elif (taints := self._taints.get(node_of(new))) and (old is None or _concerned(old) != _concerned(new)):
            self._judge(new, taints)

    def _judge(self, pod: Json, taints: tuple[Json, ...]) -> None:
        key, now = key_of(pod), self._timers.now()
        lasts = _tolerated_for(pod["spec"].get("tolerations") or (), taints)
        if not taints or lasts is None:
            self._call_off(key)
            return
        since = now
        if key in self._planned:
            since, goes_at, _ = self._planned[key]
            if goes_at <= now + lasts:
                return
        self._call_off(key)
        if not lasts:
            self._work.add(key)
        else:
            at = since + lasts
            self._planned[key] = (since, at, self._timers.at(at, lambda: self._work.add(key)))

    def _call_off(self, key: Key) -> None:
        if planned := self._planned.pop(key, None):
            planned[2]()

    def _evict(self, key: Key) -> None:
        self._planned.pop(key, None)
        pod = self._objects.get(PODS, *key)
        if pod is None or is_terminating(pod):
            return
        if not has_ended(pod):
            new = {**_TARGETED, "observedGeneration": pod["metadata"].get("generation", 1)}
            conditions = with_condition((pod.get("status") or {}).get("conditions") or (), new, self._timers.now())
            self._objects.patch(PODS, *key, {"status": {"conditions": conditions}}, subresource="status")
        try:
            self._objects.delete(PODS, *key, uid=pod["metadata"]["uid"])
        except NotFound:
            return


def _concerned(pod: Json) -> tuple[object, ...]:
    return node_of(pod), pod["spec"].get("tolerations")


def _no_execute(node: Json) -> tuple[Json, ...]:
    taints = (node.get("spec") or {}).get("taints") or ()
    return tuple([taint for taint in taints if taint["effect"] == NO_EXECUTE])


def _tolerated_for(tolerations: list[Json] | tuple[Json, ...], taints: tuple[Json, ...]) -> timedelta | None:
    """Return how long the pod tolerates the taints: zero if one is not tolerated, None if all are without end."""
    ends = []
    for taint in taints:
        used = next((one for one in tolerations if tolerates(one, taint)), None)
        if used is None:
            return timedelta()
        if used.get("tolerationSeconds") is not None:
            ends.append(span(max(int(used["tolerationSeconds"]), 0)))
    return min(ends, default=None)
