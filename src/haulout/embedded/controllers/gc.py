"""Garbage collection by owner references: in the background, in the foreground, or by letting dependents go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from haulout.embedded.controllers.kinds import OWNED_AND_OWNING, group_kind
from haulout.embedded.controllers.reading import is_terminating, key_of
from haulout.embedded.controllers.work import Work
from haulout.embedded.seams import Change, Json, Objects, Resource, Timers
from haulout.kube.errors import NotFound

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class _Item(NamedTuple):
    """An object that owns others, or is owned."""

    resource: Resource
    namespace: str
    name: str
    owners: tuple[str, ...]
    blocked: frozenset[str]


class GarbageCollector:
    """Owners of kinds that it does not know are taken for present: what belongs to them is never collected."""

    def __init__(
        self,
        objects: Objects,
        timers: Timers,
        kinds: Mapping[tuple[str, str], Resource] = OWNED_AND_OWNING,
    ) -> None:
        self._objects = objects
        self._kinds = kinds
        self._items: dict[str, _Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        # By UID: what may have to be collected, and what waits for its dependents.
        self._work: Work[str] = Work(timers, self._look)

    def start(self) -> None:
        for resource in self._kinds.values():
            self._objects.subscribe(resource, self._on_change)
        found = [(resource, obj) for resource in self._kinds.values() for obj in self._objects.list(resource)]
        for resource, obj in found:
            self._enter(resource, obj)
        for _, obj in found:
            self._consider(obj)

    def _on_change(self, change: Change) -> None:
        uid = change.object["metadata"]["uid"]
        if change.type == "DELETED":
            self._remove(uid)
        else:
            self._enter(change.resource, change.object)
            self._consider(change.object)

    def _enter(self, resource: Resource, obj: Json) -> None:
        metadata = obj["metadata"]
        references = metadata.get("ownerReferences") or ()
        owners = tuple(reference["uid"] for reference in references)
        old = self._items.get(metadata["uid"])
        if old and old.owners == owners and (not owners or old.blocked == _blocked(references)):
            return
        for owner in old.owners if old else ():
            if owner not in owners:
                self._leave(owner, metadata["uid"])
        namespace, name = key_of(obj)
        self._items[metadata["uid"]] = _Item(resource, namespace, name, owners, _blocked(references))
        for owner in owners:
            self._dependents.setdefault(owner, {})[metadata["uid"]] = None

    def _consider(self, obj: Json) -> None:
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if is_terminating(obj) and (FOREGROUND in finalizers or ORPHAN in finalizers):
            self._work.add(metadata["uid"])
        for reference in metadata.get("ownerReferences") or ():
            if reference["uid"] not in self._items or self._waits_for_dependents(reference["uid"]):
                self._work.add(metadata["uid"])

    def _remove(self, uid: str) -> None:
        item = self._items.pop(uid, None)
        self._work.forget(uid)
        for owner in item.owners if item else ():
            self._leave(owner, uid)
        for dependent in self._dependents.get(uid, {}):
            self._work.add(dependent)

    def _leave(self, owner: str, uid: str) -> None:
        dependents = self._dependents.get(owner)
        if dependents is None:
            return
        dependents.pop(uid, None)
        if not dependents:
            del self._dependents[owner]
        if self._waits_for_dependents(owner):
            self._work.add(owner)

    def _waits_for_dependents(self, uid: str) -> bool:
        item = self._items.get(uid)
        obj = self._objects.get(item.resource, item.namespace, item.name) if item else None
        return obj is not None and obj["metadata"]["uid"] == uid and _in_foreground(obj)

    def _look(self, uid: str) -> None:
        item = self._items.get(uid)
        obj = self._objects.get(item.resource, item.namespace, item.name) if item else None
        if item is None or obj is None or obj["metadata"]["uid"] != uid:
            return
        if is_terminating(obj) and ORPHAN in (obj["metadata"].get("finalizers") or ()):
            self._orphan(item, obj)
        elif _in_foreground(obj):
            self._collect_first(item, obj)
        elif not is_terminating(obj):
            self._collect(item, obj)

    def _orphan(self, item: _Item, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        for dependent in list(self._dependents.get(uid, {})):
            self._disown(dependent, {uid})
        self._drop_finalizer(item, obj, ORPHAN)

    def _collect_first(self, item: _Item, obj: Json) -> None:
        """The object itself goes when no dependent blocks it any more."""
        uid = obj["metadata"]["uid"]
        dependents = list(self._dependents.get(uid, {}))
        if not any(uid in self._items[one].blocked for one in dependents):
            self._drop_finalizer(item, obj, FOREGROUND)
        for one in dependents:
            self._work.add(one)

    def _collect(self, item: _Item, obj: Json) -> None:
        metadata = obj["metadata"]
        references = metadata.get("ownerReferences") or ()
        states = {reference["uid"]: self._state(reference, item.namespace) for reference in references}
        if not references:
            return
        if "solid" in states.values():
            lost = {uid for uid, state in states.items() if state != "solid"}
            if lost:
                self._disown(metadata["uid"], lost)
            return
        waiting = "waiting" in states.values() and metadata["uid"] in self._dependents
        propagation = "Foreground" if waiting else _propagation(obj)
        try:
            self._objects.delete(item.resource, item.namespace, item.name, uid=metadata["uid"], propagation=propagation)
        except NotFound:
            return

    def _state(self, reference: Json, namespace: str) -> str:
        resource = self._kinds.get(group_kind(reference))
        if resource is None:
            return "solid"
        known = self._items.get(reference["uid"])
        place = known.namespace if known else namespace
        owner = self._objects.get(resource, place, reference["name"])
        if owner is None and not known:
            # An owner without a namespace may own what has one.
            owner = self._objects.get(resource, "", reference["name"])
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return "absent"
        return "waiting" if _in_foreground(owner) else "solid"

    def _disown(self, uid: str, owners: set[str]) -> None:
        item = self._items[uid]
        obj = self._objects.get(item.resource, item.namespace, item.name)
        if obj is None or obj["metadata"]["uid"] != uid:
            return
        kept = [one for one in obj["metadata"].get("ownerReferences") or () if one["uid"] not in owners]
        body = {"metadata": {"uid": uid, "ownerReferences": kept or None}}
        self._enter(item.resource, self._objects.patch(item.resource, item.namespace, item.name, body))

    def _drop_finalizer(self, item: _Item, obj: Json, finalizer: str) -> None:
        kept = [one for one in obj["metadata"].get("finalizers") or () if one != finalizer]
        body = {"metadata": {"finalizers": kept or None}}
        self._objects.patch(item.resource, item.namespace, item.name, body)


def _blocked(references: list[Json] | tuple[Json, ...]) -> frozenset[str]:
    return frozenset(one["uid"] for one in references if one.get("blockOwnerDeletion"))


def _in_foreground(obj: Json) -> bool:
    return is_terminating(obj) and FOREGROUND in (obj["metadata"].get("finalizers") or ())


def _propagation(obj: Json) -> str:
    finalizers = obj["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
