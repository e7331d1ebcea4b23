"""The simulated garbage collector: background and foreground deletion by owner references, and orphaning."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from haulout.embedded.controllers.object_fields import is_terminating, key_of
from haulout.embedded.controllers.owner_kinds import OWNED_AND_OWNING, group_kind
from haulout.embedded.controllers.work_queue import WorkQueue
from haulout.embedded.interfaces import Change, Json, Objects, Resource, Timers
from haulout.embedded.resources import CUSTOM_RESOURCE_DEFINITIONS
from haulout.kube.errors import NotFound

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


GroupKind = tuple[str, str]


class _Item(NamedTuple):
    """An object that owns others or is owned, with its group and kind."""

    kind: GroupKind
    namespace: str
    name: str
    owners: tuple[str, ...]
    blocked: frozenset[str]


class GarbageCollector:
    """The simulated garbage collector: it deletes objects whose owners are gone.

    It follows all built-in kinds but events, and custom kinds while they are served. An owner of any other kind counts
    as present, so the objects of such an owner are never collected.
    """

    def __init__(self, objects: Objects, timers: Timers) -> None:
        self._objects = objects
        self._kinds: dict[GroupKind, Resource] = dict(OWNED_AND_OWNING)
        self._followed: set[GroupKind] = set()
        self._items: dict[str, _Item] = {}
        self._dependents: dict[str, dict[str, None]] = {}
        # The UIDs of the objects whose deletion waits for their dependents.
        self._waiting: set[str] = set()
        # By UID: the objects that may have to be collected, and those that wait for their dependents.
        self._work: WorkQueue[str] = WorkQueue(timers, self._sync)

    def start(self) -> None:
        definitions = self._objects.list(CUSTOM_RESOURCE_DEFINITIONS)
        for definition in definitions:
            self._know(definition)
        self._objects.subscribe(CUSTOM_RESOURCE_DEFINITIONS, self._on_definition)
        self._follow(list(self._kinds))

    def _follow(self, kinds: list[GroupKind]) -> None:
        """Enter all objects of these kinds, then consider each: its owner may be of any of the kinds."""
        found = []
        for kind in kinds:
            if kind not in self._followed:
                self._followed.add(kind)
                self._objects.subscribe(self._kinds[kind], partial(self._on_change, kind))
            found += [(kind, obj) for obj in self._objects.list(self._kinds[kind])]
        for kind, obj in found:
            self._enter(kind, obj)
        for _, obj in found:
            self._consider(obj)

    def _know(self, definition: Json) -> GroupKind | None:
        """Remember the kind that a CustomResourceDefinition defines, and return it; None if it is not served."""
        spec, conditions = definition["spec"], definition["status"].get("conditions") or ()
        served = next((version["name"] for version in spec["versions"] if version["served"]), None)
        is_established = any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
        kind = (spec["group"], spec["names"]["kind"])
        if served is None or not is_established:
            return None
        self._kinds[kind] = Resource(spec["group"], served, spec["names"]["plural"])
        return kind

    def _on_definition(self, change: Change) -> None:
        if change.type == "DELETED":
            # By the definition's own name: another definition may have served its kind.
            name = change.object["metadata"]["name"]
            self._kinds = {kind: one for kind, one in self._kinds.items() if f"{one.plural}.{one.group}" != name}
        elif (kind := self._know(change.object)) and kind not in self._followed:
            self._follow([kind])

    def _on_change(self, kind: GroupKind, change: Change) -> None:
        uid = change.object["metadata"]["uid"]
        if change.type == "DELETED":
            self._remove(uid)
        elif change.old is None or not _owned_alike(change.old, change.object):
            self._enter(kind, change.object)
            self._consider(change.object)

    def _find(self, uid: str) -> Json | None:
        """Return the stored object of an item, or None."""
        item = self._items.get(uid)
        resource = self._kinds.get(item.kind) if item else None
        if item is None or resource is None:
            return None
        obj = self._objects.get(resource, item.namespace, item.name)
        return obj if obj is not None and obj["metadata"]["uid"] == uid else None

    def _enter(self, kind: GroupKind, obj: Json) -> None:
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
        self._items[metadata["uid"]] = _Item(kind, namespace, name, owners, _blocked(references))
        for owner in owners:
            self._dependents.setdefault(owner, {})[metadata["uid"]] = None

    def _consider(self, obj: Json) -> None:
        metadata = obj["metadata"]
        finalizers = metadata.get("finalizers") or ()
        if _in_foreground(obj):
            self._waiting.add(metadata["uid"])
        else:
            self._waiting.discard(metadata["uid"])
        if is_terminating(obj) and (FOREGROUND in finalizers or ORPHAN in finalizers):
            self._work.add(metadata["uid"])
        for reference in metadata.get("ownerReferences") or ():
            if reference["uid"] not in self._items or reference["uid"] in self._waiting:
                self._work.add(metadata["uid"])

    def _remove(self, uid: str) -> None:
        item = self._items.pop(uid, None)
        self._waiting.discard(uid)
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
        if owner in self._waiting:
            self._work.add(owner)

    def _sync(self, uid: str) -> None:
        obj = self._find(uid)
        if obj is None:
            return
        item = self._items[uid]
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
        """Release an object in foreground deletion if no dependent blocks it, and consider its dependents again."""
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
            resource = self._kinds[item.kind]
            self._objects.delete(resource, item.namespace, item.name, uid=metadata["uid"], propagation=propagation)
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
            # A cluster-scoped owner may own namespaced objects.
            owner = self._objects.get(resource, "", reference["name"])
        if owner is None or owner["metadata"]["uid"] != reference["uid"]:
            return "absent"
        return "waiting" if _in_foreground(owner) else "solid"

    def _disown(self, uid: str, owners: set[str]) -> None:
        obj, item = self._find(uid), self._items[uid]
        if obj is None:
            return
        kept = [one for one in obj["metadata"].get("ownerReferences") or () if one["uid"] not in owners]
        body = {"metadata": {"uid": uid, "ownerReferences": kept or None}}
        changed = self._objects.patch(self._kinds[item.kind], item.namespace, item.name, body)
        self._enter(item.kind, changed)

    def _drop_finalizer(self, item: _Item, obj: Json, finalizer: str) -> None:
        kept = [one for one in obj["metadata"].get("finalizers") or () if one != finalizer]
        body = {"metadata": {"finalizers": kept or None}}
        self._objects.patch(self._kinds[item.kind], item.namespace, item.name, body)


def _owned_alike(old: Json, new: Json) -> bool:
    """Whether two states of an object are equal in all that garbage collection reads."""
    was, meta = old["metadata"], new["metadata"]
    if was.get("ownerReferences") != meta.get("ownerReferences") or was.get("finalizers") != meta.get("finalizers"):
        return False
    return ("deletionTimestamp" in was) == ("deletionTimestamp" in meta)


def _blocked(references: list[Json] | tuple[Json, ...]) -> frozenset[str]:
    return frozenset(one["uid"] for one in references if one.get("blockOwnerDeletion"))


def _in_foreground(obj: Json) -> bool:
    return is_terminating(obj) and FOREGROUND in (obj["metadata"].get("finalizers") or ())


def _propagation(obj: Json) -> str:
    finalizers = obj["metadata"].get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
