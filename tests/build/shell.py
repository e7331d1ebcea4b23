"""A kernel with its driver, sender and writer on a virtual clock, against a few objects in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from random import Random
from typing import Any

import msgspec

from haulout.cluster.project import Keep, Projector
from haulout.core.decision import Decider
from haulout.kernel.kernel import Kernel
from haulout.kube.errors import ConnectionFailed
from haulout.kube.excerpt import Shape
from haulout.kube.lease import Election, Terms
from haulout.kube.recorder import Recorder
from haulout.kube.transport import JSON, Reply
from haulout.kube.writer import Writer
from haulout.model.node import Node
from haulout.runtime.driver import LONGEST_REQUEST, Driver
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Channel, Sender
from haulout.runtime.wake import Wake
from tests.build.objects import Objects
from tests.build.virtual import LoopClock

NODES = "/api/v1/nodes"


def node_path(name: str) -> str:
    return f"{NODES}/{name}"


def put_node(objects: Objects, name: str, **labels: str) -> None:
    known = objects.stored.get(node_path(name), {}).get("metadata", {})
    metadata = {"name": name, "uid": f"uid-{name}", **known, "labels": labels}
    objects.put(node_path(name), {"kind": "Node", "metadata": metadata})


class Via:
    """One replica's connection to the objects. `on_write` sees its writes. `cut` says which paths do not answer."""

    def __init__(self, objects: Objects, on_write: Callable[[str, float], None] = lambda path, timeout: None) -> None:
        self.objects, self.on_write = objects, on_write
        self.cut: Callable[[str], bool] = lambda path: False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
        accept: str = JSON,
        timeout: float = 30.0,
        keep: Shape | None = None,
    ) -> Reply:
        if method != "GET" and "/leases" not in path:
            self.on_write(path, timeout)
        if self.cut(path):
            await asyncio.sleep(0.01)
            raise ConnectionFailed("cut off")
        return await self.objects.request(
            method, path, query=query, body=body, content_type=content_type, accept=accept, timeout=timeout
        )

    def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    async def close(self) -> None: ...


class Shell:
    """A kernel with its shell.

    `lease`: its identity in the election, so that it acts only while it leads; empty: it leads.
    """

    def __init__(
        self,
        objects: Objects,
        *deciders: Decider,
        lease: str = "",
        terms: Terms | None = None,
        channels: Mapping[str, Channel] | None = None,
        surfaces: Mapping[str, str] | None = None,
        may_write_for: Callable[[], float | None] | None = None,
        charge: Callable[[str, float], None] = lambda cluster, seconds: None,
    ) -> None:
        self.objects, self.clock, self.metrics = objects, LoopClock(), Metrics()
        self.via = Via(objects, self._writes)
        self.kernel = Kernel(deciders)
        self.kernel.leading = not lease
        self.wake = Wake(self.kernel.loop)
        self.pump = Pump(self.kernel.store, self.clock, self.metrics, self.wake.stir)
        self.writer = Writer(self.via)
        recorder = Recorder(self.writer, self.clock)
        self.sender = Sender(
            self.pump.kinds, recorder, self.clock, self.metrics, host="host", channels=channels, surfaces=surfaces
        )
        self.sender.writers[""] = self.writer
        self.driver = Driver(
            self.kernel, self.sender, self.clock, self.metrics, self.wake, may_write_for or self.may_write_for, charge
        )
        self.election = (
            Election(self.via, self.clock, namespace="ns", name="l", identity=lease, terms=terms, random=Random(1))
            if lease
            else None
        )
        self.terms: list[str] = []
        # When each write was sent, its path, and its time-out.
        self.written: list[tuple[float, str, float]] = []
        self.on_write: Callable[[], None] = lambda: None

    def may_write_for(self) -> float | None:
        if self.election is None:
            return LONGEST_REQUEST
        until, ends, now = self.election.may_write_until(), self.election.lease_ends_at(), self.clock.monotonic()
        return min(LONGEST_REQUEST, ends - now) if until is not None and ends is not None and now < until else None

    def _writes(self, path: str, timeout: float) -> None:
        self.written.append((self.clock.monotonic(), path, timeout))
        self.on_write()

    def list(self) -> None:
        """List the Nodes into the store, as a reflector would."""
        projector = Projector(self.pump.kinds.resource("Node"), "", Keep())
        store = self.kernel.store
        store.begin_list("", "Node")
        versions = [0]
        for path, obj in self.objects.stored.items():
            if path.startswith(NODES):
                row = projector.row(_decoded(obj))
                versions.append(row.version)
                store.put(row)
        store.end_list("", "Node", max(versions))
        self.wake.poke()

    def gained(self) -> None:
        self.terms.append("gained")
        self.kernel.lead()
        self.wake.poke()

    def lost(self) -> None:
        self.terms.append("lost")
        self.kernel.follow()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Shell]:
        tasks = [asyncio.create_task(self.driver.run())]
        if self.election is not None:
            tasks.append(asyncio.create_task(self.election.run(self.gained, self.lost)))
        try:
            yield self
        finally:
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            for result in results:
                if isinstance(result, Exception):
                    raise result


def _decoded(obj: Any) -> Node:
    return msgspec.convert(obj, Node, strict=False)
