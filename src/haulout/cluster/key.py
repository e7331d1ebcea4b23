"""The names of rows in the store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MOST_NAMED = 10


class Key(NamedTuple):
    """The name of a row: cluster, kind, namespace and name.

    The home cluster is `""`. A row that is not a Kubernetes object has a kind of our own.
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


def name_list(keys: Sequence[Key]) -> str:
    """Return the names of objects, separated by commas. After the tenth, `...` stands for the others."""
    names = ", ".join(key.name for key in keys[:MOST_NAMED])
    return f"{names}, ..." if len(keys) > MOST_NAMED else names
