"""The rules for creating, changing and deleting objects of every kind, in the real server's order.

A write has two halves, so that admission webhooks can run in between: `begin` or `merge` decode and complete what was
sent, `finish` and `revise` check it. Both leave the storage alone; `insert`, `replace` and `delete` change it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any

import msgspec

from haulout.base.bounds import span
from haulout.base.patch import same
from haulout.embedded.interfaces import Json
from haulout.embedded.rules import fields, metadata, nodes, refusals
from haulout.embedded.rules.refusals import Problem, wrong
from haulout.embedded.store.kinds import Kind, parts_differ
from haulout.embedded.store.storage import Storage, Table
from haulout.kube.errors import StatusCause

IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_LONGEST_PREFIX = 63 - 5
# The parts of an object that have checks of their own.
_NOT_BODY = frozenset({"metadata", "status"})


class Deletion(msgspec.Struct, frozen=True):
    """The options of one deletion."""

    grace: int | None = None
    uid: str | None = None
    version: str | None = None
    propagation: str | None = None
    orphan: bool | None = None
    dry_run: bool = False


class _Tables(dict[Kind, Table]):
    """The tables of the kinds. Each is looked up in the storage when it is first used."""

    def __init__(self, storage: Storage) -> None:
        super().__init__()
        self._storage = storage

    def __missing__(self, kind: Kind) -> Table:
        table = self[kind] = self._storage.table(kind.table_name)
        return table


class Registry:
    """The rules by which objects of every kind are created, changed and deleted, in front of the storage.

    `brief`: an object that is removed at once is not marked as deleted before, see `Server`.
    """

    def __init__(
        self,
        storage: Storage,
        now: Callable[[], datetime],
        *,
        seed: int = 0,
        taint_new_nodes: bool = True,
        brief: bool = False,
    ) -> None:
        self.storage = storage
        self._now = now
        # Generated names and UIDs have to be the same in each run. They need not be secret.
        self._random = Random(seed)  # noqa: S311
        self._taint_new_nodes = taint_new_nodes
        self.brief = brief
        # Returns the table of a kind. Each request calls it, so it is the dictionary's own method.
        self.table: Callable[[Kind], Table] = _Tables(storage).__getitem__
        self._instant: datetime | None = None
        self._stamp = ""

    def begin(self, kind: Kind, namespace: str, sent: Any, unknown: list[str], *, like: Json | None = None) -> Json:
        """Return the object that a request would create, with its name and defaults. Raises `fields.Misfit`.

        `like`: an object created of the same spec. Both share the completed spec, as no object is changed in place.
        """
        if like is not None:
            shared = {"spec": like["spec"]}
            obj = kind.decode({**sent, **shared}, shared, unknown)
        else:
            obj = kind.decode(sent, None, unknown)
        if kind.to_stored is not None:
            obj = kind.to_stored(obj)
        else:
            obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
        meta = obj["metadata"]
        for member in ("managedFields", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
            meta.pop(member, None)
        if kind.namespaced:
            meta["namespace"] = namespace
        else:
            meta.pop("namespace", None)
        if not meta.get("name") and meta.get("generateName"):
            suffix = "".join(self._random.choices(_LETTERS, k=5))
            meta["name"] = meta["generateName"][:_LONGEST_PREFIX] + suffix
        meta["uid"] = self._new_uid()
        # A plan copies objects that are older than its world. They keep their creation time, because controllers may
        # order objects by age.
        meta["creationTimestamp"] = (self.brief and meta.get("creationTimestamp")) or self.stamp()
        kind.default(obj, like)
        if kind.allocate is not None:
            kind.allocate(obj, self.table(kind).items())
        if self._taint_new_nodes and kind.kind == "Node" and not kind.group:
            nodes.taint_new(obj)
        if kind.namespaced:
            self._check_namespace(kind, obj)
        return obj

    def finish(self, kind: Kind, obj: Json, *, like: Json | None = None) -> Json:
        """Return a new object as it would be stored. With `like` its spec is not checked again. Raises `Invalid`."""
        if kind.respecified is not None:
            obj["metadata"]["generation"] = 1
        if kind.status_type:
            obj["status"] = fields.converter(kind.status_type)({}, None, [])
        kind.prepare(obj)
        meta = obj["metadata"]
        problems = metadata.check_new(meta, kind.name_rule, qualified=not kind.custom)
        problems += kind.check_new(obj)
        problems += kind.check(obj) if like is None else []
        if problems:
            raise refusals.invalid(kind.kind, self._blamed_group(kind), meta.get("name", ""), problems)
        return obj

    def insert(self, kind: Kind, obj: Json, *, dry_run: bool = False) -> Json:
        table, meta = self.table(kind), obj["metadata"]
        taken = table.objects.get((meta.get("namespace", ""), meta["name"]))
        if taken is not None:
            going = "deletionTimestamp" in taken["metadata"]
            raise refusals.already_exists(kind.plural, kind.group, meta["name"], going=going)
        if dry_run:
            return obj
        if "resourceVersion" in meta:
            raise refusals.unclassified_error("resourceVersion should not be set on objects to be created")
        return self.storage.put(table, obj, None)

    def merge(self, kind: Kind, old: Json, sent: Any, unknown: list[str]) -> Json:
        """Return the sent object in place of `old`, with defaults. Raises `fields.Misfit`."""
        obj = kind.decode(sent, old if kind.custom or kind.to_wire is None else None, unknown)
        if kind.to_stored is not None:
            obj = kind.to_stored(obj)
        else:
            obj["apiVersion"], obj["kind"] = kind.api_version, kind.kind
        kind.default(obj, old)
        if kind.allocate is not None:
            kind.allocate(obj, self.table(kind).items())
        return obj

    def revise(self, kind: Kind, old: Json, obj: Json, *, subresource: str = "") -> Json:
        """Return the changed object as to be stored; `old` itself if nothing changes. Raises `Invalid`, `Conflict`."""
        was = old["metadata"]
        if obj["metadata"] is not was:
            obj["metadata"] = _kept(obj["metadata"], was)
        if subresource == "status":
            obj = self._status_only(kind, old, obj)
        else:
            if kind.has_status:
                _carry(obj, old, "status")
            kind.reprepare(obj, old)
        if kind.respecified is not None and kind.respecified(obj, old):
            obj["metadata"] = {**obj["metadata"], "generation": was.get("generation", 0) + 1}
        meta = obj["metadata"]
        problems: list[Problem] = []
        if meta is not was:
            problems = metadata.check_changed(meta, was, custom=kind.custom)
        if subresource == "status":
            problems += kind.recheck_status(obj, old)
        elif parts_differ(obj, old, _NOT_BODY):
            problems += kind.check(obj) + kind.recheck(obj, old)
        if problems:
            raise refusals.invalid(kind.kind, self._blamed_group(kind), was["name"], problems)
        # In values without a fixed type, true and 1 are different.
        return old if obj == old and (not kind.custom or same(obj, old)) else obj

    def revise_status(self, kind: Kind, old: Json, status: Json) -> Json:
        """Return the object with a new status as to be stored; `old` itself if nothing changes. Raises `Invalid`."""
        obj = {**old, "status": status}
        kind.reprepare_status(obj, old)
        if problems := kind.recheck_status(obj, old):
            raise refusals.invalid(kind.kind, self._blamed_group(kind), old["metadata"]["name"], problems)
        return old if obj["status"] == old.get("status") and obj == old else obj

    def replace(self, kind: Kind, old: Json, obj: Json, *, dry_run: bool = False) -> Json:
        """Store what `revise` returned. Remove the object if its deletion waited only for its last finalizer."""
        if obj is old:
            return old
        if _was_waiting(kind, old, obj):
            if not dry_run:
                self.storage.remove(self.table(kind), old)
            return obj
        if dry_run:
            return obj
        return self.storage.put(self.table(kind), obj, old)

    def delete(self, kind: Kind, old: Json, asked: Deletion, *, status: Json | None = None) -> tuple[Json, bool]:
        """Delete an object. Return its last known state, and whether it is gone.

        `status`: stored together with the mark of the deletion.
        """
        self.check_preconditions(kind, old, asked)
        if kind.plural == "namespaces" and not kind.group:
            return self._delete_namespace(kind, old, asked)
        meta = dict(old["metadata"])
        grace = None if asked.grace is None else (1 if asked.grace < 0 else asked.grace)
        graceful = self._mark_graceful(kind, old, meta, grace)
        if graceful is None:
            return old, False
        finalizers = _finalizers(kind, meta, asked)
        if finalizers != meta.get("finalizers", []):
            meta["finalizers"] = finalizers
        if finalizers and not graceful:
            self._mark(meta)
        current, stays = old, bool(finalizers) or (graceful and meta["deletionGracePeriodSeconds"] > 0)
        if (graceful or finalizers) and meta != old["metadata"] and (stays or not self.brief):
            if not meta.get("finalizers"):
                meta.pop("finalizers", None)
            changed = {**old, "metadata": meta}
            if status is not None:
                changed["status"] = status
            current = changed if asked.dry_run else self.storage.put(self.table(kind), changed, old)
        if stays:
            return current, False
        if asked.dry_run:
            return current, True
        return self.storage.remove(self.table(kind), current), True

    def stamp(self) -> str:
        """Return the current time as objects carry it."""
        now = self._now()
        if now is not self._instant:
            self._instant, self._stamp = now, wire(now)
        return self._stamp

    def _new_uid(self) -> str:
        text = f"{self._random.getrandbits(128):032x}"
        return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-{'89ab'[int(text[16], 16) & 3]}{text[17:20]}-{text[20:]}"

    def _check_namespace(self, kind: Kind, obj: Json) -> None:
        """Check the namespace of a new object, as the admission plugin NamespaceLifecycle does."""
        namespace = obj["metadata"]["namespace"]
        found = self.storage.table("namespaces").get("", namespace)
        if found is None:
            raise refusals.not_found("namespaces", "", namespace)
        if "deletionTimestamp" in found["metadata"]:
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            error = refusals.forbidden(kind.plural, kind.group, obj["metadata"].get("name", ""), why)
            cause = StatusCause(
                "NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace"
            )
            assert error.status.details is not None
            details = msgspec.structs.replace(error.status.details, causes=(cause,))
            raise refusals.refusal(403, "Forbidden", error.status.message, details=details)

    def _status_only(self, kind: Kind, old: Json, obj: Json) -> Json:
        changed = {**old, "metadata": old["metadata"] if kind.custom else obj["metadata"]}
        changed.pop("status", None)
        if "status" in obj:
            changed["status"] = obj["status"]
        kind.reprepare_status(changed, old)
        return changed

    def _blamed_group(self, kind: Kind) -> str:
        """Return the group that a refusal names. Events of either group are stored and refused as core's."""
        return "" if kind.group == "events.k8s.io" else kind.group

    def check_preconditions(self, kind: Kind, old: Json, asked: Deletion) -> None:
        meta = old["metadata"]
        if asked.uid is not None and asked.uid != meta["uid"]:
            why = f"the UID in the precondition ({asked.uid}) does not match the UID in record ({meta['uid']}). The object might have been deleted and then recreated"
            raise refusals.conflict(kind.kind, kind.group, meta["name"], why)
        if asked.version is not None and asked.version != meta["resourceVersion"]:
            why = f"the ResourceVersion in the precondition ({asked.version}) does not match the ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified"
            raise refusals.conflict(kind.kind, kind.group, meta["name"], why)

    def _mark_graceful(self, kind: Kind, old: Json, meta: Json, grace: int | None) -> bool | None:
        """Mark an object as terminating. Return whether it gets time; None if it already is and nothing changes."""
        if kind.graceful is None:
            return False
        if "deletionTimestamp" not in meta:
            seconds = kind.graceful(old, grace)
            meta["deletionTimestamp"] = self.stamp() if not seconds else wire(self._now() + _go_span(seconds))
            meta["deletionGracePeriodSeconds"] = seconds
            if meta.get("generation"):
                meta["generation"] += 1
            return True
        before = meta.get("deletionGracePeriodSeconds") or 0
        if not before:
            return False
        if grace is None or grace >= before:
            return None
        deleted_at = parse(meta["deletionTimestamp"]) + span(grace - before)
        if deleted_at < self._now().replace(microsecond=0):
            deleted_at, grace = self._now(), 1 if grace else 0
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = wire(deleted_at), grace
        return True

    def _mark(self, meta: Json) -> None:
        """Mark an object of a kind without grace periods as terminating; it waits for its finalizers."""
        if "deletionTimestamp" not in meta:
            if meta.get("generation"):
                meta["generation"] += 1
            meta["deletionTimestamp"] = self.stamp()
        meta["deletionGracePeriodSeconds"] = 0

    def _delete_namespace(self, kind: Kind, old: Json, asked: Deletion) -> tuple[Json, bool]:
        name = old["metadata"]["name"]
        if name in IMMORTAL:
            raise refusals.forbidden("namespaces", "", name, "this namespace may not be deleted")
        if "deletionTimestamp" in old["metadata"]:
            if old["spec"].get("finalizers") or old["metadata"].get("finalizers"):
                return old, False
            return (old if asked.dry_run else self.storage.remove(self.table(kind), old)), True
        meta = {**old["metadata"], "deletionTimestamp": self.stamp()}
        changed = {**old, "metadata": meta, "status": {**old["status"], "phase": "Terminating"}}
        return (changed if asked.dry_run else self.storage.put(self.table(kind), changed, old)), False


