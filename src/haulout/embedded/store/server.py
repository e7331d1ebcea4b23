"""The API server of the embedded cluster without HTTP, for the simulated controllers and for the face."""

from __future__ import annotations

import builtins
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any

from haulout.base.patch import merge
from haulout.embedded.interfaces import Change, Json, Resource, Timers
from haulout.embedded.resources import BINDINGS, DISRUPTION_BUDGETS, NAMESPACES, PODS
from haulout.embedded.rules import fields, misfits, refusals
from haulout.embedded.store.builtin_kinds import BUILT_IN
from haulout.embedded.store.crds import DEFINITION, Definitions
from haulout.embedded.store.eviction import Evictions
from haulout.embedded.store.kinds import Catalog, Decode, Kind
from haulout.embedded.store.managed_fields import UNKNOWN, with_cordon_manager
from haulout.embedded.store.namespaces import NamespaceController
from haulout.embedded.store.patches import strategic_merge
from haulout.embedded.store.registry import Deletion, Registry, check_update, parse
from haulout.embedded.store.selectors import find, make_filter
from haulout.embedded.store.storage import LOG_LENGTH, Entry, Storage
from haulout.embedded.store.subresources import Scales, bind

FIRST_NAMESPACES = ("default", "kube-node-lease", "kube-public", "kube-system")

# The real server forgets events after this time.
EVENTS_FOR = timedelta(hours=1)


