"""The connection of a Machine to its workload cluster: the kubeconfig, and whether the cluster answers."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from enum import Enum

import msgspec

from haulout.cluster.key import Key
from haulout.cluster.project import Keep, kind_of_one
from haulout.cluster.rows import Connection
from haulout.cluster.store import Listing
from haulout.cluster.view import View
from haulout.core.decision import Source
from haulout.surfaces.clusterapi.options import Options
from haulout.surfaces.clusterapi.wire import (
    LIMITED_KUBECONFIGS,
    LIMITED_SECRET,
    NODE_KEEP,
    SECRET,
    Access,
    SecretRow,
    Workload,
)

# Connection trouble that ends sooner gets no event.
PATIENCE_FOR = timedelta(seconds=5)
# The states of a connection that works. In the states of UNUSED a new kubeconfig cannot be used, and the old one stays
# in use.
WORKS = (Connection.FINE, *Connection.UNUSED)
# The reflector's codes for a server that answers but refuses.
DENIALS = ("unauthorized", "unreadable")
OVERFULL = "overfull"


class Problem(Enum):
    """Why a workload cluster cannot be used. The value is the reason of the event that reports it."""

    UNAVAILABLE = "KubeconfigUnavailable"
    REJECTED = "KubeconfigRejected"
    UNREACHABLE = "WorkloadClusterUnreachable"


class Link(msgspec.Struct, frozen=True):
    """The state of the connection to a Machine's workload cluster.

    `sources`: what has to be watched for the connection.
    `secret`: the Secret with the kubeconfig that is used.
    `ready`: the Nodes of the cluster are known.
    `stale`: the Nodes are known only as of the last time the cluster was reached.
    `denied`: the cluster answers, but refuses the user of the kubeconfig.
    `until`: when a problem that is still young will be reported.
    """

    workload: Workload
    sources: tuple[Source, ...]
    secret: str
    ready: bool = False
    stale: bool = False
    problem: Problem | None = None
    denied: bool = False
    text: str = ""
    since: datetime | None = None
    until: datetime | None = None


def link(view: View, workload: Workload, options: Options, now: datetime) -> Link:
    kind, usual = kind_of_one(SECRET, workload.namespace, f"{workload.name}-kubeconfig"), _usual(workload)
    sources, keep = (Source("", kind),), node_keep(options)
    connection = view.get(Key(workload.cluster, Connection.KIND, "", ""), Connection)
    if connection is not None and _runs_in_vain(connection.access, options):
        return Link(workload, sources, usual)
    secret, lack = _secret(view, workload, kind, options)
    if secret is not None and secret.value is not None:
        where = f"Secret {secret.key.namespace}/{secret.key.name}"
        access = Access(
            where,
            secret.value,
            options.allow_exec_kubeconfigs,
            options.allowed_server_ranges,
            options.allow_http_kubeconfigs,
        )
        return _reached(view, Link(workload, (*sources, Source(workload.cluster, "Node", keep, access)), where), now)
    known = Link(workload, sources, usual, problem=Problem.UNAVAILABLE if lack else None, text=lack)
    if connection is None or connection.access is None:
        return known
    # The deletion of a kubeconfig does not close the connection that was opened with it.
    ready = view.listing("Node", workload.cluster) is Listing.LISTED
    wanted = (*sources, Source(workload.cluster, "Node", keep, connection.access))
    return msgspec.structs.replace(known, sources=wanted, ready=ready, stale=connection.state not in WORKS)


def _usual(workload: Workload) -> str:
    return f"Secret {workload.namespace}/{workload.name}-kubeconfig"


def _runs_in_vain(access: Hashable, options: Options) -> bool:
    """Whether the open connection may run exec plugins that are no longer allowed.

    It is closed, so that they do not run again.
    """
    return isinstance(access, Access) and access.allow_exec and not options.allow_exec_kubeconfigs


def node_keep(options: Options) -> Keep:
    """Return what is kept of the Nodes of a workload cluster, and of how many Nodes at most."""
    return msgspec.structs.replace(NODE_KEEP, most=options.max_nodes_per_cluster)


def _secret(view: View, workload: Workload, kind: str, options: Options) -> tuple[SecretRow | None, str]:
    """Return the Secret to use, or the problem with it. Neither: it is not known yet."""
    if options.prefer_limited_kubeconfigs:
        if view.listing(LIMITED_SECRET) is Listing.WAITING:
            return None, ""
        if view.listing(LIMITED_SECRET) is Listing.LISTED:
            for limited in view.rows(LIMITED_KUBECONFIGS, workload, SecretRow):
                if limited.value is not None:
                    return limited, ""
    name, where = f"{workload.name}-kubeconfig", _usual(workload)
    match view.listing(kind):
        case Listing.WAITING:
            return None, ""
        case Listing.UNREADABLE:
            return None, f"{where} cannot be read: check the rights on secrets"
        case Listing.LISTED:
            row = view.get(Key("", kind, workload.namespace, name), SecretRow)
            if row is None:
                return None, f"{where} does not exist: it should hold the cluster's kubeconfig under the key value"
            lack = "" if row.value is not None else f"{where} has no key value: it should hold the cluster's kubeconfig"
            return row, lack


def _reached(view: View, known: Link, now: datetime) -> Link:
    cluster = known.workload.cluster
    connection = view.get(Key(cluster, Connection.KIND, "", ""), Connection)
    ready = view.listing("Node", cluster) is Listing.LISTED
    if connection is None or connection.state == Connection.FINE:
        return msgspec.structs.replace(known, ready=ready)
    text, since = connection.error, connection.since
    if connection.state in (Connection.REJECTED, Connection.INVALID):
        problem = Problem.REJECTED if connection.state == Connection.REJECTED else Problem.UNAVAILABLE
        # The last kubeconfig that could be used stays in use.
        return msgspec.structs.replace(known, ready=ready, problem=problem, text=text, since=since)
    known = msgspec.structs.replace(known, ready=ready, stale=connection.state not in WORKS, since=since)
    report_at = since + PATIENCE_FOR if since else None
    if report_at is not None and now < report_at:
        return msgspec.structs.replace(known, until=report_at)
    failed = "read" if connection.state == OVERFULL else "reached"
    text = (
        f"workload cluster {cluster} cannot be {failed}: {text}"
        if known.stale
        else f"workload cluster {cluster} cannot be reached with its new kubeconfig, the one before is used: {text}"
    )
    denied = connection.state in DENIALS
    return msgspec.structs.replace(known, problem=Problem.UNREACHABLE, denied=denied, text=text)
