"""Watches what surfaces always need and what decisions ask for, in any number of clusters, for as long as they do."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Hashable

import msgspec

from haulout.base.clock import Clock
from haulout.core.decision import Source
from haulout.kube.errors import KubeError
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.loop import Loop
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Sender

log = logging.getLogger(__name__)

Connect = Callable[[Hashable], Transport]


def _nowhere(access: Hashable) -> Transport:
    raise KubeError("no surface of this process brings other clusters")


class Sources:
    """`connect` makes a transport from a source's `access`: when that changes, the cluster is opened anew."""

    def __init__(
        self,
        loop: Loop,
        pump: Pump,
        sender: Sender,
        clock: Clock,
        always: Callable[[], set[Source]],
        connect: Connect = _nowhere,
    ) -> None:
        self._loop = loop
        self._pump = pump
        self._sender = sender
        self._clock = clock
        self._always = always
        self._connect = connect
        self._clusters: dict[str, tuple[Hashable, Transport]] = {}
        self._refused: dict[str, Hashable] = {}
        self._last: set[Source] = set()

    def add_home(self, transport: Transport, writer: Writer) -> None:
        self._clusters[""] = (None, transport)
        self._sender.writers[""] = writer

    def follow(self, group: asyncio.TaskGroup) -> None:
        """Opens and closes what has changed since the last call."""
        wanted = _merged(self._always() | self._loop.sources())
        if wanted == self._last:
            return
        self._last = wanted
        access = {source.cluster: source.access for source in wanted}
        for cluster in [name for name in self._clusters if name and access.get(name) != self._clusters[name][0]]:
            self._close(cluster, group)
        for cluster, kind in self._pump.opened():
            if not any((source.cluster, source.kind) == (cluster, kind) for source in wanted):
                self._pump.close(cluster, kind)
        for source in sorted(wanted, key=lambda source: (source.cluster, source.kind)):
            transport = self._transport(source)
            if transport is not None:
                self._pump.open(group, transport, source.cluster, source.kind, source.keep)

    def stop(self) -> None:
        self._pump.close_all()

    def _transport(self, source: Source) -> Transport | None:
        known = self._clusters.get(source.cluster)
        if known is not None:
            return known[1]
        if self._refused.get(source.cluster) == source.access:
            return None
        try:
            transport = self._connect(source.access)
        except KubeError as error:
            # Tried again when the access changes: as it stands, it can never work.
            self._refused[source.cluster] = source.access
            log.warning("cluster cannot be opened", extra={"cluster": source.cluster, "error": str(error)})
            return None
        self._refused.pop(source.cluster, None)
        self._clusters[source.cluster] = (source.access, transport)
        self._sender.writers[source.cluster] = Writer(transport, self._clock)
        return transport

    def _close(self, cluster: str, group: asyncio.TaskGroup) -> None:
        for opened, kind in self._pump.opened():
            if opened == cluster:
                self._pump.close(opened, kind)
        _, transport = self._clusters.pop(cluster)
        del self._sender.writers[cluster]
        group.create_task(transport.close(), name=f"close {cluster}")


def _merged(sources: set[Source]) -> set[Source]:
    """One watch a kind and cluster, which keeps what any of those who want it reads."""
    found: dict[tuple[str, str], Source] = {}
    for source in sorted(sources, key=repr):
        place = (source.cluster, source.kind)
        known = found.get(place)
        found[place] = msgspec.structs.replace(source, keep=source.keep | known.keep) if known else source
    return set(found.values())
