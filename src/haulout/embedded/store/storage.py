"""The storage of the embedded cluster: objects by name, one revision counter, and a log of changes for watches.

It stands for etcd and the watch cache of a real server.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from haulout.embedded.interfaces import Json
from haulout.embedded.rules import refusals

Key = tuple[str, str]
ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

# Changes kept per kind for watches from an older revision. A client that is further behind has to list again.
LOG_LENGTH = 4096


class Entry(NamedTuple):
    """One change in the log, at its revision. A deletion has the last state of the object."""

    revision: int
    type: str
    object: Json
    old: Json | None


def key_of(obj: Json) -> Key:
    meta = obj["metadata"]
    return (meta.get("namespace", ""), meta["name"])


def with_version(obj: Json, revision: int) -> Json:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


class Table:
    """The objects of one kind. Returned objects are shared and must not be changed."""

    def __init__(self, name: str, index: tuple[str, str] | None = None) -> None:
        self.name = name
        self.log: deque[Entry] = deque()
        # Watches and lists from before this revision cannot be answered any more.
        self.compacted = 0
        self.listeners: list[Callable[[Entry], None]] = []
        self.objects: dict[Key, Json] = {}
        self._names: dict[str, list[str]] = {}
        self._namespaces: list[str] = []
        self._index = index
        self._indexed: dict[str, dict[Key, None]] = {}

    def __len__(self) -> int:
        return len(self.objects)

    def get(self, namespace: str, name: str) -> Json | None:
        return self.objects.get((namespace, name))

    def keys(self, namespace: str = "") -> Iterator[Key]:
        """Return the keys in the order of namespace and name."""
        if namespace:
            return ((namespace, name) for name in self._names.get(namespace, ()))
        return ((space, name) for space in self._namespaces for name in self._names[space])

    def items(self, namespace: str = "") -> list[Json]:
        objects = self.objects
        if namespace or self._namespaces == [""]:
            return [objects[namespace, name] for name in self._names.get(namespace, ())]
        return [objects[key] for key in self.keys()]

    def indexed(self, value: str) -> list[Json]:
        """Return the objects with this value of the indexed field, in the order of namespace and name."""
        return [self.objects[key] for key in sorted(self._indexed.get(value, ()))]

    @property
    def has_index(self) -> bool:
        return self._index is not None

    def put(self, key: Key, obj: Json) -> None:
        old = self.objects.get(key)
        self.objects[key] = obj
        if old is None:
            namespace, name = key
            names = self._names.get(namespace)
            if names is None:
                names = self._names[namespace] = []
                insort(self._namespaces, namespace)
            insort(names, name)
        if self._index is not None:
            self._move(key, old, obj)

    def drop(self, key: Key) -> None:
        old = self.objects.pop(key)
        namespace, name = key
        names = self._names[namespace]
        del names[bisect_left(names, name)]
        if not names:
            del self._names[namespace]
            self._namespaces.remove(namespace)
        if self._index is not None:
            self._move(key, old, None)

    def _move(self, key: Key, old: Json | None, new: Json | None) -> None:
        assert self._index is not None
        part, field = self._index
        # Most writes share the part that has the field with the previous state of the object.
        if old is not None and new is not None and old[part] is new[part]:
            return
        before = None if old is None else old[part].get(field, "")
        after = None if new is None else new[part].get(field, "")
        if before == after:
            return
        if before is not None:
            keys = self._indexed[before]
            del keys[key]
            if not keys:
                del self._indexed[before]
        if after is not None:
            self._indexed.setdefault(after, {})[key] = None

    def at(self, revision: int) -> dict[Key, Json]:
        """Return the objects as they were at a revision that is not compacted yet."""
        objects = dict(self.objects)
        for entry in reversed(self.log):
            if entry.revision <= revision:
                break
            if entry.type == ADDED:
                objects.pop(key_of(entry.object), None)
            elif entry.old is not None:
                objects[key_of(entry.object)] = entry.old
        return objects

    def since(self, revision: int) -> list[Entry]:
        """Return the changes after a revision. Raises `Gone` if the log does not reach back to it."""
        if revision < self.compacted:
            raise refusals.expired_revision(f"too old resource version: {revision} ({self.compacted})")
        late: list[Entry] = []
        for entry in reversed(self.log):
            if entry.revision <= revision:
                break
            late.append(entry)
        late.reverse()
        return late

    def forget(self, revision: int) -> None:
        """Drop the changes up to and including this revision from the log."""
        while self.log and self.log[0].revision <= revision:
            self.log.popleft()
        self.compacted = max(self.compacted, revision)


class Storage:
    """Everything that an embedded cluster stores: one table for each kind, and one revision counter for all of them."""

    def __init__(self, *, log_length: int = LOG_LENGTH) -> None:
        self.revision = 1
        self._log_length = log_length
        self._compacted = 0
        self._tables: dict[str, Table] = {}
        self._indexes: dict[str, tuple[str, str]] = {}

    def index(self, name: str, part: str, field: str) -> None:
        """Index the objects of a table by a text field, such as `nodeName` in the part `spec`.

        Must be called before the table is first used.
        """
        self._indexes[name] = (part, field)

    def table(self, name: str) -> Table:
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = Table(name, self._indexes.get(name))
            table.compacted = self._compacted
        return table

    @property
    def tables(self) -> Mapping[str, Table]:
        return self._tables

    def put(self, table: Table, obj: Json, old: Json | None) -> Json:
        """Store an object that belongs to the caller alone, at a new revision."""
        self.revision = revision = self.revision + 1
        meta: dict[str, Any] = dict(obj["metadata"])
        meta["resourceVersion"] = str(revision)
        obj["metadata"] = meta
        table.put((meta.get("namespace", ""), meta["name"]), obj)
        self._record(table, Entry(revision, ADDED if old is None else MODIFIED, obj, old))
        return obj

    def remove(self, table: Table, old: Json) -> Json:
        """Remove an object. Return its last state, at the revision of the deletion."""
        self.revision = revision = self.revision + 1
        last = with_version(old, revision)
        table.drop(key_of(old))
        self._record(table, Entry(revision, DELETED, last, old))
        return last

    def compact(self, revision: int | None = None) -> None:
        """Drop the log up to a revision, by default the current one. Lists and watches from before it are refused."""
        upto = self.revision if revision is None else min(revision, self.revision)
        self._compacted = max(self._compacted, upto)
        for table in self._tables.values():
            table.forget(upto)

    def _record(self, table: Table, entry: Entry) -> None:
        if self._log_length:
            table.log.append(entry)
            if len(table.log) > self._log_length:
                table.compacted = table.log.popleft().revision
        else:
            table.compacted = entry.revision
        for listener in table.listeners:
            listener(entry)