# Fields of the metadata that only the server writes.
_SYSTEM = ("creationTimestamp", "generation", "managedFields", "selfLink", "resourceVersion")
_SYSTEM_NAMES = frozenset(_SYSTEM)


def _kept(meta: Json, was: Json) -> Json:
    """Return changed metadata with the fields that no update can change; `was` itself if nothing else differs."""
    kept = {name: value for name, value in meta.items() if name not in _SYSTEM_NAMES}
    for name in _SYSTEM:
        if name in was:
            kept[name] = was[name]
    kept.setdefault("uid", was["uid"])
    if "namespace" in was:
        kept.setdefault("namespace", was["namespace"])
    kept.setdefault("name", was["name"])
    if "deletionGracePeriodSeconds" in was:
        kept.setdefault("deletionGracePeriodSeconds", was["deletionGracePeriodSeconds"])
    if "deletionTimestamp" in was:
        kept["deletionTimestamp"] = was["deletionTimestamp"]
    return was if kept == was else kept


def _carry(obj: Json, old: Json, member: str) -> None:
    if member in old:
        obj[member] = old[member]
    else:
        obj.pop(member, None)


def _was_waiting(kind: Kind, old: Json, obj: Json) -> bool:
    """Whether an object was deleted before and its last finalizer has just been removed."""
    was = old["metadata"]
    if "deletionTimestamp" not in was or was.get("deletionGracePeriodSeconds") or obj["metadata"].get("finalizers"):
        return False
    return kind.kind != "Namespace" or not obj["spec"].get("finalizers")


