"""The simulated Deployment controller: one ReplicaSet per pod template, rolled within maxSurge and maxUnavailable."""

from __future__ import annotations

import operator
from contextlib import suppress
from typing import NamedTuple

from haulout.base.number import digits
from haulout.base.selector import SelectorError, from_object
from haulout.embedded.controllers import deployment_status
from haulout.embedded.controllers.generated_names import content_hash
from haulout.embedded.controllers.object_fields import (
    Key,
    annotations_of,
    is_terminating,
    key_of,
    labels_of,
    owned_by,
)
from haulout.embedded.controllers.replicaset import wanted_replicas
from haulout.embedded.controllers.rollout import DESIRED, MAXIMUM, Rollout, fenceposts
from haulout.embedded.controllers.tables import Owned, Pods, Table
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Json, Objects, Timers
from haulout.embedded.resources import DEPLOYMENTS, REPLICA_SETS
from haulout.kube.errors import Conflict, NotFound

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
_NOT_COPIED = frozenset(("kubectl.kubernetes.io/last-applied-configuration", REVISION, DESIRED, MAXIMUM))


class _Sets(NamedTuple):
    """The ReplicaSets of a Deployment: `new` has the current template, the others are listed from old to new."""

    new: Json | None
    old: list[Json]

    @property
    def all(self) -> list[Json]:
        return [*self.old, self.new] if self.new else self.old


class _Settled(NamedTuple):
    """A Deployment that has nothing to roll out.

    It keeps the parts of the Deployment that were compared, by identity, and the keys of `_Sets.all`.
    """

    parts: tuple[object, ...]
    sets: list[Key]


def _parts(deployment: Json, sets: _Sets) -> tuple[object, ...]:
    return tuple(part for one in (deployment, *sets.all) for part in (one["spec"], one["metadata"].get("annotations")))


