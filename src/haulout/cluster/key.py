"""How everything in the store is named."""

from __future__ import annotations

from typing import NamedTuple


class Key(NamedTuple):
    """The name of a row: cluster, kind, namespace and name.

    The home cluster is `""`; what is not a Kubernetes object has a kind of ours.
    """

    cluster: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.cluster}:{self.kind}/{place}" if self.cluster else f"{self.kind}/{place}"


def node_key(name: str, cluster: str = "") -> Key:
    return Key(cluster, "Node", "", name)
