"""One-line builders of rows of the clusterapi surface:

Machines, Nodes, hosts and kubeconfigs; and how to ask its deciders.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import kind_of_one
from haulout.cluster.rows import Connection, NodeRow, ObjectRow, Row, Value
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import CONFIG, FactDemand, View
from haulout.core.action import Action, Annotate, Label, Measure, Tell
from haulout.core.decision import Decider, Decision
from haulout.surfaces.clusterapi.decide import NODE_PROBE
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.surface import DECIDERS
from haulout.surfaces.clusterapi.wire import (
    CLUSTER,
    CLUSTER_LABEL,
    DELETED,
    DELETION_APPROVED,
    ENABLED,
    HOOK,
    HOST,
    LIMITED_SECRET,
    MACHINE,
    MAINTENANCE,
    MAINTENANCE_APPROVED,
    MAINTENANCE_WISHED,
    NODE_CLUSTER,
    NODE_MACHINE,
    NODE_NAMESPACE,
    ORIGINAL,
    REBOOT,
    REQUEST,
    SECRET,
    STATE,
    SURFACE,
    Access,
    ClusterRow,
    HostRow,
    MachineRow,
    SecretRow,
    Workload,
    machine_key,
)
from tests.build.rows import START, at

ALPHA = Workload("fleet", "alpha")
FAR = ALPHA.cluster
M, N, H = machine_key("fleet", "m"), node_key("n", FAR), Key("", HOST, "fleet", "h")
KUBECONFIG = kind_of_one(SECRET, "fleet", "alpha-kubeconfig")
ACCESS = Access("Secret fleet/alpha-kubeconfig", b"kubeconfig")
MACHINES, RELEASE, ORPHANS, HOSTS = DECIDERS
# Short names of annotations in the texts below.
SHORT = {HOOK: "hook", REBOOT: "reboot"}


def _given(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def machine(
    name: str = "m",
    *,
    node: str = "n",
    cluster: str = "alpha",
    namespace: str = "fleet",
    enabled: str | None = "true",
    request: str | None = None,
    deleting: float | None = None,
    hook: str | None = None,
    provider: str = "",
    version: int = 1,
    notes: Mapping[str, str] = {},
    infrastructure: str = "",
) -> MachineRow:
    """Return a Machine. `deleting`: since when, in seconds. `notes`: annotations besides the hook."""
    return MachineRow(
        key=machine_key(namespace, name),
        uid=f"uid-{name}",
        version=version,
        labels=_given({ENABLED: enabled, REQUEST: request, CLUSTER_LABEL: cluster}),
        annotations=_given({HOOK: hook, **notes}),
        deleting_at=None if deleting is None else at(deleting),
        cluster_name=cluster,
        node=node,
        provider_id=provider,
        infrastructure=infrastructure,
    )


def hooked(**more: Any) -> MachineRow:
    return machine(hook=ORIGINAL, **more)


def node(
    name: str = "n",
    *,
    state: str | None = "operational",
    cluster: str = FAR,
    deleted: str | None = None,
    maintenance: str | None = None,
    approve_deletion: str | None = None,
    approve_maintenance: str | None = None,
    wish: str | None = None,
    claims: Workload | None = None,
    owner: str = "",
    version: int = 1,
) -> NodeRow:
    """Return a Node. `claims`: the cluster that its annotations name; `owner`: the Machine that they name."""
    labels = {STATE: state, DELETED: deleted, MAINTENANCE: maintenance, MAINTENANCE_WISHED: wish}
    labels |= {DELETION_APPROVED: approve_deletion, MAINTENANCE_APPROVED: approve_maintenance}
    notes = {NODE_NAMESPACE: claims.namespace, NODE_CLUSTER: claims.name} if claims else {}
    notes |= {NODE_MACHINE: owner} if owner else {}
    key = node_key(name, cluster)
    return NodeRow(key=key, uid=f"uid-{name}", version=version, labels=_given(labels), annotations=notes)


def host(
    name: str = "h",
    *,
    reboot: str | None = None,
    consumer: str = "",
    consumer_namespace: str = "",
    stays_on: bool = False,
) -> HostRow:
    return HostRow(
        key=Key("", HOST, "fleet", name),
        uid=f"uid-{name}",
        version=1,
        annotations=_given({REBOOT: reboot}),
        consumer=consumer,
        consumer_namespace=consumer_namespace,
        stays_on=stays_on,
    )


def cluster(name: str = "alpha", *, paused: bool = False, notes: Mapping[str, str] = {}) -> ClusterRow:
    key = Key("", CLUSTER, "fleet", name)
    return ClusterRow(key=key, uid=f"uid-{name}", version=1, paused=paused, annotations=notes)


def secret(value: bytes | None = b"kubeconfig", workload: Workload = ALPHA) -> SecretRow:
    name = f"{workload.name}-kubeconfig"
    key = Key("", kind_of_one(SECRET, workload.namespace, name), workload.namespace, name)
    return SecretRow(key=key, uid=f"uid-{name}", version=1, value=value)


def connection(
    state: str = Connection.FINE, *, since: float = -3600, error: str = "", workload: Workload = ALPHA
) -> Connection:
    access = Access(f"Secret {workload.namespace}/{workload.name}-kubeconfig", b"kubeconfig")
    key = Key(workload.cluster, Connection.KIND, "", "")
    return Connection(key=key, state=state, since=at(since), error=error, access=access)


def seen_gone(name: str = "n", *, state: str = "fresh", value: str = "gone") -> Value:
    """Return the fact that a look at the workload cluster has found about a Node."""
    return Value(key=FactDemand(NODE_PROBE, (FAR, name), timedelta(0)).key, state=state, value=value)


def picture(
    *rows: Row,
    options: Options | None = None,
    waiting: Iterable[tuple[str, str]] = (),
    unreadable: Iterable[tuple[str, str]] = (),
) -> Store:
    """Return a store in which all tables of the management cluster and of cluster alpha are listed.

    `waiting`, `unreadable`: the tables that are not.
    """
    store = Store()
    store.write(Value(key=Key("", CONFIG, "", SURFACE), value=options or Options()))
    places = {("", MACHINE), ("", CLUSTER), ("", HOST), ("", LIMITED_SECRET), ("", KUBECONFIG), (FAR, "Node")}
    places |= {row.key[:2] for row in rows if isinstance(row, ObjectRow)}
    for place in places:
        store.begin_list(*place)
    for row in rows:
        if isinstance(row, ObjectRow):
            store.put(row)
        else:
            store.write(row)
    for place in places:
        store.end_list(*place, 1)
    for listing, some in ((Listing.WAITING, waiting), (Listing.UNREADABLE, unreadable)):
        for place in some:
            store.set_listing(*place, listing)
    return store


def linked(*rows: Row, options: Options | None = None) -> Store:
    """Return a store with a kubeconfig and a working connection to cluster alpha."""
    return picture(secret(), connection(), *rows, options=options)


def ask(decider: Decider, store: Store, now: datetime = START, key: Key = M) -> Decision:
    """Ask a decider as the loop does: its marks are in the store when it is asked again."""
    decision = decider.decide(key, View(store), now)
    for mark in decision.marks:
        store.write(mark)
    return decision


def short(action: Action) -> str:
    match action:
        case Label() | Annotate():
            name = SHORT.get(action.name, action.name.rsplit("/", 1)[-1])
            return (
                f"{action.target.name}: -{name}"
                if action.value is None
                else f"{action.target.name}: {name}={action.value}"
            )
        case Tell():
            return f"{'Warning' if action.warning else 'Normal'} {action.reason} on {action.regarding.name}"
        case Measure():
            return f"{action.labels[0][1]} took since {action.since:%H:%M:%S}"
        case _:
            raise AssertionError(action)


def steps(decision: Decision) -> list[list[str]]:
    return [[short(action) for action in step] for step in decision.actions]


def edits(decision: Decision) -> list[str]:
    """Return the edits of a decision, in order."""
    return [short(action) for step in decision.actions for action in step if isinstance(action, Label | Annotate)]


def told(decision: Decision) -> list[str]:
    return [short(action) for step in decision.actions for action in step if isinstance(action, Tell)]
