"""The number of pods that maintenance moves, by their owners, counted when a node enters maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow, Owner, PodRow, Row, WorkloadRow
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.action import Measure
from haulout.surfaces.profiles.wire import PROFILE_LABEL, attached_profiles

COUNT = "maintenance_controller_pod_shuffle_count"
PER_REPLICA = "maintenance_controller_pod_shuffles_per_replica"
KINDS = frozenset({"Pod", "ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"})
_WORDS = {
    "DaemonSet": "daemon_set",
    "StatefulSet": "stateful_set",
    "ReplicaSet": "replica_set",
    "Deployment": "deployment",
}

OWNERS = tuple(_WORDS)

Sample = tuple[str, tuple[tuple[str, str], ...], float]


def measures(view: View, node: NodeRow, profile: str) -> tuple[Measure, ...]:
    """Return the pods of a node counted by owner.

    Return nothing if pods or owners cannot be read, because the count would be wrong.
    """
    cluster = node.key.cluster
    for kind in sorted(KINDS):
        if view.listing(kind, cluster) is Listing.UNREADABLE:
            return ()
        view.require(kind, cluster)
    pods = view.rows(PODS_OF_NODE, node.key.name, PodRow, cluster)
    found = [measured for pod in pods for owner in pod.owners for measured in _measured(view, pod, owner, profile)]
    return _summed(found)


def _measured(view: View, pod: PodRow, owner: Owner, profile: str) -> Iterator[Measure]:
    key = Key(pod.key.cluster, owner.kind, pod.key.namespace, owner.name)
    row = _responsible(key, lambda key: view.get(key, WorkloadRow))
    if row is None:
        return
    labels = (("owner", _label(row.key)), ("profile", profile))
    yield Measure(COUNT, labels)
    yield Measure(PER_REPLICA, labels, _share(row))


def _responsible(key: Key, get: Callable[[Key], WorkloadRow | None]) -> WorkloadRow | None:
    """Return the owner to count a pod under: for a ReplicaSet its Deployment; None if the owner is unknown."""
    row = get(key) if key.kind in _WORDS else None
    if row is None or key.kind != "ReplicaSet" or not row.owners:
        return row
    owner = next((owner for owner in row.owners if owner.kind == "Deployment"), None)
    return get(Key(key.cluster, "Deployment", key.namespace, owner.name)) if owner else None


def _label(key: Key) -> str:
    return f"{_WORDS[key.kind]}_{key.name}"


def _share(row: WorkloadRow) -> float:
    """Return which share of its owner's replicas one pod is; infinite if the owner has none."""
    replicas = row.ready_replicas if row.key.kind == "DaemonSet" else row.replicas
    replicas = 1 if replicas is None else replicas
    return 1 / replicas if replicas else float("inf")


def _summed(found: Iterable[Measure]) -> tuple[Measure, ...]:
    totals: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for each in found:
        totals[each.counter, each.labels] = totals.get((each.counter, each.labels), 0.0) + each.amount
    return tuple(Measure(counter, labels, amount) for (counter, labels), amount in totals.items())


def zero_samples(nodes: Iterable[NodeRow], pods: Iterable[Row], workloads: Iterable[Row]) -> Iterator[Sample]:
    """Yield zeros for all owners of pods on nodes, so that the series exist before anything is counted."""
    profiles = {node.key.name: attached_profiles(node.labels.get(PROFILE_LABEL)) for node in nodes}
    owners = {row.key: row for row in workloads if isinstance(row, WorkloadRow)}
    found: set[tuple[str, str]] = set()
    for pod in pods:
        if isinstance(pod, PodRow) and pod.node in profiles:
            keys = (Key(pod.key.cluster, owner.kind, pod.key.namespace, owner.name) for owner in pod.owners)
            rows = (_responsible(key, owners.get) for key in keys)
            found.update((_label(row.key), profile) for row in rows if row for profile in profiles[pod.node])
    for owner, profile in found:
        labels = (("owner", owner), ("profile", profile))
        yield COUNT, labels, 0.0
        yield PER_REPLICA, labels, 0.0
