"""The arithmetic of a rolling update: the next size of each ReplicaSet of a Deployment."""

from __future__ import annotations

from typing import NamedTuple

from haulout.base.number import digits
from haulout.embedded.controllers.object_fields import Key, annotations_of, key_of, scale_int_or_percent
from haulout.embedded.controllers.replicaset import wanted_replicas
from haulout.embedded.interfaces import Json

DESIRED = "deployment.kubernetes.io/desired-replicas"
MAXIMUM = "deployment.kubernetes.io/max-replicas"

Sizes = dict[Key, int]


class Rollout(NamedTuple):
    """The arithmetic of one Deployment's rolling update (pkg/controller/deployment).

    ReplicaSets are given from old to new. Results name only the ReplicaSets whose size changes.
    """

    size: int
    surge: int
    unavailable: int

    def first_size(self, old: list[Json]) -> int:
        """Return the size of a ReplicaSet that is about to be created."""
        room = self.size + self.surge - sum(map(wanted_replicas, old))
        return max(min(room, self.size), 0)

    def up(self, new: Json, old: list[Json]) -> Sizes:
        now = wanted_replicas(new)
        if now == self.size:
            return {}
        if now > self.size:
            return {key_of(new): self.size}
        room = self.size + self.surge - sum(map(wanted_replicas, old)) - now
        return {key_of(new): now + min(room, self.size - now)} if room > 0 else {}

    def down(self, new: Json, old: list[Json]) -> Sizes:
        """Return smaller sizes of the old ReplicaSets.

        Unavailable pods go first, then available ones while enough others are available.
        """
        sizes = {key_of(one): wanted_replicas(one) for one in old if wanted_replicas(one)}
        least = self.size - self.unavailable
        lacking = wanted_replicas(new) - _available(new)
        most = sum(sizes.values()) + wanted_replicas(new) - least - lacking
        if not sizes or most <= 0:
            return {}
        before = dict(sizes)
        for one in old:
            key = key_of(one)
            if most > 0 and sizes.get(key):
                unhealthy = min(most, max(sizes[key] - _available(one), 0))
                sizes[key] -= unhealthy
                most -= unhealthy
        spare = sum(map(_available, old)) + _available(new) - least
        for key, size in list(sizes.items()):
            if spare > 0:
                removed = min(size, spare)
                sizes[key] = size - removed
                spare -= removed
        return {key: size for key, size in sizes.items() if size != before[key]}

    def proportions(self, new: Json | None, old: list[Json]) -> Sizes:
        """Return the sizes after a change of the Deployment's size, during a rollout or while it is paused."""
        everyone = [*old, new] if new else old
        active = [one for one in everyone if wanted_replicas(one)]
        if len(active) <= 1:
            only = active[0] if active else new or (old[-1] if old else None)
            return {key_of(only): self.size} if only else {}
        if new and self._saturated(new):
            return {key_of(one): 0 for one in old if wanted_replicas(one)}
        total = sum(map(wanted_replicas, active))
        most = self.size + self.surge if self.size else 0
        missing = most - total
        newest_first = sorted(
            enumerate(active), key=lambda pair: (-wanted_replicas(pair[1]), -pair[0] * (1 if missing > 0 else -1))
        )
        sizes, added = {}, 0
        for _, one in newest_first:
            share = self._share(one, missing - added, missing)
            sizes[key_of(one)] = wanted_replicas(one) + share
            added += share
        largest = key_of(newest_first[0][1])
        sizes[largest] = max(sizes[largest] + missing - added, 0)
        return sizes

    def _share(self, one: Json, spare: int, missing: int) -> int:
        if not spare:
            return 0
        if not self.size:
            return max(-wanted_replicas(one), spare)
        before = digits(annotations_of(one).get(MAXIMUM, "")) or wanted_replicas(one)
        exact = wanted_replicas(one) * (self.size + self.surge) / before
        share = int(exact + 0.5) - wanted_replicas(one)
        return min(share, spare) if missing > 0 else max(share, spare)

    def _saturated(self, new: Json) -> bool:
        desired = annotations_of(new).get(DESIRED)
        return wanted_replicas(new) == self.size == _available(new) and desired == str(self.size)


def _available(replica_set: Json) -> int:
    return int((replica_set.get("status") or {}).get("availableReplicas", 0))


def fenceposts(deployment: Json) -> tuple[int, int]:
    """Return how many pods above and below the wanted number a rollout may have. They are never both zero."""
    size = wanted_replicas(deployment)
    strategy = deployment["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate" or not size:
        return 0, 0
    rolling = strategy.get("rollingUpdate") or {}
    surge = scale_int_or_percent(rolling.get("maxSurge", "25%"), size, up=True)
    unavailable = scale_int_or_percent(rolling.get("maxUnavailable", "25%"), size, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, size)