# By propagation policy: the finalizer of the garbage collector.
_FINALIZERS = {"Orphan": "orphan", "Foreground": "foregroundDeletion"}


def _finalizers(kind: Kind, meta: Json, asked: Deletion) -> list[str]:
    """Return the finalizers with those of the garbage collector that the deletion's propagation asks for."""
    present: list[str] = meta.get("finalizers", [])
    if not kind.propagation:
        return present
    if asked.orphan is not None:
        policy = "Orphan" if asked.orphan else "Background"
    elif asked.propagation is not None:
        policy = asked.propagation
    elif "orphan" in present:
        policy = "Orphan"
    elif "foregroundDeletion" in present:
        policy = "Foreground"
    else:
        policy = kind.propagation
    wanted = _FINALIZERS.get(policy)
    if wanted is None and not present:
        return present
    rest = [name for name in present if name not in {"orphan", "foregroundDeletion"}]
    if wanted is None:
        return rest
    return present if wanted in present and len(rest) + 1 == len(present) else [*rest, wanted]


def wire(instant: datetime) -> str:
    return f"{instant.replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def parse(text: str) -> datetime:
    return datetime.fromisoformat(text)


def check_update(kind: Kind, old: Json, sent: Any, *, whole: bool) -> None:
    """Check the UID and version in the sent object. `whole`: it was sent as an object, not as a patch."""
    meta = sent.get("metadata") if isinstance(sent, dict) else None
    if not isinstance(meta, dict):
        meta = {}
    was, name = old["metadata"], old["metadata"]["name"]
    version = meta.get("resourceVersion")
    if whole and (uid := meta.get("uid")) and uid != was["uid"]:
        why = f"StorageError: invalid object, Code: 4, Key: {_etcd_key(kind, was)}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {was['uid']}"
        raise refusals.conflict(kind.plural, kind.group, name, why)
    if not version or version == "0":
        if whole and not kind.unconditional_update:
            problem = wrong("metadata.resourceVersion", 0, "must be specified for an update")
            raise refusals.invalid(kind.plural, kind.group, name, [problem])
        return
    if not str(version).isdecimal():
        raise refusals.unclassified_error(f'strconv.ParseUint: parsing "{version}": invalid syntax')
    if version != was["resourceVersion"]:
        raise refusals.conflict(kind.plural, kind.group, name)


def _etcd_key(kind: Kind, meta: Json) -> str:
    plural = "minions" if kind.kind == "Node" and not kind.group else kind.plural
    folder = f"{kind.group}/{plural}" if kind.custom else plural
    return "/".join(["/registry", folder, *([meta["namespace"]] if "namespace" in meta else []), meta["name"]])


def _go_span(seconds: int) -> timedelta:
    """Return a number of seconds as Go's 64-bit durations have it: beyond 292 years a span wraps around."""
    nanoseconds = (seconds * 10**9 + 2**63) % 2**64 - 2**63
    return timedelta(microseconds=nanoseconds // 1000)
