"""The pods of the workloads of one kind: found by controller reference, and orphans adopted by selector."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress

from haulout.base.selector import Selector, SelectorError, from_object
from haulout.embedded.controllers.generated_names import Names
from haulout.embedded.controllers.object_fields import (
    Key,
    controller_of,
    is_active,
    is_ready,
    is_terminating,
    key_of,
    labels_of,
    owned_by,
)
from haulout.embedded.controllers.owner_kinds import group_kind
from haulout.embedded.controllers.selector_index import Selectors
from haulout.embedded.controllers.tables import Pods, Table
from haulout.embedded.interfaces import Json, Objects
from haulout.embedded.resources import PODS
from haulout.kube.errors import Conflict, NotFound


class Tally:
    """The counts of one owner's pods: active ones, ready ones among these, and terminating ones."""

    __slots__ = ("active", "leaving", "ready")

    def __init__(self) -> None:
        self.active = self.ready = self.leaving = 0

    def count(self, before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
        """Replace the share that one pod had by the one that it has now."""
        self.active += after[0] - before[0]
        self.ready += after[1] - before[1]
        self.leaving += after[2] - before[2]


def _share(pod: Json) -> tuple[int, int, int]:
    """Return what one pod adds to the three numbers of a tally."""
    if is_active(pod):
        return _READY if is_ready(pod) else _STARTING
    return _LEAVING if is_terminating(pod) else NO_SHARE


NO_SHARE, _STARTING, _READY, _LEAVING = (0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 0, 1)


class Claims:
    """The pods that workloads of one kind own, adopt or release.

    `wake` is called with the key of a workload when it or one of its pods has changed; `note` gets the pod as well.
    `by_tally`: the workload reads only the tally of its pods. Changes that leave the tally as it is do not wake it.
    `by_active`: it reads only how many of them are active, and counts those that it creates itself.
    """

    def __init__(
        self,
        objects: Objects,
        names: Names,
        pods: Pods,
        owners: Table,
        api_version: str,
        kind: str,
        wake: Callable[[Key], None],
        note: Callable[[Key, Json | None, Json | None], None] | None = None,
        *,
        by_tally: bool = False,
        by_active: bool = False,
    ) -> None:
        self._objects = objects
        self._names = names
        self._pods = pods
        self._owners = owners
        self._api_version = api_version
        self._kind = kind
        self._wake = wake
        self._note = note
        self._by_tally = by_tally
        self._by_active = by_active
        self._is_creating = False
        self._keys: dict[str, Key] = {}
        # By the owner's UID: the spec of its template, and the first pod that was made of it.
        self._first_made: dict[str, tuple[Json, Json]] = {}
        self._selectors = Selectors()
        self._tallies: dict[str, Tally] = {}
        # Pods that the next sync of their workload may adopt or release.
        self._doubtful: dict[Key, dict[Key, None]] = {}
        owners.listen(self._on_owner)
        pods.listen_owned(group_kind({"apiVersion": api_version, "kind": kind}), self._on_pod)
        pods.listen_orphans(self._on_orphan)

    def selector(self, key: Key) -> Selector | None:
        return self._selectors.get(key)

    def pods(self, owner: Json) -> list[Json]:
        return list(self._pods.owned(owner["metadata"]["uid"]))

    def tally(self, owner: Json) -> Tally:
        return self._tallies.get(owner["metadata"]["uid"]) or Tally()

    def settle(self, owner: Json) -> None:
        """Adopt the orphans that the selector matches, and release the pods that it no longer matches."""
        key = key_of(owner)
        doubtful, selector = self._doubtful.pop(key, None), self._selectors.get(key)
        if not doubtful or selector is None:
            return
        for pod_key in doubtful:
            pod = self._pods.get(pod_key)
            if pod is None:
                continue
            controller, claimed = controller_of(pod), selector.matches(labels_of(pod))
            if controller is None and claimed and not is_terminating(owner) and is_active(pod):
                self._own(pod, [*_references(pod), owned_by(owner, self._api_version, self._kind)])
            elif controller and controller["uid"] == owner["metadata"]["uid"] and not claimed:
                self._own(pod, [one for one in _references(pod) if one["uid"] != controller["uid"]])

    def create(self, owner: Json, template: Json, name: str = "", *, base: str = "", **metadata: object) -> Json:
        """Create a pod of the template, named `name` or by a generated name that begins with `base`."""
        meta = template.get("metadata") or {}
        body: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "namespace": owner["metadata"]["namespace"],
                "labels": dict(meta.get("labels") or {}),
                "annotations": dict(meta.get("annotations") or {}),
                "ownerReferences": [owned_by(owner, self._api_version, self._kind)],
                **metadata,
            },
            "spec": template["spec"],
        }
        if not body["metadata"]["annotations"]:
            del body["metadata"]["annotations"]
        uid = owner["metadata"]["uid"]
        spec, first = self._first_made.get(uid, ({}, {}))
        like = first if spec is template["spec"] else None
        if name:
            body["metadata"]["name"] = name
            created = self._objects.create(PODS, body, like=like)
        else:
            body["metadata"]["generateName"] = base
            created = self._create_named(body, base, like)
        if like is None:
            self._first_made[uid] = template["spec"], created
        self._is_creating = True
        self._pods.put(created)
        self._is_creating = False
        return created

    def delete(self, pods: Iterable[Json]) -> None:
        for pod in pods:
            key = key_of(pod)
            with suppress(NotFound):
                self._objects.delete(PODS, *key, uid=pod["metadata"]["uid"])
            self._pods.refresh(key)

    def _create_named(self, body: Json, base: str, like: Json | None) -> Json:
        namespace = body["metadata"]["namespace"]
        while True:
            body["metadata"]["name"] = self._names.generated(namespace, base)
            try:
                return self._objects.create(PODS, body, like=like)
            except Conflict as error:
                if not error.exists:
                    raise

    def _own(self, pod: Json, references: list[Json]) -> None:
        body = {"metadata": {"uid": pod["metadata"]["uid"], "ownerReferences": references or None}}
        self._pods.put(self._objects.patch(PODS, *key_of(pod), body))

    def _on_owner(self, key: Key, old: Json | None, new: Json | None) -> None:
        if new is None:
            self._selectors.remove(key)
            self._doubtful.pop(key, None)
            if old:
                self._keys.pop(old["metadata"]["uid"], None)
                self._first_made.pop(old["metadata"]["uid"], None)
        else:
            self._keys[new["metadata"]["uid"]] = key
            if old is None or old["spec"].get("selector") != new["spec"].get("selector"):
                self._claim_orphans(key, new)
        self._wake(key)

    def _claim_orphans(self, key: Key, owner: Json) -> None:
        try:
            selector = from_object(owner["spec"].get("selector") or {})
        except SelectorError:
            return
        if not selector.requirements:
            return
        self._selectors.set(key, selector)
        for pod_key, pod in self._pods.orphans.items():
            if pod_key[0] == key[0] and selector.matches(labels_of(pod)):
                self._doubt(key, pod_key)

    def _on_pod(self, uid: str, pod_key: Key, old: Json | None, new: Json | None) -> None:
        before = _share(old) if old else None
        after = _share(new) if new else None
        if before != after:
            self._count(uid, before or NO_SHARE, after or NO_SHARE)
        key = self._keys.get(uid)
        if key is None:
            return
        relabelled = new is not None and (old is None or labels_of(old) != labels_of(new))
        if new and relabelled:
            selector = self._selectors.get(key)
            if selector and not selector.matches(labels_of(new)):
                self._doubt(key, pod_key)
                self._wake(key)
        if self._note:
            self._note(key, old, new)
        if self._by_active:
            if (before or NO_SHARE)[0] != (after or NO_SHARE)[0] and not self._is_creating:
                self._wake(key)
        elif before != after or relabelled or not self._by_tally:
            self._wake(key)

    def _count(self, uid: str, before: tuple[int, int, int], after: tuple[int, int, int]) -> None:
        """Update the tally of an owner for one pod that has changed. An owner without pods has no tally."""
        if uid not in self._pods.by_owner:
            self._tallies.pop(uid, None)
            return
        tally = self._tallies.get(uid)
        if tally is None:
            tally = self._tallies[uid] = Tally()
        tally.count(before, after)

    def _on_orphan(self, pod_key: Key, old: Json | None, new: Json | None) -> None:
        if new is None:
            return
        for key in self._selectors.matching(pod_key[0], labels_of(new)):
            self._doubt(key, pod_key)
            self._wake(key)

    def _doubt(self, key: Key, pod_key: Key) -> None:
        self._doubtful.setdefault(key, {})[pod_key] = None


def _references(pod: Json) -> list[Json]:
    return pod["metadata"].get("ownerReferences") or []
