"""The simulated ReplicaSet controller: it keeps the wanted number of pods, and chooses which ones to delete."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cmp_to_key
from typing import Any

from haulout.base.number import parse_int
from haulout.embedded.controllers.claims import Claims
from haulout.embedded.controllers.generated_names import Names
from haulout.embedded.controllers.object_fields import (
    Key,
    annotations_of,
    available_at,
    condition,
    controller_of,
    instant,
    is_active,
    is_ready,
    is_terminating,
    key_of,
    node_of,
    phase_of,
)
from haulout.embedded.controllers.tables import Owned, Pods
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import REPLICA_SETS

# The controller creates and deletes no more than this in one sync (pkg/controller/replicaset/replica_set.go).
_BURST = 500
_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


class ReplicaSets:
    """The simulated controller of ReplicaSets: it creates and deletes pods until there are as many as wanted.

    `brief`: it leaves their statuses as they are, see `ActorOptions`.
    """

    def __init__(
        self, objects: Objects, timers: Timers, names: Names, pods: Pods, replica_sets: Owned, *, brief: bool = False
    ) -> None:
        self._objects = objects
        self._timers = timers
        self._sets = replica_sets
        self._brief = brief
        self._work: WorkQueue[Key] = WorkQueue(timers, self._sync)
        self._claims = Claims(
            objects, names, pods, replica_sets, "apps/v1", "ReplicaSet", self._work.add, by_tally=True, by_active=brief
        )

    def _sync(self, key: Key) -> None:
        owner = self._sets.get(key)
        if owner is None:
            self._work.forget(key)
            return
        self._claims.settle(owner)
        if not is_terminating(owner):
            self._manage(key, owner)
        if not self._brief:
            self._write_status(key, owner)

    def _manage(self, key: Key, owner: Json) -> None:
        surplus = self._claims.tally(owner).active - wanted_replicas(owner)
        if surplus < 0:
            base = f"{key[1]}-"
            for _ in range(min(-surplus, _BURST)):
                self._claims.create(owner, owner["spec"]["template"], base=base)
        elif surplus > 0:
            active = [pod for pod in self._claims.pods(owner) if is_active(pod)]
            self._claims.delete(first_to_go(active, self._related(owner, active), self._timers.now())[:surplus])
        if abs(surplus) > _BURST:
            self._work.add(key)

    def _related(self, owner: Json, active: list[Json]) -> list[Json]:
        """Return the active pods of all ReplicaSets that have the same controller."""
        controller = controller_of(owner)
        if controller is None:
            return active
        siblings = self._sets.owned(controller["uid"])
        return [pod for sibling in siblings for pod in self._claims.pods(sibling) if is_active(pod)]

    def _write_status(self, key: Key, owner: Json) -> None:
        tally = self._claims.tally(owner)
        min_ready = int(owner["spec"].get("minReadySeconds") or 0)
        available = tally.ready if not min_ready else self._available(key, owner, min_ready)
        status = {
            "replicas": tally.active,
            "fullyLabeledReplicas": tally.active,
            "readyReplicas": tally.ready,
            "availableReplicas": available,
            "terminatingReplicas": tally.leaving,
            "observedGeneration": owner["metadata"].get("generation", 0),
        }
        old = owner.get("status") or {}
        if any(old.get(name, 0) != value for name, value in status.items()):
            self._sets.put(self._objects.patch(REPLICA_SETS, *key, {"status": status}, subresource="status"))

    def _available(self, key: Key, owner: Json, min_ready: int) -> int:
        now = self._timers.now()
        instants = [at for pod in self._claims.pods(owner) if is_active(pod) and (at := available_at(pod, min_ready))]
        if upcoming := min((at for at in instants if at > now), default=None):
            self._work.add_at(key, upcoming)
        return sum(at <= now for at in instants)


def wanted_replicas(owner: Json) -> int:
    replicas = owner["spec"].get("replicas")
    return 1 if replicas is None else int(replicas)


def first_to_go(pods: Sequence[Json], related: Sequence[Json], now: datetime) -> list[Json]:
    """Return the pods in the order in which they are deleted.

    The order is that of `ActivePodsWithRanks` (pkg/controller/controller_utils.go), then by name.
    """
    crowd = Counter(node_of(pod) for pod in related if is_ready(pod))
    order = (_by_state, lambda a, b: crowd[node_of(b)] - crowd[node_of(a)], _by_age(now), _by_name)

    def compare(one: Json, other: Json) -> int:
        return next((result for by in order if (result := by(one, other))), 0)

    return sorted(pods, key=cmp_to_key(compare))


def _by_state(one: Json, other: Json) -> int:
    a, b = _state(one), _state(other)
    return (a > b) - (a < b)


def _state(pod: Json) -> tuple[Any, ...]:
    try:
        cost = parse_int(annotations_of(pod).get("controller.kubernetes.io/pod-deletion-cost", "0")) or 0
    except ValueError:
        cost = 0
    return bool(node_of(pod)), _PHASES.get(phase_of(pod), 0), is_ready(pod), cost


def _by_age(now: datetime) -> Callable[[Json, Json], int]:
    """Return a sort key: younger pods first, by orders of magnitude of age; within one, the UID decides."""

    def compare(one: Json, other: Json) -> int:
        if is_ready(one) and is_ready(other):
            ready = [instant((condition(pod, "Ready") or {}).get("lastTransitionTime")) for pod in (one, other)]
            if ready[0] != ready[1]:
                return _magnitude(now, ready[0]) - _magnitude(now, ready[1]) or _by_uid(one, other)
        if restarts := _restarts(other) - _restarts(one):
            return restarts
        created = [instant(pod["metadata"]["creationTimestamp"]) for pod in (one, other)]
        if created[0] != created[1]:
            return _magnitude(now, created[0]) - _magnitude(now, created[1]) or _by_uid(one, other)
        return 0

    return compare


def _magnitude(now: datetime, then: datetime) -> int:
    nanoseconds = (now - then).total_seconds() * 1e9
    return int(math.log2(nanoseconds)) if nanoseconds > 0 else -1


def _restarts(pod: Json) -> int:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    return max((int(status.get("restartCount", 0)) for status in statuses), default=0)


def _by_uid(one: Json, other: Json) -> int:
    a, b = str(one["metadata"]["uid"]), str(other["metadata"]["uid"])
    return (a > b) - (a < b)


def _by_name(one: Json, other: Json) -> int:
    a, b = key_of(one), key_of(other)
    return (a > b) - (a < b)
