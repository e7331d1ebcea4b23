"""Opens and closes the watches of kinds in clusters while the process runs. Their reflectors fill the store.

See decision 0068.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

import msgspec

from haulout.base.backoff import Backoff
from haulout.base.clock import Clock
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Keep, Projector, Resource
from haulout.cluster.store import Listing, Store
from haulout.kube.errors import Forbidden, KubeError, NotFound
from haulout.kube.reflector import Reflector, Tuning
from haulout.kube.sink import trouble_code
from haulout.kube.transport import Transport
from haulout.kube.turns import GRANT_EVERY, Allowance, Turns
from haulout.runtime.connections import Connections
from haulout.runtime.metrics import Metrics
from haulout.runtime.outages import Outage
from haulout.runtime.served_versions import serving
from haulout.runtime.tables import TableSink, TakingOver

log = logging.getLogger(__name__)

CORE = "/api/v1"
HOME = Tuning()
# The network to another cluster may drop a connection silently. Renewing the watch often detects that. Connecting to an
# unreachable cluster is tried less often.
AWAY = Tuning(
    answer_for=10.0,
    marker_for=10.0,
    watch_for=40.0,
    silence_for=8.0,
    backoff_from=5.0,
    backoff_to=60.0,
    backoff_share=(0.8, 1.2),
    # A load balancer whose servers are down may send a long Retry-After, which is added to the back-off. The servers
    # may be back long before it ends.
    patience=10.0,
    # A Node with hundreds of labels, images and volumes has far fewer values. Decoding so many takes about 0.2 ms.
    most_values=5_000,
    # High enough for a server that sends pages with one object each.
    most_pages=10_000,
)
# After so many seconds it is checked again whether a kind is served. The second number is for optional kinds.
ABSENT_FOR, WITHOUT_FOR = 10.0, 600.0
# Every so many seconds it is checked whether a better version of a kind than the one in use is served.
BETTER_FOR = 60.0


def _untold(outage: Outage) -> None:
    """Record no event for an outage of another cluster's watch."""


def _unsaid(what: str, why: str) -> None:
    """Record no event for an oversized object of another cluster, which could fill ours with events."""


class _Watch(msgspec.Struct):
    task: asyncio.Task[None]
    keep: Keep
    sink: TableSink | None = None


