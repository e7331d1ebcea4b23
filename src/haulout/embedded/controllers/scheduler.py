"""The simulated scheduler: it binds pods to nodes with room, spread over zones and nodes by a deterministic rule."""

from __future__ import annotations

import heapq
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

import msgspec

from haulout.embedded.controllers.node_fit import (
    NO_EXECUTE,
    NO_SCHEDULE,
    UNSCHEDULABLE_TAINT,
    Room,
    allocatable_of,
    matches_affinity,
    pinned_to,
    requests_of,
    tolerates,
    untolerated_taint,
)
from haulout.embedded.controllers.object_fields import (
    Key,
    condition,
    has_ended,
    is_terminating,
    labels_of,
    node_of,
    with_condition,
)
from haulout.embedded.controllers.places import Place, Places
from haulout.embedded.controllers.tables import Pods, Table
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import BINDINGS, PODS
from haulout.kube.errors import Conflict, NotFound

_BLOCKING = frozenset((NO_EXECUTE, NO_SCHEDULE))
# The most shapes of pods that are remembered: more than a cluster has.
_SHAPES = 4096


class _Shape(NamedTuple):
    """The parts of a pod that decide where it fits, equal for all pods of one template."""

    wishes: bytes
    room: Room


class Scheduler:
    """The simulated scheduler: it binds pods to nodes that have room for them.

    Pods that fit nowhere wait by shape. After a change, one pod of each shape is tried before the others of that shape.
    """

    def __init__(self, objects: Objects, timers: Timers, pods: Pods, nodes: Table) -> None:
        self._objects = objects
        self._timers = timers
        self._pods = pods
        self._work: WorkQueue[str] = WorkQueue(timers, lambda _: self._pass())
        self._places = Places()
        self._queue: list[tuple[int, int, Key]] = []
        self._arrivals = 0
        self._stuck: dict[_Shape, dict[Key, None]] = {}
        self._retry = False
        self._static: dict[bytes, dict[str, str]] = {}
        # Why pods of a shape fit on no node, and at which change of the nodes that was found.
        self._reasons: dict[_Shape, tuple[int, str]] = {}
        nodes.listen(self._on_node)
        pods.listen(self._on_pod)

    def _on_node(self, key: Key, old: Json | None, new: Json | None) -> None:
        if old and new and _fit_alike(old, new):
            return
        name = key[1]
        for answers in self._static.values():
            answers.pop(name, None)
        self._places.put_node(name, new)
        if new:
            self._stir()

    def _on_pod(self, key: Key, old: Json | None, new: Json | None) -> None:
        held, holds = self._places.holds(key), bool(new and node_of(new) and not has_ended(new))
        if new and holds and not held:
            self._places.put_pod(key, new)
        elif held and not holds:
            self._places.drop_pod(key)
            self._stir()
        elif new and not old and not node_of(new):
            self._arrivals += 1
            heapq.heappush(self._queue, (-int(new["spec"].get("priority") or 0), self._arrivals, key))
            self._work.add("")
        elif new and old and old["spec"].get("schedulingGates") and not new["spec"].get("schedulingGates"):
            self._on_pod(key, None, new)

    def _stir(self) -> None:
        if self._stuck:
            self._retry = True
            self._work.add("")

    def _pass(self) -> None:
        if self._retry:
            self._retry = False
            for shape in list(self._stuck):
                self._try_stuck(shape)
        failed: set[_Shape] = set()
        while self._queue:
            key = heapq.heappop(self._queue)[2]
            pod = self._pods.get(key)
            if pod is None or not _waits(pod):
                continue
            shape = _shape(pod)
            if shape in failed or not self._place(key, pod, shape):
                failed.add(shape)
                self._park(key, pod, shape)

    def _try_stuck(self, shape: _Shape) -> None:
        waiting = self._stuck[shape]
        for key in list(waiting):
            pod = self._pods.get(key)
            if pod is not None and _waits(pod) and not self._place(key, pod, shape):
                break
            del waiting[key]
        if not waiting:
            del self._stuck[shape]

    def _place(self, key: Key, pod: Json, shape: _Shape) -> bool:
        name = self._choose(pod, shape)
        if name is None:
            return False
        binding: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": key[0], "name": key[1], "uid": pod["metadata"]["uid"]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": name},
        }
        # The pod may have been deleted or bound to another node meanwhile.
        with suppress(Conflict, NotFound):
            self._objects.create(BINDINGS, binding)
        self._pods.refresh(key)
        return True

    def _choose(self, pod: Json, shape: _Shape) -> str | None:
        """Return the best node: fewest pods of the owner in zone, then on node, then fewest pods, then by name."""
        if pinned := pinned_to(pod["spec"]):
            place = self._places.nodes.get(pinned)
            return pinned if place and not self._problems(pod, shape, pinned, place) else None
        spread = self._places.spread(pod)
        for zone in self._places.zones(spread):
            best, least = None, -1
            for name in self._places.in_zone(zone):
                same = spread.get(name, 0) if spread else 0
                if best is not None and same >= least:
                    continue
                if not self._problems(pod, shape, name, self._places.nodes[name]):
                    best, least = name, same
                    if not same:
                        break
            if best is not None:
                return best
        return None

    def _problems(self, pod: Json, shape: _Shape, name: str, place: Place) -> tuple[str, ...]:
        answers = self._static.get(shape.wishes)
        if answers is None:
            if len(self._static) >= _SHAPES:
                self._static.clear()
            answers = self._static[shape.wishes] = {}
        problem = answers.get(name)
        if problem is None:
            problem = answers[name] = _problem(pod["spec"], place.node)
        if problem:
            return (problem,)
        return place.free.lacking(shape.room)

    def _park(self, key: Key, pod: Json, shape: _Shape) -> None:
        self._stuck.setdefault(shape, {})[key] = None
        found = condition(pod, "PodScheduled")
        if found and found["status"] == "False" and found.get("reason") == "Unschedulable":
            return
        new = {
            "type": "PodScheduled",
            "observedGeneration": pod["metadata"].get("generation", 1),
            "status": "False",
            "reason": "Unschedulable",
            "message": self._why(pod, shape),
        }
        conditions = with_condition(pod.get("status", {}).get("conditions") or (), new, self._timers.now())
        self._pods.put(self._objects.patch(PODS, *key, {"status": {"conditions": conditions}}, subresource="status"))

    def _why(self, pod: Json, shape: _Shape) -> str:
        """Return why no node fits, computed once for all pods of a shape.

        For 30,000 pods that wait for 1,000 nodes, computing it for each pod took half a minute.
        """
        known = self._reasons.get(shape)
        if known is None or known[0] != self._places.changes:
            if len(self._reasons) >= _SHAPES:
                self._reasons.clear()
            known = self._reasons[shape] = self._places.changes, self._reason(pod, shape)
        return known[1]

    def _reason(self, pod: Json, shape: _Shape) -> str:
        if not self._places.nodes:
            return "no nodes available to schedule pods"
        reasons: Counter[str] = Counter()
        pinned = pinned_to(pod["spec"])
        for name, place in self._places.nodes.items():
            if pinned and name != pinned:
                reasons["node(s) didn't satisfy plugin(s) [NodeAffinity]"] += 1
            else:
                reasons.update(self._problems(pod, shape, name, place))
        texts = sorted(f"{count} {reason}" for reason, count in reasons.items())
        return f"0/{len(self._places.nodes)} nodes are available: {', '.join(texts)}."


