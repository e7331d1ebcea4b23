"""The end of namespaces: what is in them goes, then they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from haulout.embedded.registry import Deletion
from haulout.embedded.resources import Kind
from haulout.embedded.seams import Change, Json, Resource

if TYPE_CHECKING:
    from haulout.embedded.server import Server

_NAMESPACES = Resource("", "v1", "namespaces")


class NamespaceController:
    """Empties a namespace that is being deleted, and lets it go once nothing is left in it."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._ending: set[str] = set()
        self._watched: set[str] = set()

    def start(self) -> None:
        self._server.subscribe(_NAMESPACES, self._changed)

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

    def _contents(self) -> list[Kind]:
        """One kind per table."""
        kinds = {kind.table_name: kind for kind in self._server.catalog if kind.namespaced}
        return list(kinds.values())

    def _follow(self, kind: Kind) -> None:
        if kind.table_name not in self._watched:
            self._watched.add(kind.table_name)
            self._server.subscribe(kind.resource, self._left)

    def _left(self, change: Change) -> None:
        namespace = change.object["metadata"].get("namespace", "")
        if change.type == "DELETED" and namespace in self._ending:
            self._finish(namespace)

    def _finish(self, name: str) -> None:
        namespace = self._server.storage.table("namespaces").get("", name)
        if namespace is None or any(self._server.registry.table(kind).items(name) for kind in self._contents()):
            return
        finalize(self._server, namespace, [f for f in namespace["spec"].get("finalizers", []) if f != "kubernetes"])


def finalize(server: Server, namespace: Json, finalizers: list[str]) -> Json:
    """What the finalize subresource does: the only way to change these finalizers."""
    kind = server.kind(_NAMESPACES)
    spec = {name: value for name, value in namespace["spec"].items() if name != "finalizers"}
    if finalizers:
        spec["finalizers"] = finalizers
    if spec == namespace["spec"]:
        return namespace
    return server.registry.replace(kind, namespace, {**namespace, "spec": spec})
