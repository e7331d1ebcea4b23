"""What an act that takes a node out of service disturbs: pods that have to move, single replicas, closed budgets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from haulout.acts.caller import Caller
from haulout.acts.prepare import FoundObject
from haulout.cluster.key import Key, node_key
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.rows import PodRow, WorkloadRow
from haulout.cluster.store import Listing, Store
from haulout.cluster.view import View
from haulout.core.act import Act
from haulout.core.drain.options import DrainOptions, drain_row
from haulout.core.drain.preview import foresee
from haulout.core.drain.progress import PodStanding, Standing, progress
from haulout.kube.errors import UNFIT, KubeError
from haulout.kube.listing import read_list
from haulout.model.node import Node

# What all maintenances evict: every pod but those of DaemonSets.
_OPTIONS = DrainOptions(force=True, ignore_daemonsets=True, delete_local_data=True, any_daemonset=True)
_REPLICATED = ("ReplicaSet", "StatefulSet")
# A node has a few hundred pods at most. More workloads than this are not asked for their replicas.
MOST_WORKLOADS, MOST_NAMED = 200, 5


class Impact(msgspec.Struct, frozen=True):
    """What a drain of a node would disturb now. Pods and workloads are named as "namespace/name".

    `pods`: those that have to leave. `single`: workloads with one replica, which is on the node.
    `blocked`: pods that cannot leave now, by the reason.
    `unread`: the resources that the person may not list, so that the rest is not complete.
    """

    pods: tuple[str, ...] = ()
    single: tuple[str, ...] = ()
    blocked: Mapping[str, tuple[str, ...]] = {}
    unread: tuple[str, ...] = ()

    def sentences(self, node: str) -> tuple[str, ...]:
        found = [f"{_pods(len(self.pods))} on node {node} will be evicted"] if self.pods else []
        found += [f"{', '.join(_some(self.single))}: the only replica is on this node"] if self.single else []
        found += [f"{text}: {_pods(len(pods))} cannot leave now" for text, pods in self.blocked.items()]
        found += [f"{what} cannot be listed: what will be disturbed is not known" for what in self.unread]
        return tuple(found)


async def impact_warnings(caller: Caller, act: Act, subject: FoundObject) -> tuple[str, ...]:
    """Return a warning for each thing that an act disturbs; none if it leaves its node in service."""
    if not act.disturbs or subject.endpoint is None or subject.endpoint.kind != "Node":
        return ()
    name = str((subject.body.get("metadata") or {}).get("name", ""))
    return (await caller.remembered(f"impact of {name}", lambda: read_impact(caller, subject.body, name))).sentences(
        name
    )


async def read_impact(caller: Caller, node: Mapping[str, Any], name: str) -> Impact:
    """Read what a drain of a node would disturb, as far as the person may see it."""
    store, now = Store(), datetime.now(UTC)
    try:
        _take(store, "Node", [msgspec.convert(node, Node, strict=False)])
    except msgspec.ValidationError:
        return Impact(unread=("nodes",))
    store.set_listing("", "Node", Listing.LISTED)
    store.set_listing("", "DaemonSet", Listing.UNREADABLE)
    unread = [
        RESOURCES[kind].plural
        for kind, query in (("Pod", {"fieldSelector": f"spec.nodeName={name}"}), ("PodDisruptionBudget", {}))
        if not await _list(caller, store, kind, query)
    ]
    if "pods" in unread:
        return Impact(unread=tuple(unread))
    view = View(store, explaining=True)
    drain = drain_row("act", node_key(name), node_key(name), options=_OPTIONS, since=now)
    state = foresee(view, progress(view, drain, now), now)
    single = await _single_replicas(caller, [each.pod for each in state.pods])
    return Impact(
        pods=tuple(_named(each.pod.key) for each in state.pods),
        single=single,
        blocked=_blocked(state.pods),
        unread=tuple(unread),
    )


def _blocked(pods: Iterable[PodStanding]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for each in pods:
        if each.standing in (Standing.BUDGET, Standing.SEVERAL_BUDGETS):
            found[each.message] = (*found.get(each.message, ()), _named(each.pod.key))
    return found


async def _list(caller: Caller, store: Store, kind: str, query: Mapping[str, str]) -> bool:
    """List a kind into the store. Return False where it cannot be read."""
    resource = RESOURCES[kind]
    try:
        objects = await read_list(caller.transport, resource.path, resource.model, query)
    except KubeError as error:
        store.set_listing("", kind, Listing.UNREADABLE, str(error))
        return False
    _take(store, kind, objects)
    store.set_listing("", kind, Listing.LISTED)
    return True


def _take(store: Store, kind: str, objects: Iterable[Any]) -> None:
    projector = Projector(RESOURCES[kind], "", Keep())
    for each in objects:
        store.put(projector.row(each))


async def _single_replicas(caller: Caller, pods: Sequence[PodRow]) -> tuple[str, ...]:
    """Return the workloads of these pods that have one replica. One that cannot be read is left out."""
    owners = dict.fromkeys(
        Key("", pod.controller.kind, pod.key.namespace, pod.controller.name)
        for pod in pods
        if pod.controller is not None and pod.controller.kind in _REPLICATED
    )
    found = await asyncio.gather(*(_workload(caller, owner) for owner in list(owners)[:MOST_WORKLOADS]))
    return tuple(_workload_name(row) for row in found if row is not None and row.replicas == 1)


async def _workload(caller: Caller, owner: Key) -> WorkloadRow | None:
    resource = RESOURCES[owner.kind]
    try:
        reply = await caller.transport.request("GET", resource.object_path(owner))
        row = Projector(resource, "", Keep()).row(msgspec.json.decode(reply.body, type=resource.model))
    except (KubeError, *UNFIT):
        return None
    return row if isinstance(row, WorkloadRow) else None


def _workload_name(row: WorkloadRow) -> str:
    owner = next((each for each in row.owners if each.controller), None)
    kind, name = (owner.kind, owner.name) if owner is not None else (row.key.kind, row.key.name)
    return f"{kind} {row.key.namespace}/{name}"


def _named(key: Key) -> str:
    return f"{key.namespace}/{key.name}"


def _pods(number: int) -> str:
    return "1 pod" if number == 1 else f"{number} pods"


def _some(names: Sequence[str]) -> list[str]:
    rest = len(names) - MOST_NAMED
    return [*names[:MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])]