def _fit_alike(old: Json, new: Json) -> bool:
    """Whether two states of a node are equal in all that decides which pods fit there."""
    was, spec = old.get("spec") or {}, new.get("spec") or {}
    if was.get("taints") != spec.get("taints") or was.get("unschedulable") != spec.get("unschedulable"):
        return False
    return labels_of(old) == labels_of(new) and allocatable_of(old) == allocatable_of(new)


def _waits(pod: Json) -> bool:
    spec = pod["spec"]
    return not (
        node_of(pod)
        or is_terminating(pod)
        or has_ended(pod)
        or spec.get("schedulingGates")
        or (spec.get("schedulerName") or "default-scheduler") != "default-scheduler"
    )


def _shape(pod: Json) -> _Shape:
    spec = pod["spec"]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity")
    wishes = (spec.get("nodeSelector"), affinity, spec.get("tolerations"))
    return _Shape(msgspec.json.encode(wishes), requests_of(spec))


def _problem(spec: Json, node: Json) -> str:
    """Return why a pod may not run on a node even with enough room, in the words of the first plugin that objects."""
    tolerations = spec.get("tolerations") or ()
    if node.get("spec", {}).get("unschedulable") and not any(
        tolerates(one, UNSCHEDULABLE_TAINT) for one in tolerations
    ):
        return "node(s) were unschedulable"
    if untolerated_taint(node.get("spec", {}).get("taints") or (), tolerations, _BLOCKING):
        return "node(s) had untolerated taint(s)"
    if not matches_affinity(spec, node):
        return "node(s) didn't match Pod's node affinity/selector"
    return ""
