"""Watches what surfaces always need and what decisions ask for, in any number of clusters, for as long as they do."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Callable, Hashable, Set

import msgspec

from haulout.base.clock import Clock
from haulout.cluster.rows import Connection
from haulout.core.decision import Source
from haulout.kube.errors import ConfigRefused, KubeError
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.loop import Loop
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Sender

log = logging.getLogger(__name__)

# A write to another cluster that is not answered for so long is given up.
LONGEST_AWAY = 10.0

Connect = Callable[[Hashable], Transport]


def _nowhere(access: Hashable) -> Transport:
    raise KubeError("no surface of this process brings other clusters")


class _Way(msgspec.Struct):
    """A way to a cluster. `waits`: the kinds that have not been seen whole on it yet."""

    access: Hashable
    transport: Transport
    waits: set[str]


class Sources:
    """`connect` makes a transport from a source's `access`.

    When that changes, the old way is used until everything has been seen on the new one.
    """

    def __init__(
        self,
        loop: Loop,
        pump: Pump,
        sender: Sender,
        clock: Clock,
        always: Callable[[], Set[Source]],
        connect: Connect = _nowhere,
    ) -> None:
        self._loop = loop
        self._pump = pump
        self._sender = sender
        self._clock = clock
        self._always = always
        self._connect = connect
        self._ways: dict[str, _Way] = {}
        self._coming: dict[str, _Way] = {}
        self._refused: dict[str, Hashable] = {}
        self._last: tuple[Set[Source], Set[Source]] | None = None

    def add_home(self, transport: Transport, writer: Writer) -> None:
        self._ways[""] = _Way(None, transport, set())
        self._sender.writers[""] = writer

    def transport(self, cluster: str) -> Transport | None:
        way = self._ways.get(cluster)
        return way.transport if way else None

    def follow(self, group: asyncio.TaskGroup) -> None:
        """Opens and closes what has changed since the last call."""
        asked = (self._always(), self._loop.sources())
        if asked == self._last:
            return
        self._last = asked
        wanted = self._merged(asked[0] | asked[1])
        clusters, places = {source.cluster for source in wanted}, {(source.cluster, source.kind) for source in wanted}
        for cluster in [name for name in {*self._ways, *self._refused} if name and name not in clusters]:
            self._close(cluster, group)
        for cluster, kind in self._pump.opened():
            if (cluster, kind) not in places:
                self._pump.close(cluster, kind)
        for source in sorted(wanted, key=lambda source: (source.cluster, source.kind)):
            way = self._ways.get(source.cluster) or self._opened(source)
            if way is not None:
                self._pump.open(group, way.transport, source.cluster, source.kind, source.keep)
                if way.access != source.access:
                    self._hand_over(source, group)
                elif source.cluster:
                    self._keep(source.cluster, group)
        # How one gets on with clusters is written here, after everybody has been asked.
        self._pump.changed()

    def stop(self) -> None:
        self._pump.close_all()

    async def close(self) -> None:
        """After that, the ways to other clusters are left; the one home is its maker's."""
        for way in (*(way for cluster, way in self._ways.items() if cluster), *self._coming.values()):
            await way.transport.close()

    def _opened(self, source: Source) -> _Way | None:
        transport = self._transport(source)
        if transport is None:
            return None
        way = self._ways[source.cluster] = _Way(source.access, transport, set())
        self._sender.writers[source.cluster] = self._writer(transport)
        self._pump.connections.opened(source.cluster, source.access)
        return way

    def _hand_over(self, source: Source, group: asyncio.TaskGroup) -> None:
        cluster = source.cluster
        way = self._coming.get(cluster)
        if way is None or way.access != source.access:
            self._stay(cluster, group)
            transport = self._transport(source)
            if transport is None:
                return
            way = self._coming[cluster] = _Way(source.access, transport, set())
        if source.kind not in way.waits:
            way.waits.add(source.kind)
            seen = lambda: self._seen(cluster, source.kind, group)  # noqa: E731
            self._pump.take_over(group, way.transport, cluster, source.kind, seen)

    def _seen(self, cluster: str, kind: str, group: asyncio.TaskGroup) -> None:
        """A kind has been seen whole on the new way: once all have, the old one is given up."""
        way = self._coming[cluster]
        way.waits.discard(kind)
        if way.waits:
            return
        old, self._ways[cluster] = self._ways[cluster], self._coming.pop(cluster)
        self._sender.writers[cluster] = self._writer(way.transport)
        self._pump.connections.rotated(cluster, way.access)
        group.create_task(old.transport.close(), name=f"close {cluster}")

    def _keep(self, cluster: str, group: asyncio.TaskGroup) -> None:
        """What is used is what is wanted, again: nobody comes in its place, and what was refused meanwhile is forgotten."""
        self._stay(cluster, group)
        self._accept(cluster)

    def _accept(self, cluster: str) -> None:
        if self._refused.pop(cluster, None) is not None:
            self._pump.connections.accepted(cluster)

    def _stay(self, cluster: str, group: asyncio.TaskGroup) -> None:
        way = self._coming.pop(cluster, None)
        if way is not None:
            self._pump.stay(cluster)
            self._pump.connections.accepted(cluster)
            group.create_task(way.transport.close(), name=f"close {cluster}")

    def _transport(self, source: Source) -> Transport | None:
        if self._refused.get(source.cluster) == source.access:
            return None
        try:
            transport = self._connect(source.access)
        except KubeError as error:
            state = Connection.REJECTED if isinstance(error, ConfigRefused) else Connection.INVALID
            self._refuse(source, state, str(error))
            return None
        except Exception as error:  # noqa: BLE001 - what anybody may have written must not end the process
            # What an error says of it may be a secret.
            place = traceback.extract_tb(error.__traceback__)[-1]
            name = type(error).__name__
            log.error("access breaks its reader", extra={"error": name, "at": f"{place.filename}:{place.lineno}"})
            self._refuse(source, Connection.INVALID, f"it cannot be used ({name})")
            return None
        self._accept(source.cluster)
        return transport

    def _refuse(self, source: Source, state: str, why: str) -> None:
        """Tried again when the access changes: as it stands, it can never work."""
        self._refused[source.cluster] = source.access
        log.warning("cluster cannot be opened", extra={"cluster": source.cluster, "error": why})
        self._pump.connections.refused(source.cluster, state, why)

    def _writer(self, transport: Transport) -> Writer:
        return Writer(transport, self._clock, longest=LONGEST_AWAY)

    def _close(self, cluster: str, group: asyncio.TaskGroup) -> None:
        self._refused.pop(cluster, None)
        self._stay(cluster, group)
        for opened, kind in self._pump.opened():
            if opened == cluster:
                self._pump.close(opened, kind)
        way = self._ways.pop(cluster, None)
        if way is not None:
            del self._sender.writers[cluster]
            group.create_task(way.transport.close(), name=f"close {cluster}")
        self._pump.connections.closed(cluster)

    def _merged(self, sources: Set[Source]) -> set[Source]:
        """One watch a kind and cluster, which keeps what any of those who want it reads.

        Of several accesses it is the one that is not used yet: not everybody has heard of it.
        """
        found: dict[tuple[str, str], Source] = {}
        for source in sorted(sources, key=repr):
            place = (source.cluster, source.kind)
            known = found.get(place)
            if known is None:
                found[place] = source
                continue
            way = self._ways.get(source.cluster)
            newer = known if way is not None and way.access == source.access else source
            found[place] = msgspec.structs.replace(newer, keep=source.keep | known.keep)
        return set(found.values())
