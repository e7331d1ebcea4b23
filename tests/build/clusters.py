"""Other clusters in this process: servers of Nodes, connections to them that can be blocked, and the shell that opens them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable, Mapping
from contextlib import asynccontextmanager
from datetime import datetime

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Connection, NodeRow, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import CONFIG, View
from haulout.core.decision import Decider, Decision, Source
from haulout.kernel.kernel import Kernel
from haulout.kube.excerpt import Shape
from haulout.kube.recorder import Recorder
from haulout.kube.transport import JSON, Reply, Transport
from haulout.kube.writer import Writer
from haulout.runtime.connections import Connections
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Sender
from haulout.runtime.sources import Sources
from tests.build.fakeapi import Server
from tests.build.objects import Objects
from tests.build.virtual import LoopClock

FAR = "far"
# The most Nodes that are read of another cluster.
MOST_NODES = 600


class Way:
    """A connection to a server, as `Transport`.

    `barred`: requests wait until `open`. `fault`: raised by every request.
    """

    def __init__(self, server: Server, *, barred: bool = False, fault: Exception | None = None) -> None:
        self.server = server
        self.fault = fault
        self.closed = self.misused = False
        self._open = asyncio.Event()
        if not barred:
            self._open.set()

    def open(self) -> None:
        self._open.set()

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
        await self._pass()
        return await self.server.request(method, path, query=query, timeout=timeout)

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        silence: float = 330.0,
        keep: Shape | None = None,
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        await self._pass()
        async with self.server.stream(path, query=query, silence=silence) as lines:
            yield lines

    async def close(self) -> None:
        self.closed = True

    async def _pass(self) -> None:
        await self._open.wait()
        self.misused |= self.closed
        if self.fault is not None:
            await asyncio.sleep(0.001)
            raise self.fault


def names(key: Key, view: View, now: datetime) -> Decision:
    """Ask for the Nodes of the clusters that the configuration of this name lists, each with its access."""
    row = view.get(key, Value)
    wanted = row.value if row is not None else {}
    assert isinstance(wanted, dict)
    return Decision(
        sources=tuple(Source(cluster, "Node", Keep(most=MOST_NODES), access) for cluster, access in wanted.items())
    )


class Clusters:
    """A kernel whose decisions ask for other clusters, with the shell that opens them.

    `ways`: for each access its connection, or the error that opening it raises. `more`: further deciders.
    """

    def __init__(self, *more: Decider, **ways: Way | Exception) -> None:
        self.ways: Mapping[Hashable, Way | Exception] = dict(ways.items())
        self.tried: list[Hashable] = []
        self.reconnects: list[tuple[str, str]] = []
        self.clock = LoopClock()
        self.kernel = Kernel([Decider("names", CONFIG, names), *more])
        self.store = self.kernel.store
        connections = Connections(self.store, self.clock, lambda *reconnect: self.reconnects.append(reconnect))
        metrics = self.metrics = Metrics()
        self.pump = Pump(self.store, self.clock, metrics, lambda: None, connections=connections)
        home = Objects()
        writer = Writer(home)
        self.sender = Sender(self.pump.kinds, Recorder(writer, self.clock), self.clock, metrics, host="host")
        self.sources = Sources(self.kernel.loop, self.pump, self.sender, self.clock, frozenset, self._connect)
        self.sources.add_home(Way(server()), writer)

    async def _connect(self, access: Hashable) -> Transport:
        self.tried.append(access)
        way = self.ways[access]
        if isinstance(way, Exception):
            raise way
        return way

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Clusters]:
        async with asyncio.TaskGroup() as group:
            self._group = group
            try:
                yield self
            finally:
                self.sources.stop()
        assert not any(isinstance(way, Way) and way.misused for way in self.ways.values()), "used after it was closed"

    async def want(self, access: Hashable = None, *, by: str = "one", cluster: str = FAR, seconds: float = 3.0) -> None:
        """Let the configuration `by` ask for the Nodes of a cluster by this access, or no longer ask for it."""
        wanted = {} if access is None else {cluster: access}
        self.store.write(Value(key=Key("", CONFIG, "", by), value=wanted))
        self.follow()
        await asyncio.sleep(seconds)

    def follow(self) -> None:
        self.kernel.run(self.clock.now())
        self.sources.follow(self._group)

    @property
    def connection(self) -> Connection | None:
        row = self.store.row(Key(FAR, Connection.KIND, "", ""))
        return row if isinstance(row, Connection) else None

    @property
    def state(self) -> str:
        return self.connection.state if self.connection else "closed"

    @property
    def listing(self) -> Listing:
        return self.store.table(FAR, "Node").listing

    @property
    def nodes(self) -> set[str]:
        return {key.name for key in self.store.keys(FAR, "Node")}

    def row(self, name: str) -> NodeRow:
        row = self.store.row(node_key(name, FAR))
        assert isinstance(row, NodeRow)
        return row


def server(*nodes: str, version: int = 100) -> Server:
    made = Server()
    made.version = made.oldest = version
    for name in nodes:
        made.put(name)
    return made
