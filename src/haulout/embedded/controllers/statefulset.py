"""The simulated StatefulSet controller: numbered pods, created and deleted in order, or all at once by policy."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from haulout.base.number import digits
from haulout.embedded.controllers.claims import Claims
from haulout.embedded.controllers.generated_names import Names
from haulout.embedded.controllers.object_fields import (
    Key,
    available_at,
    has_ended,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    phase_of,
)
from haulout.embedded.controllers.replicaset import wanted_replicas
from haulout.embedded.controllers.revisions import HASH, Revision, Revisions
from haulout.embedded.controllers.tables import Owned, Pods, Table
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import STATEFUL_SETS


class _State(NamedTuple):
    """The state of a StatefulSet in one sync.

    It has the pods by ordinal, the pods beyond the wanted size from the last on, and the current and the new revision.
    """

    owner: Json
    replicas: dict[int, Json]
    condemned: list[Json]
    current: Revision
    update: Revision


class StatefulSets:
    """The simulated controller of StatefulSets: it creates, replaces and deletes their numbered pods."""

    def __init__(
        self, objects: Objects, timers: Timers, names: Names, pods: Pods, sets: Table, revisions: Owned
    ) -> None:
        self._objects = objects
        self._timers = timers
        self._sets = sets
        self._revisions = Revisions(objects, revisions)
        self._work: WorkQueue[Key] = WorkQueue(timers, self._sync)
        self._claims = Claims(objects, names, pods, sets, "apps/v1", "StatefulSet", self._work.add)

    def _sync(self, key: Key) -> None:
        owner = self._sets.get(key)
        if owner is None:
            self._work.forget(key)
            return
        self._claims.settle(owner)
        update = self._revisions.current(owner, "StatefulSet")
        name = (owner.get("status") or {}).get("currentRevision") or ""
        current = self._revisions.named(owner, name) or update
        if not is_terminating(owner):
            self._manage(self._state(owner, current, update))
        self._write_status(key, self._state(owner, current, update))
        self._revisions.clean_up(
            owner, lambda: {current.name, update.name, *map(_revision_of, self._claims.pods(owner))}
        )

    def _state(self, owner: Json, current: Revision, update: Revision) -> _State:
        start = _start(owner)
        ordinals = range(start, start + wanted_replicas(owner))
        pods = {number: pod for pod in self._claims.pods(owner) if (number := _ordinal(owner, pod)) is not None}
        replicas = {number: pods[number] for number in ordinals if number in pods}
        condemned = [pods[number] for number in sorted(pods, reverse=True) if number not in ordinals]
        return _State(owner, replicas, condemned, current, update)

    def _manage(self, state: _State) -> None:
        in_order = state.owner["spec"].get("podManagementPolicy") != "Parallel"
        if self._fill(state, in_order=in_order) or self._shrink(state, in_order=in_order):
            return
        if (state.owner["spec"].get("updateStrategy") or {}).get("type") != "OnDelete":
            self._update(self._state(state.owner, state.current, state.update))

    def _fill(self, state: _State, *, in_order: bool) -> bool:
        """Create missing pods. Return whether the set must wait for a pod before anything else."""
        start = _start(state.owner)
        for number in range(start, start + wanted_replicas(state.owner)):
            pod = state.replicas.get(number)
            if pod is None:
                self._create(state, number)
            elif has_ended(pod):
                if not is_terminating(pod):
                    self._claims.delete([pod])
            elif not is_terminating(pod) and self._is_available(state.owner, pod):
                continue
            if in_order:
                return True
        return False

    def _shrink(self, state: _State, *, in_order: bool) -> bool:
        everyone = [*state.replicas.values(), *reversed(state.condemned)]
        unhealthy = next((pod for pod in everyone if not self._is_healthy(state.owner, pod)), None)
        for pod in state.condemned:
            if is_terminating(pod):
                if in_order:
                    return True
                continue
            if in_order and pod is not unhealthy and not self._is_healthy(state.owner, pod):
                return True
            self._claims.delete([pod])
            if in_order:
                return True
        return False

    def _update(self, state: _State) -> None:
        """Replace outdated pods one by one, from the last ordinal down to the partition.

        The feature gate for maxUnavailable is off in the real controller.
        """
        rolling = (state.owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
        first = _start(state.owner) + int(rolling.get("partition") or 0)
        for number, pod in sorted(state.replicas.items(), reverse=True):
            if number < first:
                return
            if not is_terminating(pod) and _revision_of(pod) != state.update.name:
                self._claims.delete([pod])
                return
            if not self._is_healthy(state.owner, pod):
                return

    def _create(self, state: _State, number: int) -> None:
        revision = state.update if number >= self._first_updated(state) else state.current
        name = key_of(state.owner)[1]
        pod_name = f"{name}-{number}"
        meta = revision.template.get("metadata") or {}
        labels = {
            **(meta.get("labels") or {}),
            "apps.kubernetes.io/pod-index": str(number),
            HASH: revision.name,
            "statefulset.kubernetes.io/pod-name": pod_name,
        }
        spec = {**revision.template["spec"], "hostname": pod_name}
        if service := state.owner["spec"].get("serviceName"):
            spec["subdomain"] = service
        self._claims.create(
            state.owner, {**revision.template, "spec": spec}, pod_name, generateName=f"{name}-", labels=labels
        )

    def _first_updated(self, state: _State) -> int:
        """Return the ordinal from which pods are created by the new template."""
        strategy = state.owner["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return 0
        rolling = strategy.get("rollingUpdate")
        still = int((state.owner.get("status") or {}).get("currentReplicas", 0))
        return _start(state.owner) + (still if rolling is None else int(rolling.get("partition") or 0))

    def _write_status(self, key: Key, state: _State) -> None:
        owner, now = state.owner, self._timers.now()
        pods = [*state.replicas.values(), *state.condemned]
        self._plan_next(key, owner, pods, now)
        staying = [_revision_of(pod) for pod in pods if not is_terminating(pod)]
        ready = [pod for pod in pods if phase_of(pod) == "Running" and is_ready(pod)]
        status = {
            "observedGeneration": owner["metadata"].get("generation", 0),
            "replicas": len(pods),
            "readyReplicas": len(ready),
            "availableReplicas": sum(self._is_available(owner, pod) for pod in ready),
            "currentReplicas": staying.count(state.current.name),
            "updatedReplicas": staying.count(state.update.name),
            "currentRevision": state.current.name,
            "updateRevision": state.update.name,
            "collisionCount": 0,
        }
        size, rolls = wanted_replicas(owner), (owner["spec"].get("updateStrategy") or {}).get("type") != "OnDelete"
        if rolls and status["updatedReplicas"] == status["readyReplicas"] == status["replicas"] == size:
            status["currentRevision"], status["currentReplicas"] = state.update.name, size
        old = owner.get("status") or {}
        if any(old.get(name, 0) != value for name, value in status.items()):
            self._sets.put(self._objects.patch(STATEFUL_SETS, *key, {"status": status}, subresource="status"))

    def _plan_next(self, key: Key, owner: Json, pods: list[Json], now: datetime) -> None:
        min_ready = int(owner["spec"].get("minReadySeconds") or 0)
        if min_ready:
            instants = [at for pod in pods if (at := available_at(pod, min_ready)) and at > now]
            if instants:
                self._work.add_at(key, min(instants))

    def _is_available(self, owner: Json, pod: Json) -> bool:
        at = available_at(pod, int(owner["spec"].get("minReadySeconds") or 0))
        return phase_of(pod) == "Running" and at is not None and at <= self._timers.now()

    def _is_healthy(self, owner: Json, pod: Json) -> bool:
        return not is_terminating(pod) and self._is_available(owner, pod)


def _start(owner: Json) -> int:
    return int((owner["spec"].get("ordinals") or {}).get("start", 0))


def _ordinal(owner: Json, pod: Json) -> int | None:
    name, _, number = pod["metadata"]["name"].rpartition("-")
    return digits(number) if name == owner["metadata"]["name"] else None


def _revision_of(pod: Json) -> str:
    return labels_of(pod).get(HASH, "")
