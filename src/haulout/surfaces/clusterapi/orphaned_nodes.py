"""The clean-up of Nodes that still have labels of a Machine that is gone or no longer enabled."""

from __future__ import annotations

from datetime import datetime, timedelta

from haulout.cluster.key import Key
from haulout.cluster.rows import Connection, NodeRow, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import MARK, View
from haulout.core.action import Label, Step
from haulout.core.decision import NOTHING, Decision, Source, earliest
from haulout.surfaces.clusterapi.link import WORKS, node_keep
from haulout.surfaces.clusterapi.options import options_of
from haulout.surfaces.clusterapi.pause import is_cluster_paused, is_paused
from haulout.surfaces.clusterapi.wire import (
    CLEANUP,
    CONNECTED_MACHINES,
    DELETED,
    LABELLED_NODES,
    MACHINE,
    MACHINES_OF_NODE,
    MAINTENANCE,
    MAINTENANCE_APPROVED,
    NODE_CLUSTER,
    NODE_MACHINE,
    NODE_NAMESPACE,
    MachineRow,
    Workload,
    machine_key,
    workload_of,
)

DECIDER = "machine-orphans"
# While a Machine is moved between management clusters, it is missing for a moment, and its Node looks orphaned.
ORPHANED_FOR = timedelta(seconds=20)
# A connection that no Machine needs is closed after this time.
LINGER_FOR = timedelta(seconds=45)
# The owner of a workload cluster can label every Node. A look at one takes about 20 µs, so the number of looks is
# bounded.
LOOKED_AT_ONCE = 500


def decide(key: Key, view: View, now: datetime) -> Decision:
    """Decide about one connection: remove labels of orphaned Nodes, and keep it open long enough for that."""
    connection = view.get(key, Connection)
    if connection is None or not key.cluster or view.listing("Node", key.cluster) is not Listing.LISTED:
        return NOTHING
    if view.listing(MACHINE) is not Listing.LISTED:
        return NOTHING
    workload = workload_of(key.cluster)
    if is_cluster_paused(view, workload):
        return NOTHING
    since = _since(view, workload, now)
    if since is not None and now >= since + LINGER_FOR:
        return NOTHING
    ends_at = since + LINGER_FOR if since else None
    labelled = view.rows(LABELLED_NODES, True, NodeRow, key.cluster)[:LOOKED_AT_ONCE]
    orphans = [node for node in labelled if _is_orphan(view, workload, node)]
    seen = {node.key: _seen(view, node, now) for node in orphans}
    due = [node for node in orphans if now >= seen[node.key] + ORPHANED_FOR]
    let_go = [node for node in labelled if _is_let_go(view, workload, node)]
    due += let_go
    steps: tuple[Step, ...] = (tuple(label for node in due for label in _cleared(view, node)),) if due else ()
    young = [at + ORPHANED_FOR for at in seen.values() if now < at + ORPHANED_FOR]
    marks = [Value(key=_place(node), value=at) for node, at in seen.items()]
    if since is not None:
        marks.append(Value(key=_unwanted(workload), value=since))
    # The clean-up that the Machine could not complete is tried once more before the connection is closed.
    worth = bool(orphans) or (bool(let_go) and connection.state in WORKS)
    keeps = (Source(key.cluster, "Node", node_keep(options_of(view)), connection.access),) if worth else ()
    return Decision(actions=steps, until=earliest(ends_at, *young), marks=tuple(marks), sources=keeps)


def _is_orphan(view: View, workload: Workload, node: NodeRow) -> bool:
    """Whether no Machine names the Node.

    Its annotations must name this cluster, because two connections that lead to the same cluster would undo each
    other's labels.
    """
    named = (node.annotations.get(NODE_NAMESPACE), node.annotations.get(NODE_CLUSTER))
    if named != workload or view.rows(MACHINES_OF_NODE, (workload, node.key.name), MachineRow):
        return False
    return not _is_awaited(view, workload, node)


def _is_awaited(view: View, workload: Workload, node: NodeRow) -> bool:
    """Whether the Node's Machine exists but does not name a Node yet, as after a move to another management cluster.

    The labels stay until it does, or a maintenance in progress would seem to be over. It is safe to believe the Node's
    annotation in this, because then nothing changes.
    """
    name = node.annotations.get(NODE_MACHINE)
    machine = view.get(machine_key(workload.namespace, name), MachineRow) if name else None
    return machine is not None and machine.enabled and not machine.node and machine.workload == workload


def _is_let_go(view: View, workload: Workload, node: NodeRow) -> bool:
    """Whether the Node's Machines exist but are not enabled and have nothing left to clean up themselves."""
    machines = view.rows(MACHINES_OF_NODE, (workload, node.key.name), MachineRow)
    return bool(machines) and not any(
        machine.enabled or machine.hooked or CLEANUP in machine.annotations or is_paused(view, machine)
        for machine in machines
    )


def _cleared(view: View, node: NodeRow) -> tuple[Label, ...]:
    names = [DELETED, MAINTENANCE]
    if options_of(view).approval_hygiene and MAINTENANCE in node.labels:
        names.append(MAINTENANCE_APPROVED)
    return tuple(Label(node.key, name, None) for name in names if name in node.labels)


def _since(view: View, workload: Workload, now: datetime) -> datetime | None:
    """Return since when no Machine needs the cluster; None if one does."""
    if view.at_least(CONNECTED_MACHINES, workload, 1):
        return None
    row = view.recall(_unwanted(workload), Value)
    return row.value if row is not None and isinstance(row.value, datetime) else now


def _seen(view: View, node: NodeRow, now: datetime) -> datetime:
    row = view.recall(_place(node.key), Value)
    return row.value if row is not None and isinstance(row.value, datetime) else now


def _place(node: Key) -> Key:
    return Key(node.cluster, MARK, DECIDER, f"orphan {node.name}")


def _unwanted(workload: Workload) -> Key:
    return Key(workload.cluster, MARK, DECIDER, "unwanted")