class Pump:
    """The open watches of all clusters. If a kind is opened again with other fields to keep, it is listed again.

    `optional`: kinds that the process can do without. It is no error if the role does not allow to list them.
    `home`: the tuning of the watches of our own cluster.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        metrics: Metrics,
        on_change: Callable[[], None],
        kinds: Kinds | None = None,
        on_outage: Callable[[Outage], None] = lambda outage: None,
        connections: Connections | None = None,
        on_oversized: Callable[[str, str], None] = lambda what, why: None,
        optional: Iterable[str] = (),
        home: Tuning = HOME,
    ) -> None:
        self._on_oversized = on_oversized
        self._optional = frozenset(optional)
        self._home = home
        self.store = store
        self._clock = clock
        self._metrics = metrics
        self._on_change = on_change
        self._on_outage = on_outage
        self.connections = connections or Connections(store, clock)
        self._open: dict[tuple[str, str], _Watch] = {}
        # Watches through a new access. Each replaces the watch through the old access as soon as it has listed.
        self._coming: dict[tuple[str, str], asyncio.Task[None]] = {}
        self.kinds = kinds or Kinds()
        # With these turns, reading 200 clusters of 100 Nodes, at 40 µs each, takes about 16 s.
        self._turns = Turns(GRANT_EVERY)
        # The processor time that may be spent on each other cluster.
        self._allowances: dict[str, Allowance] = {}

    def open(self, group: asyncio.TaskGroup, transport: Transport, cluster: str, kind: str, keep: Keep) -> None:
        standing = self._open.get((cluster, kind))
        if standing is not None:
            if standing.keep == keep:
                return
            self.close(cluster, kind)
        projector = self.kinds.keep(cluster, kind, keep)
        sink = TableSink(*self._around(projector))
        task = group.create_task(self._persist(transport, projector, sink), name=f"watch {cluster}/{kind}")
        self._open[cluster, kind] = _Watch(task, keep, sink)

    def take_over(
        self, group: asyncio.TaskGroup, transport: Transport, cluster: str, kind: str, done: Callable[[], None]
    ) -> None:
        """Watch a kind through a new access. Close the watch through the old one as soon as the new one has listed."""
        place = (cluster, kind)
        projector = self.kinds.projector(*place)
        sink = TakingOver(*self._around(projector), over=lambda: self._replace(place, done))
        name = f"watch {cluster}/{kind}"
        self._coming[place] = group.create_task(self._persist(transport, projector, sink), name=name)

    def _replace(self, place: tuple[str, str], done: Callable[[], None]) -> None:
        old = self._open[place]
        old.task.cancel()
        self._open[place] = _Watch(self._coming.pop(place), old.keep)
        done()

    def stay(self, cluster: str) -> None:
        """Keep the watches of a cluster through its present access. Cancel those through a new one."""
        for place in [place for place in self._coming if place[0] == cluster]:
            self._coming.pop(place).cancel()

    def close(self, cluster: str, kind: str) -> None:
        self._open.pop((cluster, kind)).task.cancel()
        coming = self._coming.pop((cluster, kind), None)
        if coming is not None:
            coming.cancel()
        if not any(name == cluster for name, _ in self._open):
            self._allowances.pop(cluster, None)
        self.kinds.forget(cluster, kind)
        self.store.close(cluster, kind)
        self._on_change()

    def close_all(self) -> None:
        """Stop all watches at the end of the process. Their rows stay in the store."""
        for task in (*(watch.task for watch in self._open.values()), *self._coming.values()):
            task.cancel()

    def changed(self) -> None:
        """Report a change of the store that decisions may have to see."""
        self._on_change()

    def opened(self) -> list[tuple[str, str]]:
        return list(self._open)

    def troubled(self) -> frozenset[str]:
        """Return the kinds of our own cluster whose watches have failed and not resumed yet."""
        home = {kind: watch.sink for (cluster, kind), watch in self._open.items() if not cluster}
        return frozenset(kind for kind, sink in home.items() if sink is not None and sink.is_troubled)

    def _around(self, projector: Projector) -> tuple[Any, ...]:
        # Decisions read the connections of other clusters as rows, and report their outages themselves.
        on_outage = _untold if projector.cluster else self._on_outage
        on_oversized = _unsaid if projector.cluster else self._on_oversized
        callbacks = (self._on_change, on_outage, self.connections, on_oversized)
        optional = projector.resource.kind in self._optional
        return (self.store, projector, self._clock, self._metrics, *callbacks, optional)

    async def _persist(self, transport: Transport, projector: Projector, sink: TableSink) -> None:
        """Run one watch. An unexpected error of a server does not end the other watches."""
        tuning = AWAY if sink.away else self._home
        backoff = Backoff(tuning.backoff_from, tuning.backoff_to, Random())  # noqa: S311
        async with asyncio.TaskGroup() as beside:
            beside.create_task(sink.watch_over())
            while True:
                try:
                    await self._keep_up(transport, projector, sink)
                except Exception as error:
                    place = {"kind": projector.resource.kind, "cluster": projector.cluster}
                    log.exception("watch failed", extra=place)
                    sink.trouble("failing", f"{type(error).__name__}: {error}")
                    await asyncio.sleep(backoff.fail())

    async def _keep_up(self, transport: Transport, projector: Projector, sink: TableSink) -> None:
        """Watch a kind until cancelled, in whichever version it is served, and wait while it is not served."""
        if not projector.resource.versions:
            await self._reflector(transport, projector, sink).run()
        missed, ceased, why = False, "", ""
        while True:
            served = await self._served(transport, projector.resource, sink)
            if served is not None and served.prefix != ceased:
                missed = False
                why = await self._while_served(transport, projector, served, sink)
                # If the kind is not served in this version any more, another version is tried at once.
                ceased = served.prefix if why else ""
                continue
            ceased = ""
            if served is None:
                why = f"{projector.resource.plural} are not served"
            if not missed:
                missed = True
                log.info("kind is not served", extra={"kind": projector.resource.kind, "error": why})
            optional = projector.resource.optional
            sink.absent(Listing.UNREADABLE if optional else Listing.WAITING, why)
            await asyncio.sleep(WITHOUT_FOR if optional else ABSENT_FOR)

    async def _served(self, transport: Transport, resource: Resource, sink: TableSink) -> Resource | None:
        tuning = AWAY if sink.away else self._home
        backoff = Backoff(tuning.backoff_from, tuning.backoff_to, Random())  # noqa: S311
        while True:
            try:
                return await serving(transport, resource, within=tuning.answer_for)
            except KubeError as error:
                sink.trouble(trouble_code(error), str(error))
                await asyncio.sleep(backoff.fail())

    async def _while_served(self, transport: Transport, projector: Projector, served: Resource, sink: TableSink) -> str:
        """Watch while the version is served. Return why it is not any more; empty if there is a better version."""
        self.kinds.serve(projector, served)
        watching = asyncio.create_task(self._reflector(transport, projector, sink).run())
        better = asyncio.create_task(self._better(transport, served))
        try:
            await asyncio.wait((watching, better), return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                return ""
            await watching
        except (NotFound, Forbidden) as error:
            return str(error)
        finally:
            watching.cancel()
            better.cancel()

    async def _better(self, transport: Transport, used: Resource) -> None:
        """Wait until there is a better version than the one in use."""
        if used.prefix == used.versions[0]:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(BETTER_FOR)
            # An error is ignored here, because the reflector of the version in use reports it.
            with contextlib.suppress(KubeError):
                found = await serving(transport, used, within=HOME.answer_for)
                if found is not None and found.prefix != used.prefix:
                    return

    def charge(self, cluster: str, seconds: float) -> None:
        """Subtract the processor time of decisions about another cluster's objects from that cluster's allowance."""
        if cluster in self._allowances:
            self._allowances[cluster].charge(seconds)

    def _allowance(self, cluster: str) -> Allowance:
        if cluster not in self._allowances:
            self._allowances[cluster] = Allowance(self._turns, self._clock)
        return self._allowances[cluster]

    def _reflector(self, transport: Transport, projector: Projector, sink: TableSink) -> Reflector[Any]:
        resource = projector.resource
        gives_up: tuple[type[KubeError], ...] = (NotFound,) if resource.versions else ()
        return Reflector(
            transport,
            resource.path,
            resource.model,
            sink,
            self._clock,
            labels=resource.labels,
            fields=resource.fields,
            tuning=AWAY if sink.away else self._home,
            gives_up=(*gives_up, Forbidden) if resource.optional else gives_up,
            # A 404 for a core kind comes from a load balancer without servers, not from an API server.
            always_served=resource.prefix == CORE,
            allowance=self._allowance(projector.cluster) if sink.away else None,
        )
