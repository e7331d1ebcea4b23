"""The nodes of a fleet as rows of a table: state, labels, root cause, pods that have to go, and whether work may begin."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import datetime

import msgspec

from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import node_key
from haulout.cluster.rows import NodeRow, PodRow, Row
from haulout.cluster.store import Listing, Store
from haulout.core.declaration import Declaration
from haulout.explain.fleet import OUT, Fleet, NodeState, Work

# Labels that machines write about hardware, or that repeat the node's name. People do not group nodes by them, and some nodes
# have hundreds.
LEFT_OUT = ("feature.node.kubernetes.io/", "beta.kubernetes.io/", "kubernetes.io/hostname")
MOST_LABELS = 48
Versions = Callable[[Mapping[str, str]], Mapping[str, str]]


class FleetRow(msgspec.Struct, frozen=True, rename="camel"):
    """One node of the fleet.

    `state`, `holders`: as in `haulout status`. `labels`: the labels by which people group nodes.
    `since`: when the oldest maintenance of the node was asked for. `cause`: the root cause that blocks it; empty: none.
    `pods_left`: the pods that its drains still wait for. `pods_total`: all pods on it; null if pods cannot be read.
    `versions`: the versions of packages on it, by name.
    `safe_to_work`: true if a list of its pods, sent after the cordon was stored, has shown the node to be empty, and a
    maintenance holds it. False: it is not so. Null: it is not known.
    """

    name: str
    state: str
    labels: Mapping[str, str] = {}
    holders: tuple[str, ...] = ()
    since: datetime | None = None
    cause: str = ""
    pods_left: int = 0
    pods_total: int | None = None
    safe_to_work: bool | None = None
    versions: Mapping[str, str] = {}


def node_rows(
    store: Store, fleet: Fleet, empty: Collection[str], declarations: Iterable[Declaration] = ()
) -> Iterator[FleetRow]:
    """Yield a row for each node of a fleet. `empty`: the nodes that have been proven empty, by name.

    `declarations`: those of the surfaces, for the versions of what they have installed.
    """
    installed = [each.versions for each in declarations if each.versions is not None]
    works: dict[str, list[Work]] = {}
    for work in fleet.works:
        works.setdefault(work.node, []).append(work)
    causes: dict[str, str] = {}
    for cause in fleet.causes:
        for name in cause.nodes:
            causes.setdefault(name, cause.text)
    are_pods_listed = store.listing("", "Pod") is Listing.LISTED
    for node in fleet.nodes:
        row = store.row(node_key(node.name))
        mine = works.get(node.name, ())
        yield FleetRow(
            name=node.name,
            state=node.state,
            labels=group_labels(row) if isinstance(row, NodeRow) else {},
            holders=node.holders,
            since=min((work.since for work in mine if work.since is not None), default=None),
            cause=causes.get(node.name, ""),
            pods_left=max((work.pods_left for work in mine), default=0),
            pods_total=_pods(store, node.name) if are_pods_listed else None,
            safe_to_work=_is_safe(node, row, mine, empty),
            versions=_versions(row.annotations, installed) if isinstance(row, NodeRow) and installed else {},
        )


def _versions(annotations: Mapping[str, str], installed: Iterable[Versions]) -> Mapping[str, str]:
    found = [each(annotations) for each in installed]
    return found[0] if len(found) == 1 else {name: text for each in found for name, text in each.items()}


def group_labels(row: NodeRow) -> Mapping[str, str]:
    """Return the labels of a node by which people group nodes."""
    if len(row.labels) <= MOST_LABELS and not any(name.startswith(LEFT_OUT) for name in row.labels):
        return row.labels
    names = sorted(name for name in row.labels if not name.startswith(LEFT_OUT))
    return {name: row.labels[name] for name in names[:MOST_LABELS]}


def held_nodes(fleet: Fleet) -> frozenset[str]:
    """Return the nodes that a maintenance holds and that, by our rows, have no pod left: they may be proven empty."""
    return frozenset(node.name for node in fleet.nodes if node.state == OUT)


def _pods(store: Store, node: str) -> int:
    return sum(isinstance(row, PodRow) and not row.ended for row in store.bucket(PODS_OF_NODE, "", node))


def _is_safe(node: NodeState, row: Row | None, works: Iterable[Work], empty: Collection[str]) -> bool | None:
    if node.state != OUT or not isinstance(row, NodeRow) or not row.unschedulable:
        return False
    if any(work.pods_left for work in works):
        return False
    return True if node.name in empty else None
