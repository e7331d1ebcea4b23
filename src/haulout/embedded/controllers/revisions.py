"""The ControllerRevisions of a StatefulSet or DaemonSet: its pod templates over time, each with a hash."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from haulout.embedded.controllers.generated_names import content_hash
from haulout.embedded.controllers.object_fields import key_of, owned_by
from haulout.embedded.controllers.tables import Owned
from haulout.embedded.interfaces import Json, Objects
from haulout.embedded.resources import CONTROLLER_REVISIONS
from haulout.kube.errors import Conflict, NotFound

HASH = "controller-revision-hash"
# On the revisions themselves: each of the two controllers has its own label.
_LABELS = {"DaemonSet": HASH, "StatefulSet": "controller.kubernetes.io/hash"}


class Revision(NamedTuple):
    """One ControllerRevision: its name, the hash that pods carry, and the pod template that it stands for."""

    name: str
    hash: str
    template: Json


class Revisions:
    """The ControllerRevisions of StatefulSets or DaemonSets: found, created and removed by their controller."""

    def __init__(self, objects: Objects, table: Owned) -> None:
        self._objects = objects
        self._table = table

    def current(self, owner: Json, kind: str) -> Revision:
        """Return the revision of the owner's template. Create it if there is none, and make it the newest."""
        template = owner["spec"]["template"]
        known = self._known(owner)
        data = _data(template)
        newest = max((int(one["revision"]) for one in known), default=0)
        for one in known:
            if one.get("data") == data:
                if int(one["revision"]) < newest:
                    body = {"revision": newest + 1}
                    self._table.put(self._objects.patch(CONTROLLER_REVISIONS, *key_of(one), body))
                return _revision(one)
        return _revision(self._create(owner, kind, data, newest + 1))

    def named(self, owner: Json, name: str) -> Revision | None:
        return next((_revision(one) for one in self._known(owner) if one["metadata"]["name"] == name), None)

    def clean_up(self, owner: Json, used: Callable[[], set[str]]) -> None:
        """Delete the oldest revisions that no name or hash in use refers to, beyond the history limit."""
        limit = owner["spec"].get("revisionHistoryLimit")
        kept, known = 10 if limit is None else int(limit), self._known(owner)
        if len(known) <= kept:
            return
        names = used()
        idle = [one for one in known if one["metadata"]["name"] not in names and _hash(one) not in names]
        for one in idle[: max(len(idle) - kept, 0)]:
            key = key_of(one)
            with suppress(NotFound):
                self._objects.delete(CONTROLLER_REVISIONS, *key, uid=one["metadata"]["uid"])
            self._table.refresh(key)

    def _known(self, owner: Json) -> list[Json]:
        owned = self._table.owned(owner["metadata"]["uid"])
        return sorted(owned, key=lambda one: (int(one["revision"]), one["metadata"]["name"]))

    def _create(self, owner: Json, kind: str, data: Json, revision: int) -> Json:
        namespace, name = key_of(owner)
        collisions = 0
        while True:
            digest = content_hash(data, collisions)
            meta = owner["spec"]["template"].get("metadata") or {}
            body = {
                "apiVersion": "apps/v1",
                "kind": "ControllerRevision",
                "metadata": {
                    "namespace": namespace,
                    "name": f"{name}-{digest}",
                    "labels": {**(meta.get("labels") or {}), _LABELS[kind]: digest},
                    "ownerReferences": [owned_by(owner, "apps/v1", kind)],
                },
                "data": data,
                "revision": revision,
            }
            try:
                created = self._objects.create(CONTROLLER_REVISIONS, body)
            except Conflict as error:
                if not error.exists:
                    raise
                collisions += 1
            else:
                self._table.put(created)
                return created


def _data(template: Json) -> Json:
    return {"spec": {"template": {**template, "$patch": "replace"}}}


def _revision(one: Json) -> Revision:
    template = {name: value for name, value in one["data"]["spec"]["template"].items() if name != "$patch"}
    return Revision(one["metadata"]["name"], _hash(one), template)


def _hash(one: Json) -> str:
    labels: dict[str, str] = one["metadata"].get("labels") or {}
    return next((labels[name] for name in _LABELS.values() if name in labels), "")
