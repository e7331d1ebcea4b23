"""The catalogue of kinds: where each is served, and how its objects become rows."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.cluster.project import RESOURCES, Keep, Projector, Resource


class Kinds:
    """The kinds that a process knows: those of Kubernetes and those of the surfaces.

    A name such as `Lease/kube-node-lease` (`within`, `kind_of_one`) stands for a part of a kind, which has a table of its own.
    """

    def __init__(self, own_kinds: Iterable[Resource] = ()) -> None:
        self._resources = {**RESOURCES, **{resource.kind: resource for resource in own_kinds}}
        self._projectors: dict[tuple[str, str], Projector] = {}

    def resource(self, kind: str) -> Resource:
        """Return the resource of a kind, or of a part of one: where it is served, and what is decoded of it."""
        base, _, place = kind.partition("/")
        namespace, _, name = place.partition("/")
        return self._resources[base].within(namespace, name) if namespace else self._resources[base]

    def projector(self, cluster: str, kind: str) -> Projector:
        """Return the projector of a kind in a cluster, whether the kind is watched there or not."""
        return self._projectors.get((cluster, kind)) or Projector(self.resource(kind), cluster, Keep())

    def keep(self, cluster: str, kind: str, keep: Keep) -> Projector:
        """Keep these fields of a kind's objects in a cluster from now on, in its table as in answers to writes."""
        projector = self._projectors[cluster, kind] = Projector(self.resource(kind), cluster, keep)
        return projector

    def forget(self, cluster: str, kind: str) -> None:
        """Forget which fields are kept of a kind that is no longer watched in a cluster."""
        del self._projectors[cluster, kind]

    def serve(self, projector: Projector, resource: Resource) -> None:
        """Note the version under which a server serves a kind; writes and events name that version, too."""
        projector.resource = resource
        if resource.kind in self._resources:
            self._resources[resource.kind] = resource