class Deployments:
    """The simulated controller of Deployments: it creates, scales and removes their ReplicaSets.

    `brief`: it leaves their statuses as they are, see `ActorOptions`.
    """

    def __init__(
        self,
        objects: Objects,
        timers: Timers,
        deployments: Table,
        replica_sets: Owned,
        pods: Pods,
        *,
        brief: bool = False,
    ) -> None:
        self._objects = objects
        self._timers = timers
        self._deployments = deployments
        self._brief = brief
        self._sets = replica_sets
        self._pods = pods
        self._keys: dict[str, Key] = {}
        self._settled: dict[Key, _Settled] = {}
        self._work: WorkQueue[Key] = WorkQueue(timers, self._sync)
        deployments.listen(self._on_deployment)
        replica_sets.listen_owned(("apps", "Deployment"), self._on_set)

    def _on_deployment(self, key: Key, old: Json | None, new: Json | None) -> None:
        if new:
            self._keys[new["metadata"]["uid"]] = key
        elif old:
            self._keys.pop(old["metadata"]["uid"], None)
        self._work.add(key)

    def _on_set(self, uid: str, set_key: Key, old: Json | None, new: Json | None) -> None:
        if key := self._keys.get(uid):
            self._work.add(key)

    def _sync(self, key: Key) -> None:
        deployment = self._deployments.get(key)
        if deployment is None:
            self._work.forget(key)
            self._settled.pop(key, None)
            return
        self._adopt(deployment)
        sets = self._settled_sets(key, deployment)
        if sets is None:
            sets = self._sets_of(deployment)
            if not is_terminating(deployment):
                deployment, sets = self._roll(deployment, sets)
            self._settle(key, deployment, sets)
        if not self._brief:
            self._write_status(key, deployment, sets)

    def _settle(self, key: Key, deployment: Json, sets: _Sets) -> None:
        """Remember a Deployment that has nothing to roll out, whatever the statuses of its ReplicaSets are."""
        self._settled.pop(key, None)
        is_whole = (
            sets.new is not None
            and wanted_replicas(sets.new) == wanted_replicas(deployment)
            and not any(map(wanted_replicas, sets.old))
        )
        if is_whole and len(sets.old) <= _kept_sets(deployment) and not is_terminating(deployment):
            self._settled[key] = _Settled(_parts(deployment, sets), [key_of(one) for one in sets.all])

    def _settled_sets(self, key: Key, deployment: Json) -> _Sets | None:
        """Return the ReplicaSets of a settled Deployment; None if more than a status has changed since it settled."""
        settled = self._settled.get(key)
        if settled is None or is_terminating(deployment):
            return None
        found = [self._sets.get(one) for one in settled.sets]
        owned = [one for one in found if one is not None]
        if len(owned) != len(found) or len(self._sets.by_owner.get(deployment["metadata"]["uid"], ())) != len(owned):
            return None
        sets = _Sets(owned[-1], owned[:-1])
        return sets if all(map(operator.is_, _parts(deployment, sets), settled.parts)) else None

    def _roll(self, deployment: Json, sets: _Sets) -> tuple[Json, _Sets]:
        spec = deployment["spec"]
        paused = bool(spec.get("paused"))
        size = wanted_replicas(deployment)
        scaling = any(
            wanted_replicas(one) and annotations_of(one).get(DESIRED, str(size)) != str(size) for one in sets.all
        )
        rollout = Rollout(size, *fenceposts(deployment))
        if paused or scaling:
            self._scale_to(deployment, sets.all, rollout.proportions(sets.new, sets.old))
            return deployment, self._sets_of(deployment)
        if _recreates(deployment) and any(map(wanted_replicas, sets.old)):
            self._scale_to(deployment, sets.old, {key_of(one): 0 for one in sets.old})
            return deployment, self._sets_of(deployment)
        if _recreates(deployment) and self._old_pods_run(sets):
            return deployment, sets
        deployment, sets = self._with_new_set(deployment, sets, rollout)
        if sets.new is None:
            return deployment, sets
        if _recreates(deployment):
            sizes = {key_of(sets.new): size}
        else:
            sizes = rollout.up(sets.new, sets.old) or rollout.down(sets.new, sets.old)
        self._scale_to(deployment, sets.all, sizes)
        self._clean_up(deployment, sets)
        return deployment, self._sets_of(deployment)

    def _old_pods_run(self, sets: _Sets) -> bool:
        return any(True for one in sets.old for _ in self._pods.owned(one["metadata"]["uid"]))

    def _sets_of(self, deployment: Json) -> _Sets:
        owned = sorted(self._sets.owned(deployment["metadata"]["uid"]), key=_age)
        template = _without_hash(deployment["spec"]["template"])
        new = next((one for one in owned if _without_hash(one["spec"]["template"]) == template), None)
        return _Sets(new, [one for one in owned if one is not new])

    def _adopt(self, deployment: Json) -> None:
        namespace = key_of(deployment)[0]
        orphans = [one for key, one in self._sets.orphans.items() if key[0] == namespace and not is_terminating(one)]
        if not orphans or is_terminating(deployment):
            return
        try:
            selector = from_object(deployment["spec"].get("selector") or {})
        except SelectorError:
            return
        for orphan in orphans:
            if selector.requirements and selector.matches(labels_of(orphan)):
                references = [*(orphan["metadata"].get("ownerReferences") or ()), _owned(deployment)]
                body = {"metadata": {"ownerReferences": references}}
                self._sets.put(self._objects.patch(REPLICA_SETS, *key_of(orphan), body))

    def _with_new_set(self, deployment: Json, sets: _Sets, rollout: Rollout) -> tuple[Json, _Sets]:
        """Return the Deployment and its sets, with a ReplicaSet of the current template and the revision on both."""
        newest = max((_revision(one) for one in sets.old), default=0) + 1
        if sets.new is None:
            deployment = self._create_set(deployment, sets, rollout, newest)
            return deployment, self._sets_of(deployment)
        revision = max(newest, _revision(sets.new))
        notes = {**_copied(deployment), REVISION: str(revision)}
        min_ready = deployment["spec"].get("minReadySeconds") or 0
        body: Json = {}
        if any(annotations_of(sets.new).get(name) != value for name, value in notes.items()):
            body["metadata"] = {"annotations": notes}
        if (sets.new["spec"].get("minReadySeconds") or 0) != min_ready:
            body["spec"] = {"minReadySeconds": min_ready}
        if body:
            self._sets.put(self._objects.patch(REPLICA_SETS, *key_of(sets.new), body))
            sets = self._sets_of(deployment)
        return self._note_revision(deployment, revision), sets

    def _create_set(self, deployment: Json, sets: _Sets, rollout: Rollout, revision: int) -> Json:
        namespace, name = key_of(deployment)
        spec, status = deployment["spec"], deployment.get("status") or {}
        collisions = int(status.get("collisionCount") or 0)
        digest = content_hash(spec["template"], collisions)
        meta = spec["template"].get("metadata") or {}
        labels = {**(meta.get("labels") or {}), HASH: digest}
        selector = {**spec["selector"], "matchLabels": {**(spec["selector"].get("matchLabels") or {}), HASH: digest}}
        size = wanted_replicas(deployment) if _recreates(deployment) else rollout.first_size(sets.old)
        body = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {
                "namespace": namespace,
                "name": f"{name}-{digest}",
                "labels": labels,
                "annotations": {**_copied(deployment), REVISION: str(revision), **_sizes(deployment)},
                "ownerReferences": [_owned(deployment)],
            },
            "spec": {
                "replicas": size,
                "minReadySeconds": spec.get("minReadySeconds") or 0,
                "selector": selector,
                "template": {**spec["template"], "metadata": {**meta, "labels": labels}},
            },
        }
        try:
            self._sets.put(self._objects.create(REPLICA_SETS, body))
        except Conflict as error:
            if not error.exists:
                raise
            return self._patched(deployment, {"status": {"collisionCount": collisions + 1}}, "status")
        deployment = self._note_revision(deployment, revision)
        conditions = deployment_status.first_conditions(deployment, f"{name}-{digest}", self._timers.now())
        return self._patched(deployment, {"status": {"conditions": conditions}}, "status")

    def _note_revision(self, deployment: Json, revision: int) -> Json:
        if annotations_of(deployment).get(REVISION) == str(revision):
            return deployment
        return self._patched(deployment, {"metadata": {"annotations": {REVISION: str(revision)}}})

    def _scale_to(self, deployment: Json, sets: list[Json], sizes: dict[Key, int]) -> None:
        notes = _sizes(deployment)
        for one in sets:
            size = sizes.get(key_of(one))
            if size is None:
                continue
            noted = all(annotations_of(one).get(name) == value for name, value in notes.items())
            if wanted_replicas(one) != size or not noted:
                body = {"metadata": {"annotations": notes}, "spec": {"replicas": size}}
                self._sets.put(self._objects.patch(REPLICA_SETS, *key_of(one), body))

    def _clean_up(self, deployment: Json, sets: _Sets) -> None:
        kept = _kept_sets(deployment)
        if len(sets.old) <= kept or not deployment_status.is_complete(deployment, deployment.get("status") or {}):
            return
        idle = [
            one
            for one in sorted(sets.old, key=_revision)
            if not wanted_replicas(one) and not deployment_status.count(one, "replicas")
        ]
        for one in idle[: len(sets.old) - kept]:
            with suppress(NotFound):
                self._objects.delete(REPLICA_SETS, *key_of(one), uid=one["metadata"]["uid"])
            self._sets.refresh(key_of(one))

    def _write_status(self, key: Key, deployment: Json, sets: _Sets) -> None:
        status, look_at = deployment_status.status(deployment, sets.new, sets.old, self._timers.now())
        if look_at:
            self._work.add_at(key, look_at)
        old = deployment.get("status") or {}
        if any(old.get(name, [] if name == "conditions" else 0) != value for name, value in status.items()):
            self._patched(deployment, {"status": status}, "status")

    def _patched(self, deployment: Json, body: Json, subresource: str = "") -> Json:
        written = self._objects.patch(DEPLOYMENTS, *key_of(deployment), body, subresource=subresource)
        self._deployments.put(written)
        return written


