"""The indexes whose buckets several surfaces read."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from haulout.cluster.rows import PodRow, Row
from haulout.cluster.store import Index


def _node(row: Row) -> Iterable[Hashable]:
    return (row.node,) if isinstance(row, PodRow) and row.node else ()


def _namespace(row: Row) -> Iterable[Hashable]:
    return (row.key.namespace,)


PODS_OF_NODE = Index("pods-of-node", "Pod", _node)
# Only explanations use these. Each is built when it is first read.
PODS_OF_NAMESPACE = Index("pods-of-namespace", "Pod", _namespace)
BUDGETS_OF_NAMESPACE = Index("budgets-of-namespace", "PodDisruptionBudget", _namespace)
