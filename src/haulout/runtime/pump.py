"""From reflectors into the store: which kinds are watched in which clusters, opened and closed while running."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from haulout.base.clock import Clock
from haulout.cluster.project import RESOURCES, Keep, Projector, Resource, version_number
from haulout.cluster.store import Listing, Store
from haulout.kube.reflector import Reflector
from haulout.kube.transport import Transport
from haulout.runtime.metrics import Metrics
from haulout.runtime.outages import Interruptions, Outage

log = logging.getLogger(__name__)

UNREADABLE_AFTER = 60.0


class TableSink:
    """One kind of one cluster. Told by a reflector, it keeps a table of the store and says when something came in."""

    def __init__(
        self,
        store: Store,
        projector: Projector,
        clock: Clock,
        metrics: Metrics,
        on_change: Callable[[], None],
        on_outage: Callable[[Outage], None] = lambda outage: None,
    ) -> None:
        self._store = store
        self._projector = projector
        self._clock = clock
        self._metrics = metrics
        self._on_change = on_change
        self._on_outage = on_outage
        self._kind = projector.resource.kind
        self._cluster = projector.cluster
        self._interruptions = Interruptions(self._cluster, self._kind, clock)
        self._troubled_at: float | None = None
        self._said = ""
        self._broken: set[str] = set()

    def begin(self) -> None:
        self._store.begin_list(self._cluster, self._kind)

    def put(self, obj: Any) -> None:
        self._store.put(self._projector.row(obj))
        self._on_change()

    def delete(self, obj: Any) -> None:
        self._store.remove(self._projector.key(obj.metadata), version_number(obj.metadata.resource_version))
        self._on_change()

    def listed(self, version: str, *, future: bool) -> None:
        self._store.end_list(self._cluster, self._kind, version_number(version), future=future)
        log.info("listed", extra={"kind": self._kind, "cluster": self._cluster, "version": version})
        self.fine()
        self._on_change()

    def broken(self, name: str, why: str) -> None:
        # Said once an object: a broken one comes again with every list.
        if name not in self._broken:
            self._broken.add(name)
            log.error(
                "object cannot be read and is left alone", extra={"kind": self._kind, "object": name, "error": why}
            )
        self._metrics.count("haulout_undecodable_objects", kind=self._kind)

    def trouble(self, code: str, why: str) -> None:
        now = self._clock.elapsed()
        self._troubled_at = now if self._troubled_at is None else self._troubled_at
        self._interruptions.trouble(code, why)
        # Said once, and anew when the cause is another: what cut a watch off need not be what keeps it from going on.
        if code != self._said:
            self._said = code
            log.warning(
                "watch interrupted", extra={"kind": self._kind, "cluster": self._cluster, "code": code, "error": why}
            )
        self._metrics.count("haulout_watch_troubles", kind=self._kind, code=code)
        listing = self._store.table(self._cluster, self._kind).listing
        lasting = now - self._troubled_at >= UNREADABLE_AFTER and listing is not Listing.LISTED
        if code == "unreadable" or lasting:
            self._store.set_listing(self._cluster, self._kind, Listing.UNREADABLE, why)
            self._on_change()

    def fine(self) -> None:
        if self._troubled_at is not None:
            self._troubled_at, self._said = None, ""
            log.info("watch restored", extra={"kind": self._kind, "cluster": self._cluster})
            if outage := self._interruptions.fine():
                self._on_outage(outage)
        if self._store.table(self._cluster, self._kind).listing is Listing.UNREADABLE:
            self._store.set_listing(self._cluster, self._kind, Listing.LISTED)
            self._on_change()


class Pump:
    """The open watches. Opening a kind anew with other fields kept lists it anew. `own_kinds` are the surfaces' own."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        metrics: Metrics,
        on_change: Callable[[], None],
        own_kinds: Iterable[Resource] = (),
        on_outage: Callable[[Outage], None] = lambda outage: None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._metrics = metrics
        self._on_change = on_change
        self._on_outage = on_outage
        self._open: dict[tuple[str, str], tuple[asyncio.Task[None], Keep]] = {}
        self._projectors: dict[tuple[str, str], Projector] = {}
        self._resources = {**RESOURCES, **{resource.kind: resource for resource in own_kinds}}

    def resource(self, kind: str) -> Resource:
        name, _, namespace = kind.partition("/")
        return self._resources[name].within(namespace) if namespace else self._resources[name]

    def projector(self, cluster: str, kind: str) -> Projector:
        """How objects of this kind become rows there, watched or not."""
        found = self._projectors.get((cluster, kind))
        return found or Projector(self.resource(kind), cluster, Keep())

    def open(self, group: asyncio.TaskGroup, transport: Transport, cluster: str, kind: str, keep: Keep) -> None:
        standing = self._open.get((cluster, kind))
        if standing is not None:
            if standing[1] == keep:
                return
            self.close(cluster, kind)
        projector = self._projectors[cluster, kind] = Projector(self.resource(kind), cluster, keep)
        sink = TableSink(self._store, projector, self._clock, self._metrics, self._on_change, self._on_outage)
        reflector: Reflector[Any] = Reflector(
            transport, projector.resource.path, projector.resource.model, sink, self._clock
        )
        task = group.create_task(_forever(reflector), name=f"watch {cluster}/{kind}")
        self._open[cluster, kind] = (task, keep)

    def close(self, cluster: str, kind: str) -> None:
        task, _ = self._open.pop((cluster, kind))
        task.cancel()
        del self._projectors[cluster, kind]
        self._store.close(cluster, kind)
        self._on_change()

    def close_all(self) -> None:
        """At the end of the process: the watches stop, the rows do not matter any more."""
        for task, _ in self._open.values():
            task.cancel()

    def opened(self) -> list[tuple[str, str]]:
        return list(self._open)


async def _forever(reflector: Reflector[Any]) -> None:
    await reflector.run()