def _kept_sets(deployment: Json) -> int:
    limit = deployment["spec"].get("revisionHistoryLimit")
    return 10 if limit is None else int(limit)


def _recreates(deployment: Json) -> bool:
    return (deployment["spec"].get("strategy") or {}).get("type") == "Recreate"


def _copied(deployment: Json) -> dict[str, str]:
    return {name: value for name, value in annotations_of(deployment).items() if name not in _NOT_COPIED}


def _sizes(deployment: Json) -> dict[str, str]:
    size = wanted_replicas(deployment)
    return {DESIRED: str(size), MAXIMUM: str(size + fenceposts(deployment)[0])}


def _owned(deployment: Json) -> Json:
    return owned_by(deployment, "apps/v1", "Deployment")


def _without_hash(template: Json) -> Json:
    meta = template.get("metadata") or {}
    labels = {name: value for name, value in (meta.get("labels") or {}).items() if name != HASH}
    return {"meta": {**meta, "labels": labels}, "spec": template["spec"]}


def _revision(replica_set: Json) -> int:
    return digits(annotations_of(replica_set).get(REVISION, "")) or 0


def _age(replica_set: Json) -> tuple[str, str]:
    return replica_set["metadata"].get("creationTimestamp", ""), replica_set["metadata"]["name"]
