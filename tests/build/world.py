"""An API server in a few lines, at the level of rows: it carries out requests, and delivers changes when asked to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.rows import LeaseRow, NodeRow, ObjectRow, PodRow, Row, Taint
from haulout.cluster.store import Store
from haulout.core.action import Create, Delete, Evict, Send
from haulout.core.budgets.wire import NodeBudgetRow
from haulout.kernel.requests import Answer, Body, Change, Done, Listed, ListPods, Look, Refused, Telling
from haulout.model.lease import LeaseSpec


class World:
    """The objects of a cluster. `log` holds every change in order: (version, key, row or None)."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[Key, ObjectRow] = {}
        self.log: list[tuple[int, Key, ObjectRow | None]] = []
        self.writes: list[Body] = []
        self._births = 0

    def put(self, row: ObjectRow) -> ObjectRow:
        """Create or replace an object, as another client would."""
        self.version += 1
        uid = self.objects[row.key].uid if row.key in self.objects else self._uid()
        stored = msgspec.structs.replace(row, version=self.version, uid=uid)
        self.objects[row.key] = stored
        self.log.append((self.version, row.key, stored))
        return stored

    def label(self, key: Key, **labels: str | None) -> None:
        row = self.objects[key]
        merged = {**row.labels, **labels}
        self.put(msgspec.structs.replace(row, labels={k: v for k, v in merged.items() if v is not None}))

    def heartbeat(self, key: Key) -> None:
        self.put(self.objects[key])

    def delete(self, key: Key) -> None:
        if self.objects.pop(key, None) is not None:
            self.version += 1
            self.log.append((self.version, key, None))

    def carry_out(self, body: Body) -> Answer:
        if not isinstance(body, Look | ListPods | Telling | Send):
            self.writes.append(body)
        match body:
            case Look():
                found = self.objects.get(body.target)
                return Done(row=copy(found)) if found else Refused(404, "not found")
            case ListPods():
                pods = [
                    row for row in self.objects.values() if isinstance(row, PodRow) and row.node == body.target.name
                ]
                return Listed(tuple(map(copy, pods)), self.version)
            case Change():
                return self._change(body)
            case Create():
                return self._create(body)
            case Delete() | Evict():
                found = self.objects.get(body.target)
                if found is None:
                    return Refused(404, "not found")
                if found.uid != body.uid:
                    return Refused(409, "the UID in the precondition does not match")
                self.delete(body.target)
                return Done()
            case _:
                return Done()

    def _change(self, body: Change) -> Answer:
        found = self.objects.get(body.target)
        if found is None:
            return Refused(404, "not found")
        if body.version is not None and body.version != found.version:
            return Refused(409, "the object has been modified")
        changed = merged(found, body.body)
        stored = found if changed == found else self.put(changed)
        return Done(metadata=copy(stored)) if body.slim else Done(row=copy(stored))

    def _create(self, body: Create) -> Answer:
        if body.target in self.objects:
            return Refused(409, "already exists")
        if body.target.kind.startswith("Lease"):
            return Done(row=copy(self.put(merged(LeaseRow(key=body.target), body.body))))
        metadata = body.body.get("metadata", {})
        made = NodeRow(key=body.target, labels=metadata.get("labels", {}), annotations=metadata.get("annotations", {}))
        return Done(row=copy(self.put(made)))

    def _uid(self) -> str:
        self._births += 1
        return f"uid-{self._births}"


def copy(row: ObjectRow) -> ObjectRow:
    """Return a copy of a row. A store changes the versions of its rows in place, so every reader needs its own."""
    return msgspec.structs.replace(row)


def merged(row: ObjectRow, body: Mapping[str, Any]) -> ObjectRow:
    changes: dict[str, Any] = {}
    metadata = body.get("metadata", {})
    for part in ("labels", "annotations"):
        if part in metadata:
            values = {**getattr(row, part), **metadata[part]}
            changes[part] = {name: value for name, value in values.items() if value is not None}
    if "finalizers" in metadata:
        changes["finalizers"] = tuple(metadata["finalizers"] or ())
    spec = body.get("spec", {})
    if isinstance(row, LeaseRow):
        lease = msgspec.convert(spec, LeaseSpec)
        changes |= {"holder": lease.holder_identity, "duration_for": lease.lease_duration_seconds}
        changes |= {"acquired_at": lease.acquire_time, "renewed_at": lease.renew_time}
        changes |= {"transitions": lease.lease_transitions}
    if isinstance(row, NodeBudgetRow) and "status" in body:
        status = {**(row.status or {}), **body["status"]}
        changes["status"] = {name: value for name, value in status.items() if value is not None}
    if "unschedulable" in spec:
        changes["unschedulable"] = bool(spec["unschedulable"])
    if "taints" in spec:
        changes["taints"] = tuple(msgspec.convert(taint, Taint) for taint in spec["taints"] or ())
    return msgspec.structs.replace(row, **changes)


class Feed:
    """Brings a world's changes into a store: as a list, then as a watch, as many at a time as the test wants."""

    def __init__(self, world: World, store: Store, kinds: tuple[str, ...] = ("Node",)) -> None:
        self.world, self.store, self.kinds = world, store, kinds
        self.position = 0

    def list(self) -> None:
        for kind in self.kinds:
            self.store.begin_list("", kind)
        for row in self.world.objects.values():
            self.store.put(copy(row))
        for kind in self.kinds:
            self.store.end_list("", kind, self.world.version)
        self.position = len(self.world.log)

    @property
    def behind(self) -> int:
        return len(self.world.log) - self.position

    def watch(self, events: int | None = None) -> None:
        """Deliver the next so many changes, or all of them."""
        end = len(self.world.log) if events is None else min(len(self.world.log), self.position + events)
        for version, key, row in self.world.log[self.position : end]:
            if row is None:
                self.store.remove(key, version)
            else:
                self.store.put(copy(row))
        self.position = end


def row_of(store: Store, key: Key) -> Row:
    row = store.row(key)
    assert row is not None, f"{key} is not there"
    return row
