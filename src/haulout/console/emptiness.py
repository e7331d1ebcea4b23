"""Proves that the nodes which a maintenance holds are empty, each by one list of its pods after its cordon (K18).

The watches of the console may be late, and what they show is no proof. Only such a list lets the console say that a
machine is safe to work on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

import msgspec

from haulout.base.clock import Clock
from haulout.cluster.key import Key, node_key
from haulout.cluster.project import RESOURCES, Keep, Projector
from haulout.cluster.rows import NodeRow, PodRow
from haulout.cluster.store import Store
from haulout.cluster.view import NotListed, View
from haulout.core.drain.options import DRAINS_OF_NODE, POD_ANNOTATION, DrainOptions, DrainRow, drain_row
from haulout.core.drain.plan import selection_of
from haulout.kube.errors import KubeError
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport

AT_ONCE = 4
RETRY_FOR = 10.0


class _Proof(msgspec.Struct, frozen=True):
    """The answer about one cordon of one node. `asked_at`: when the list was sent, by the monotonic clock."""

    uid: str
    is_empty: bool
    asked_at: float


class Emptiness:
    """What is known about the emptiness of held nodes. A proof is void as soon as its node is uncordoned or replaced.

    `on_news`: called when a node has been proven empty.
    """

    def __init__(self, transport: Transport, clock: Clock, on_news: Callable[[], None]) -> None:
        self._transport = transport
        self._clock = clock
        self._on_news = on_news
        self._proofs: dict[str, _Proof] = {}
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._listed_at = 0

    async def answers(self, within: float) -> None:
        """Wait until the lists that are under way are answered, at most so many seconds."""
        if self._asking:
            await asyncio.wait(self._asking.values(), timeout=within)

    def proven(self) -> frozenset[str]:
        """Return the names of the nodes that have been proven empty."""
        return frozenset(name for name, proof in self._proofs.items() if proof.is_empty)

    def note_change(self, store: Store) -> None:
        """Drop the proofs of nodes that are not as they were when they were proven. Called after each change of a table."""
        table = store.table("", "Node")
        if table.version != self._listed_at:
            # Nodes were listed anew after a gap, in which one may have been uncordoned and cordoned again.
            self._listed_at = table.version
            self.forget()
        for name in [name for name, proof in self._proofs.items() if not _is_cordoned(store, name, proof.uid)]:
            del self._proofs[name]

    def forget(self) -> None:
        """Drop all proofs, and the answers to lists under way."""
        self._proofs.clear()
        for task in self._asking.values():
            task.cancel()
        self._asking.clear()

    def want(self, group: asyncio.TaskGroup, store: Store, names: Iterable[str]) -> None:
        """Prove those of the nodes that are cordoned and of which nothing is known yet; forget all others."""
        wanted = set(names)
        for name in [name for name in self._proofs if name not in wanted]:
            del self._proofs[name]
        for name in wanted - self._asking.keys():
            row, proof = store.row(node_key(name)), self._proofs.get(name)
            if not isinstance(row, NodeRow) or not row.unschedulable:
                continue
            if proof is None or (not proof.is_empty and self._clock.monotonic() - proof.asked_at > RETRY_FOR):
                self._asking[name] = group.create_task(self._prove(store, row), name=f"list pods of {name}")

    async def _prove(self, store: Store, node: NodeRow) -> None:
        name = node.key.name
        try:
            async with self._turns:
                asked_at = self._clock.monotonic()
                pods = await self._pods(name)
            if _is_cordoned(store, name, node.uid):
                self._proofs[name] = _Proof(node.uid, _is_empty(store, node.key, pods, self._clock), asked_at)
                self._on_news()
        except (KubeError, NotListed):
            self._proofs[name] = _Proof(node.uid, is_empty=False, asked_at=self._clock.monotonic())
        finally:
            self._asking.pop(name, None)

    async def _pods(self, node: str) -> list[PodRow]:
        pods = RESOURCES["Pod"]
        # Without a resourceVersion the list is consistent: it shows everything that was stored before it was sent.
        found = await read_list(self._transport, pods.path, pods.model, {"fieldSelector": f"spec.nodeName={node}"})
        projector = Projector(pods, "", Keep(frozenset({POD_ANNOTATION})))
        return [row for item in found if isinstance(row := projector.row(item), PodRow)]


def _is_cordoned(store: Store, name: str, uid: str) -> bool:
    row = store.row(node_key(name))
    return isinstance(row, NodeRow) and row.uid == uid and row.unschedulable


def _is_empty(store: Store, node: Key, pods: list[PodRow], clock: Clock) -> bool:
    """Whether none of these pods is one that a drain of the node waits for."""
    row = store.row(node)
    assert isinstance(row, NodeRow)
    view = View(store, explaining=True)
    return all(selection_of(view, drain, pods, row, clock.now()).is_clear for drain in _drains(store, node))


def _drains(store: Store, node: Key) -> list[DrainRow]:
    """Return the drains that judge whether the node is empty. Without one, that is a drain by kubectl's defaults.

    A drain of only some pods leaves the others running, so its selector does not count here.
    """
    found = [row for row in store.bucket(DRAINS_OF_NODE, "", node) if isinstance(row, DrainRow)]
    if not found:
        return [drain_row("console", node, node, options=DrainOptions())]
    return [msgspec.structs.replace(row, options=msgspec.structs.replace(row.options, selector=None)) for row in found]