class Server:
    """The embedded API server without HTTP: it stores objects by the real server's rules.

    Implements `Objects`. Deterministic: the same calls at the same times give the same objects.
    `brief`: where the real server writes an object twice for one request, this one writes it once, and an eviction
    leaves the budget's status to the disruption controller, which writes it at the same instant. Only a watch would
    show the difference, and a brief server keeps no changes for watches.
    """

    def __init__(
        self,
        timers: Timers,
        *,
        seed: int = 0,
        taint_new_nodes: bool = True,
        log_length: int = LOG_LENGTH,
        brief: bool = False,
    ) -> None:
        self.timers = timers
        self.storage = Storage(log_length=0 if brief else log_length)
        self.storage.index("pods", "spec", "nodeName")
        self.registry = Registry(self.storage, timers.now, seed=seed, taint_new_nodes=taint_new_nodes, brief=brief)
        self.catalog = Catalog(BUILT_IN)
        self.evictions = Evictions(self.registry, self.kind(PODS), self.kind(DISRUPTION_BUDGETS))
        self.scales = Scales(self.registry)
        self.definitions = Definitions(self.registry, self.catalog, self.scales.paths)
        self._subscribers: dict[Resource, tuple[Callable[[Change], None], ...]] = {}
        # The changes, each with the subscribers that have not received it yet.
        self._pending: deque[tuple[Iterator[Callable[[Change], None]], Change]] = deque()
        self._dispatching = False
        for name in FIRST_NAMESPACES:
            self.create(NAMESPACES, {"metadata": {"name": name}})
        NamespaceController(self).start()
        self._events_at: deque[tuple[Any, str, str]] = deque()
        self.storage.table("events").listeners.append(self._event_stored)

    def kind(self, resource: Resource) -> Kind:
        found = self.catalog.get(resource)
        if found is None:
            raise refusals.no_such_resource()
        return found

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        kind = self.kind(resource)
        found = self.registry.table(kind).objects.get((namespace if kind.namespaced else "", name))
        return found if found is None or kind.to_wire is None else kind.to_wire(found)

    def list(self, resource: Resource, namespace: str = "", *, labels: str = "", fields: str = "") -> list[Json]:
        kind = self.kind(resource)
        found = find(self.registry.table(kind), namespace, make_filter(kind, labels, fields))
        return found if kind.to_wire is None else [kind.to_wire(obj) for obj in found]

    def create(self, resource: Resource, obj: Json, *, like: Json | None = None, manager: str = UNKNOWN) -> Json:
        if resource == BINDINGS:
            return self.bind(obj["metadata"].get("namespace", ""), obj["metadata"]["name"], obj)
        kind = self.kind(resource)
        namespace = obj.get("metadata", {}).get("namespace", "") if kind.namespaced else ""
        draft = self.begin(kind, namespace, obj, [], like=like)
        return self.show(kind, self.store(kind, self.registry.finish(kind, draft, like=like), manager=manager))

    def update(self, resource: Resource, obj: Json, *, subresource: str = "", manager: str = UNKNOWN) -> Json:
        kind, meta = self.kind(resource), obj["metadata"]
        old = self.existing(kind, meta.get("namespace", ""), meta["name"])
        if subresource == "scale":
            return self.scales.replace(kind, old, obj)
        check_update(kind, old, obj, whole=True)
        if subresource == "status" and kind.decode_status is not None and _differs_in_status_alone(obj, old):
            return self.put(kind, old, self._with_status(kind, kind.decode_status, old, obj["status"]))
        draft = self.merged(kind, old, obj, [])
        return self.show(kind, self.change(kind, old, draft, subresource=subresource, manager=manager))

    def patch(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        body: Mapping[str, Any],
        *,
        subresource: str = "",
        strategic: bool = False,
        manager: str = UNKNOWN,
    ) -> Json:
        kind = self.kind(resource)
        old = self.existing(kind, namespace, name)
        if subresource == "scale":
            return self.scales.replace(kind, old, merge(self.scales.get(kind, old), body))
        if subresource == "status" and kind.decode_status is not None and not strategic and _is_status_alone(body):
            status = merge(old.get("status"), body["status"])
            return self.put(kind, old, self._with_status(kind, kind.decode_status, old, status))
        before = self.show(kind, old)
        sent = strategic_merge(kind.type, before, dict(body)) if strategic else merge(before, body)
        check_update(kind, old, sent, whole=False)
        draft = self.merged(kind, old, sent, [])
        return self.show(kind, self.change(kind, old, draft, subresource=subresource, manager=manager))

    def _with_status(self, kind: Kind, decode: Decode, old: Json, status: Any) -> Json:
        """Return what the full path of a write would give for an object in which only the status differs.

        Most writes of the simulated controllers and kubelets are of this sort.
        """
        try:
            decoded = decode(status, old.get("status"), [])
        except fields.Misfit:
            raise unreadable(kind, misfit(kind, {**old, "status": status})) from None
        return self.registry.revise_status(kind, old, decoded)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        uid: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> None:
        kind = self.kind(resource)
        self.remove(kind, self.existing(kind, namespace, name), Deletion(grace, uid, propagation=propagation))

    def evict(self, namespace: str, name: str, *, uid: str | None = None, grace: int | None = None) -> None:
        self.evictions.evict(namespace, name, Deletion(grace, uid))

    def bind(self, namespace: str, name: str, binding: Json, *, dry_run: bool = False) -> Json:
        kind = self.kind(PODS)
        bind(self.registry, kind, self.existing(kind, namespace, name), binding, dry_run=dry_run)
        return {**refusals.success(), "code": 201}

    def subscribe(self, resource: Resource, on_change: Callable[[Change], None]) -> None:
        subscribers = self._subscribers.get(resource)
        if subscribers is not None:
            self._subscribers[resource] = (*subscribers, on_change)
            return
        self._subscribers[resource] = (on_change,)
        kind = self.catalog.get(resource)
        plain = f"{resource.plural}.{resource.group}" if resource.group else resource.plural
        table = self.storage.table(kind.table_name if kind else plain)
        table.listeners.append(partial(self._stored, resource))

    def _stored(self, resource: Resource, entry: Entry) -> None:
        kind, obj, old = self.catalog.get(resource), entry.object, entry.old
        if kind is not None and kind.to_wire is not None:
            obj, old = kind.to_wire(obj), old and kind.to_wire(old)
        change = Change(entry.type, resource, obj, old)
        self._pending.append((iter(self._subscribers[resource]), change))
        if not self._dispatching:
            self._dispatching = True
            self.timers.at(self.timers.now(), self._dispatch)

    def _dispatch(self) -> None:
        """Deliver pending changes. They are delivered after the write, so that no subscriber runs within it."""
        try:
            while self._pending:
                subscribers, change = self._pending[0]
                for on_change in subscribers:
                    on_change(change)
                self._pending.popleft()
        finally:
            self._dispatching = False
            if self._pending:
                self._dispatching = True
                self.timers.at(self.timers.now(), self._dispatch)

    def existing(self, kind: Kind, namespace: str, name: str) -> Json:
        found = self.registry.table(kind).objects.get((namespace if kind.namespaced else "", name))
        if found is None:
            raise refusals.not_found(kind.plural, kind.group, name)
        return found

    def show(self, kind: Kind, obj: Json) -> Json:
        return obj if kind.to_wire is None else kind.to_wire(obj)

    def begin(
        self, kind: Kind, namespace: str, sent: Any, unknown: builtins.list[str], *, like: Json | None = None
    ) -> Json:
        try:
            return self.registry.begin(kind, namespace, sent, unknown, like=like)
        except fields.Misfit:
            raise unreadable(kind, misfit(kind, sent)) from None

    def store(
        self,
        kind: Kind,
        obj: Json,
        *,
        manager: str = UNKNOWN,
        dry_run: bool = False,
        managed: builtins.list[Json] | None = None,
    ) -> Json:
        """Store a new object that `finish` returned.

        `manager`: the name of the client that created it. `managed`: the managers of its fields, if these are noted.
        """
        if managed:
            obj = {**obj, "metadata": {**obj["metadata"], "managedFields": managed}}
        elif managed is None and kind.plural == "nodes" and not kind.group:
            obj = with_cordon_manager({}, obj, manager, self.registry.stamp())
        stored = self.registry.insert(kind, obj, dry_run=dry_run)
        if kind is DEFINITION and not dry_run:
            self.definitions.after(stored)
        return stored

    def merged(self, kind: Kind, old: Json, sent: Any, unknown: builtins.list[str]) -> Json:
        try:
            return self.registry.merge(kind, old, sent, unknown)
        except fields.Misfit:
            raise unreadable(kind, misfit(kind, sent)) from None

    def change(self, kind: Kind, old: Json, draft: Json, *, subresource: str = "", manager: str = UNKNOWN) -> Json:
        return self.put(kind, old, self.registry.revise(kind, old, draft, subresource=subresource), manager=manager)

    def put(
        self,
        kind: Kind,
        old: Json,
        obj: Json,
        *,
        manager: str = UNKNOWN,
        dry_run: bool = False,
        managed: builtins.list[Json] | None = None,
    ) -> Json:
        """Store a changed object that `revise` returned.

        `manager`: the name of the client that changed it. `managed`: the managers of its fields, if these are noted.
        """
        if managed is not None:
            obj = _with_managers(old, obj, managed)
        elif kind.plural == "nodes" and not kind.group:
            obj = with_cordon_manager(old, obj, manager, self.registry.stamp())
        result = self.registry.replace(kind, old, obj, dry_run=dry_run)
        if kind is DEFINITION and not dry_run and result is not old:
            self.definitions.after(result)
        return result

    def remove(self, kind: Kind, old: Json, asked: Deletion) -> tuple[Json, bool]:
        if kind is DEFINITION:
            return self.definitions.delete(old, asked)
        return self.registry.delete(kind, old, asked)

    def _event_stored(self, entry: Entry) -> None:
        if entry.type == "ADDED":
            meta = entry.object["metadata"]
            expires_at = parse(meta["creationTimestamp"]) + EVENTS_FOR
            self._events_at.append((expires_at, meta["namespace"], meta["name"]))
            if len(self._events_at) == 1:
                self.timers.at(expires_at, self._expire_events)

    def _expire_events(self) -> None:
        table, now = self.storage.table("events"), self.timers.now()
        while self._events_at and self._events_at[0][0] <= now:
            _, namespace, name = self._events_at.popleft()
            obj = table.get(namespace, name)
            if obj is not None:
                self.storage.remove(table, obj)
        if self._events_at:
            self.timers.at(self._events_at[0][0], self._expire_events)


def _with_managers(old: Json, obj: Json, managed: list[Json]) -> Json:
    if managed == old["metadata"].get("managedFields", []):
        return obj
    meta = {name: value for name, value in obj["metadata"].items() if name != "managedFields"}
    return {**obj, "metadata": {**meta, "managedFields": managed} if managed else meta}


def _is_status_alone(body: Mapping[str, Any]) -> bool:
    return len(body) == 1 and isinstance(body.get("status"), dict)


def _differs_in_status_alone(obj: Json, old: Json) -> bool:
    """Whether all parts but the status are the stored ones, as when a controller replaces a status that it read."""
    if not isinstance(obj.get("status"), dict):
        return False
    for name, part in obj.items():  # noqa: SIM110 - a generator would cost as much as the comparison
        if part is not old.get(name) and name != "status":
            return False
    return True


def misfit(kind: Kind, sent: Any) -> str:
    """Return where the sent object does not fit its type. Of custom objects only the metadata has one."""
    return misfits.diagnose(kind.type, sent) if kind.type else misfits.diagnose("meta.ObjectMeta", sent.get("metadata"))


def unreadable(kind: Kind, why: str) -> Exception:
    return refusals.bad_request(f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}')
