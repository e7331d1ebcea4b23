"""The deletion of namespaces: their contents first, then the namespace."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from haulout.embedded.interfaces import Change, Json
from haulout.embedded.resources import NAMESPACES
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.registry import Deletion

if TYPE_CHECKING:
    from haulout.embedded.store.server import Server

_CONTENT, _FINALIZERS = "NamespaceContentRemaining", "NamespaceFinalizersRemaining"

# By condition: reason and message while nothing is left in the namespace.
_NOTHING = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    "NamespaceDeletionContentFailure": (
        "ContentDeleted",
        "All content successfully deleted, may be waiting on finalization",
    ),
    _CONTENT: ("ContentRemoved", "All content successfully removed"),
    _FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}
# Reason and beginning of the message while something is left.
_SOMETHING = {
    _CONTENT: ("SomeResourcesRemain", "Some resources are remaining: "),
    _FINALIZERS: ("SomeFinalizersRemain", "Some content in the namespace has finalizers remaining: "),
}


class NamespaceController:
    """The controller that empties a namespace in deletion and finalizes it once it is empty."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ending: set[str] = set()
        self._watched: set[str] = set()

    def start(self) -> None:
        self._server.subscribe(NAMESPACES, self._changed)

    def _changed(self, change: Change) -> None:
        name = change.object["metadata"]["name"]
        if change.type == "DELETED":
            self._ending.discard(name)
        elif "deletionTimestamp" in change.object["metadata"] and name not in self._ending:
            self._ending.add(name)
            self._empty(name)

    def _empty(self, name: str) -> None:
        for kind in self._contents():
            self._follow(kind)
            for obj in self._server.registry.table(kind).items(name):
                if "deletionTimestamp" not in obj["metadata"]:
                    self._server.remove(kind, obj, Deletion(propagation="Background"))
        self._finish(name)
        self._tell(name)

    def _tell(self, name: str) -> None:
        """Write the conditions of a namespace, which say what its deletion waits for."""
        namespace = self._server.storage.table("namespaces").get("", name)
        if namespace is None:
            return
        contents = {kind: self._server.registry.table(kind).items(name) for kind in self._contents()}
        held = Counter(
            finalizer
            for objects in contents.values()
            for obj in objects
            for finalizer in obj["metadata"].get("finalizers", ())
        )
        found = {
            _CONTENT: sorted(
                f"{kind.plural}.{kind.group} has {len(objects)} resource instances"
                for kind, objects in contents.items()
                if objects
            ),
            _FINALIZERS: [f"{finalizer} in {count} resource instances" for finalizer, count in sorted(held.items())],
        }
        stamp = self._server.registry.stamp()
        conditions = [_condition(type_name, found.get(type_name, []), stamp) for type_name in _NOTHING]
        changed = {**namespace, "status": {**namespace["status"], "conditions": conditions}}
        self._server.change(self._server.kind(NAMESPACES), namespace, changed, subresource="status")

    def _contents(self) -> list[Kind]:
        """Return all namespaced kinds, one for each table."""
        kinds = {kind.table_name: kind for kind in self._server.catalog if kind.namespaced}
        return list(kinds.values())

    def _follow(self, kind: Kind) -> None:
        if kind.table_name not in self._watched:
            self._watched.add(kind.table_name)
            self._server.subscribe(kind.resource, self._object_changed)

    def _object_changed(self, change: Change) -> None:
        namespace = change.object["metadata"].get("namespace", "")
        if change.type == "DELETED" and namespace in self._ending:
            self._finish(namespace)

    def _finish(self, name: str) -> None:
        namespace = self._server.storage.table("namespaces").get("", name)
        if namespace is None or any(self._server.registry.table(kind).items(name) for kind in self._contents()):
            return
        finalize(self._server, namespace, [f for f in namespace["spec"].get("finalizers", []) if f != "kubernetes"])


def _condition(type_name: str, found: list[str], stamp: str) -> Json:
    reason, message = _SOMETHING[type_name] if found else _NOTHING[type_name]
    return {
        "type": type_name,
        "status": "True" if found else "False",
        "lastTransitionTime": stamp,
        "reason": reason,
        "message": message + ", ".join(found),
    }


def finalize(server: Server, namespace: Json, finalizers: list[str]) -> Json:
    """Set the finalizers in a namespace's spec, as its finalize subresource does. No other write changes them."""
    kind = server.kind(NAMESPACES)
    spec = {name: value for name, value in namespace["spec"].items() if name != "finalizers"}
    if finalizers:
        spec["finalizers"] = finalizers
    if spec == namespace["spec"]:
        return namespace
    return server.registry.replace(kind, namespace, {**namespace, "spec": spec})
