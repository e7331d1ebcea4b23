"""The reasons why a Machine waits."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from haulout.cluster.key import Key
from haulout.cluster.rows import NodeRow
from haulout.core.reason import Reason
from haulout.surfaces.clusterapi.link import Link
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.signals import is_overdue, signals
from haulout.surfaces.clusterapi.wire import (
    APPROVED,
    CLEANUP,
    DELETION_APPROVED,
    ENABLED,
    MAINTENANCE_APPROVED,
    PAUSED,
    REQUEST,
    REQUESTED,
    STATE,
    MachineRow,
)

# The code of the reason for what the Node itself waits for, which only the workload cluster knows.
ON_NODE = "on-node"
AT_REST = "at-rest"


def reasons(
    machine: MachineRow, way: Link, node: NodeRow | None, options: Options, now: datetime, *, paused: bool
) -> tuple[Reason, ...]:
    """Return which signal is missing, and whether on the Machine or on its Node."""
    key, cluster = machine.key, way.workload.cluster
    problems = tuple(_problems(key, way))
    if paused:
        what = "the Machine" if PAUSED in machine.annotations else f"Cluster {cluster}"
        act = "unpause the Machine" if PAUSED in machine.annotations else f"unpause Cluster {cluster}"
        return (Reason("paused", key, f"{what} is paused: nothing is written until that ends", act=act),)
    if not machine.enabled:
        return (not_enabled(machine, *problems),)
    if not machine.node:
        text = "Cluster API has not said yet which Node is its own (status.nodeRef)"
        return (Reason("no-node", key, text), *problems)
    if problems:
        return problems
    if not way.ready:
        return (Reason("connecting", key, f"the Nodes of workload cluster {cluster} are not known yet"),)
    if node is None:
        text = f"Node {machine.node} is not in workload cluster {cluster}"
        if machine.deleting_at is not None:
            text = (
                f"{text}: its deletion {'will not wait for it for long' if machine.hooked else 'does not wait for it'}"
            )
        return (Reason("node-missing", key, text),)
    return tuple(_signals(machine, node, options, now))


def _problems(key: Key, way: Link) -> Iterator[Reason]:
    if way.problem is not None:
        yield Reason("unreachable", key, f"{way.text}{_since(way.since)}", act=_mend(way))


def _signals(machine: MachineRow, node: NodeRow, options: Options, now: datetime) -> Iterator[Reason]:
    current = signals(machine, node, options)
    key, name = machine.key, node.key.name
    if not current.managed:
        text = f"Node {name} has no label {STATE}: no maintenance controller looks after it"
        yield Reason("not-managed", key, text, act=f"have a maintenance controller look after Node {name}")
        return
    state = node.labels[STATE]
    waits = Reason(ON_NODE, node.key, f"Node {name} is {state or 'in no state'} there")
    if not current.deleting and current.request is None:
        would = f"would wait for Node {name}"
        if current.deletion_approved:
            would = f"would not wait: Node {name} says {DELETION_APPROVED} already"
        yield Reason(AT_REST, key, f"no maintenance is requested; its deletion {would}")
    if current.deleting and not current.deletion_approved and is_overdue(machine, options, now):
        goes_on = "its hook is removed" if machine.hooked else "Cluster API goes on"
        yield Reason("deletion-overdue", key, f"its deletion was not approved in time: {goes_on}")
    elif current.deleting and not current.deletion_approved:
        text = f"its deletion waits for label {DELETION_APPROVED}=true on Node {name}{_since(machine.deleting_at)}"
        act = f"kubectl label node {name} {DELETION_APPROVED}=true (in the workload cluster)"
        yield Reason("deletion-not-approved", key, text, because=(waits,), act=act)
    if current.deleting and current.deletion_approved:
        yield Reason("deletion-approved", key, f"Node {name} is approved for deletion: Cluster API goes on")
    if current.request == REQUESTED and not current.maintenance_approved:
        text = f"its maintenance waits for label {MAINTENANCE_APPROVED}=true on Node {name}"
        act = f"kubectl label node {name} {MAINTENANCE_APPROVED}=true (in the workload cluster)"
        yield Reason("maintenance-not-approved", key, text, because=(waits,), act=act)
    if current.request == APPROVED:
        text = f"the Machine is in maintenance until its label {REQUEST} is removed"
        yield Reason("in-maintenance", key, text)
    elif current.request not in (None, REQUESTED):
        yield Reason("unknown-request", key, f"label {REQUEST} is {current.request!r}, which asks for nothing")


def not_enabled(machine: MachineRow, *because: Reason) -> Reason:
    if machine.hooked:
        text = "the Machine is not enabled any more: the labels of its Node are removed, then its hook"
        return Reason("cleaning", machine.key, text, because=because)
    if CLEANUP in machine.annotations:
        since = f"annotation {CLEANUP} of {machine.annotations[CLEANUP]}"
        text = f"the Machine is not enabled any more: the labels of Node {machine.node} are still to be removed, for ten minutes at most ({since})"
        return Reason("cleaning", machine.key, text, because=because)
    return Reason("not-enabled", machine.key, f"the Machine is not enabled: label {ENABLED} is not true")


def _mend(way: Link) -> str:
    assert way.problem is not None
    if way.denied:
        return f"put a kubeconfig that may get, list, watch and patch nodes into {way.secret}"
    return {
        "KubeconfigUnavailable": f"put a kubeconfig into {way.secret}",
        "KubeconfigRejected": f"put certificates and tokens themselves into {way.secret}, no files and no programs",
        "WorkloadClusterUnreachable": f"see that the API server of {way.workload.cluster} answers from here",
    }[way.problem.value]


def _since(instant: datetime | None) -> str:
    return f" (since {instant:%Y-%m-%d %H:%M:%S} UTC)" if instant else ""
