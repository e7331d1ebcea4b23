"""The newest known objects of one kind, shared by the controllers, with the indexes that they use."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from haulout.embedded.controllers.object_fields import Key, controller_of, key_of, node_of
from haulout.embedded.controllers.owner_kinds import group_kind
from haulout.embedded.interfaces import Change, Json, Objects, Resource
from haulout.embedded.resources import PODS

# Called with the key of an object and the object before and after; None: it was not there, or is not there any more.
Listener = Callable[[Key, Json | None, Json | None], None]
# Called with the UID of the object's controller as well, before the others.
OwnedListener = Callable[[str, Key, Json | None, Json | None], None]


class Table:
    """The objects of one kind as the simulated controllers see them.

    A controller enters its own writes at once, by `put` and `refresh`; the change that follows later is then ignored.
    """

    def __init__(self, objects: Objects, resource: Resource) -> None:
        self.resource = resource
        self.rows: dict[Key, Json] = {}
        self._objects = objects
        self._listeners: list[Listener] = []
        self._removed: set[str] = set()

    def listen(self, listener: Listener) -> None:
        """Add a listener. Listeners are called in the order of registration and must not write."""
        self._listeners.append(listener)

    def start(self) -> None:
        self._objects.subscribe(self.resource, self._on_change)
        for obj in self._objects.list(self.resource):
            self.put(obj)

    def get(self, key: Key) -> Json | None:
        return self.rows.get(key)

    def put(self, obj: Json) -> None:
        key, meta = key_of(obj), obj["metadata"]
        if meta["uid"] in self._removed:
            return
        old = self.rows.get(key)
        if old is not None:
            was = old["metadata"]
            if int(was["resourceVersion"]) >= int(meta["resourceVersion"]):
                return
            if was["uid"] != meta["uid"]:
                self._take_out(key, old)
                old = None
        self.rows[key] = obj
        for listener in self._listeners:
            listener(key, old, obj)

    def refresh(self, key: Key) -> None:
        """Read an object again after the caller has deleted it: a finalizer or grace period may have kept it."""
        found = self._objects.get(self.resource, *key)
        if found is not None:
            self.put(found)
        elif (old := self.rows.get(key)) is not None:
            self._removed.add(old["metadata"]["uid"])
            self._take_out(key, old)

    def _on_change(self, change: Change) -> None:
        key = key_of(change.object)
        if change.type != "DELETED":
            # Most changes are our own writes, which are in the table already.
            if self.rows.get(key) is not change.object:
                self.put(change.object)
            return
        uid = change.object["metadata"]["uid"]
        self._removed.discard(uid)
        old = self.rows.get(key)
        if old is not None and old["metadata"]["uid"] == uid:
            self._take_out(key, old)

    def _take_out(self, key: Key, old: Json) -> None:
        del self.rows[key]
        for listener in self._listeners:
            listener(key, old, None)


class Owned(Table):
    """A table with an index by the UID of each object's controller. `orphans` are the objects without one."""

    def __init__(self, objects: Objects, resource: Resource) -> None:
        super().__init__(objects, resource)
        self.by_owner: dict[str, dict[Key, Json]] = {}
        self.orphans: dict[Key, Json] = {}
        self._by_kind: dict[tuple[str, str], OwnedListener] = {}
        self._of_orphans: list[Listener] = []
        # The indexes are the first listener, so that all others find them up to date.
        self.listen(self._index)

    def listen_owned(self, owner: tuple[str, str], listener: OwnedListener) -> None:
        """Add a listener for objects whose controller is, or was before the change, of this group and kind."""
        self._by_kind[owner] = listener

    def listen_orphans(self, listener: Listener) -> None:
        self._of_orphans.append(listener)

    def owned(self, uid: str) -> Iterable[Json]:
        return self.by_owner.get(uid, {}).values()

    def _index(self, key: Key, old: Json | None, new: Json | None) -> None:
        before = controller_of(old) if old else None
        after = controller_of(new) if new else None
        if new and before and after and before["uid"] == after["uid"]:
            # Most changes leave the controller as it is.
            self.by_owner[after["uid"]][key] = new
            self._tell(after, key, old, new)
            return
        if before:
            _drop(self.by_owner, before["uid"], key)
            self._tell(before, key, old, None)
        if new and not after:
            self.orphans[key] = new
            for listener in self._of_orphans:
                listener(key, None, new)
            return
        self.orphans.pop(key, None)
        if new and after:
            self.by_owner.setdefault(after["uid"], {})[key] = new
            self._tell(after, key, None, new)

    def _tell(self, controller: Json, key: Key, old: Json | None, new: Json | None) -> None:
        if listener := self._by_kind.get(group_kind(controller)):
            listener(controller["uid"], key, old, new)


class Pods(Owned):
    """The table of pods, with indexes by owner, by node and by namespace."""

    def __init__(self, objects: Objects) -> None:
        super().__init__(objects, PODS)
        self.by_node: dict[str, dict[Key, Json]] = {}
        self.by_namespace: dict[str, dict[Key, Json]] = {}

    def on_node(self, name: str) -> list[Json]:
        return list(self.by_node.get(name, {}).values())

    def _index(self, key: Key, old: Json | None, new: Json | None) -> None:
        after = node_of(new) if new else ""
        before = after if old and new and old["spec"] is new["spec"] else node_of(old) if old else ""
        if before and before != after:
            _drop(self.by_node, before, key)
        if new:
            self.by_namespace.setdefault(key[0], {})[key] = new
            if after:
                self.by_node.setdefault(after, {})[key] = new
        else:
            _drop(self.by_namespace, key[0], key)
        super()._index(key, old, new)


def _drop(index: dict[str, dict[Key, Json]], bucket: str, key: Key) -> None:
    members = index.get(bucket)
    if members is not None:
        members.pop(key, None)
        if not members:
            del index[bucket]
