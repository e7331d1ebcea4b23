"""The composition root: one process that serves surfaces, from the settings that `run` and `as` both make."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
from collections.abc import Callable, Hashable, Iterable
from datetime import timedelta
from random import Random
from typing import Literal

from haulout.app.budgets import Budgets
from haulout.app.decisions import Decisions
from haulout.app.elections import Elections
from haulout.app.ending import Ending
from haulout.app.logbook import Logbook
from haulout.app.parts import Part, Surroundings
from haulout.app.reload import Reload
from haulout.app.servers import Servers
from haulout.app.tracing import Tracing
from haulout.app.troubles import Troubles, by_events, itself
from haulout.base.address import OFF
from haulout.base.backoff import Backoff
from haulout.base.clock import Clock, SystemClock
from haulout.core.decision import Source
from haulout.core.surface_lease import lease_row
from haulout.kube.allowed_addresses import is_local
from haulout.kube.bounds import AWAY
from haulout.kube.config import Opened, own_namespace
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import (
    ConnectionFailed,
    KubeError,
    RequestTimeout,
    ServerFailure,
    TooManyRequests,
)
from haulout.kube.http import HttpTransport
from haulout.kube.recorder import Recorder, Reporter
from haulout.kube.transport import Transport
from haulout.kube.turns import Shared
from haulout.kube.writer import Writer
from haulout.model.event import ObjectReference
from haulout.runtime.collector import sweep
from haulout.runtime.connections import Connections
from haulout.runtime.driver import Driver
from haulout.runtime.leadership import Leadership
from haulout.runtime.logs import set_up_logs
from haulout.runtime.metrics import Metrics, Sample, process_samples
from haulout.runtime.probes import Prober
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Sender
from haulout.runtime.sources import Sources
from haulout.runtime.traffic import Traffic
from haulout.runtime.wake import Wake
from haulout.settings.settings import Settings
from haulout.surfaces.registry import enabled_surfaces, load

log = logging.getLogger("haulout.process")

# The name of the controller that reports events about the process itself.
ITSELF = "haulout"
# Errors of an API server that is slow, away or busy. The same request may succeed later.
PASSING = (ConnectionFailed, RequestTimeout, ServerFailure, TooManyRequests)
LOOK_AT_FILES_EVERY = 1.0
LEAVES_WITHIN = 2.0
# Not every file system changes a file's times with every write. Each time after this many looks the content is compared.
CLOSELY_EVERY = 10


class Process:
    """One running operator: the surfaces of some settings with their kernel, watches, servers and leader election.

    `endpoint`: the home cluster. `refused`: changed settings with which a process could not start. They are not tried
    again until the file changes. `connect`: returns the transport to a cluster, with the arguments of `HttpTransport`.
    """

    def __init__(
        self,
        settings: Settings,
        endpoint: Endpoint,
        clock: Clock | None = None,
        refused: Settings | None = None,
        connect: Callable[..., Transport] = HttpTransport,
    ) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.metrics = Metrics(metric for each in enabled_surfaces(settings.blocks) for metric in each.metrics)
        self._decisions = Decisions(settings, self.metrics, self.clock)
        self.reporting, self.kernel = self._decisions.reporting, self._decisions.kernel
        self.wake = Wake(self.kernel.loop)
        self.ending = Ending(self.kernel.follow)
        self._troubles = Troubles(self.clock)
        self.pump = Pump(
            self.kernel.store,
            self.clock,
            self.metrics,
            self.wake.stir,
            self._decisions.kinds,
            self._troubles.outage,
            Connections(self.kernel.store, self.clock, self._reconnected, self._forget_cluster),
            self._troubles.report_oversized,
            settings.optional_kinds,
        )
        self._traffic = Traffic(self.metrics)
        self._endpoint = endpoint
        self._transport_to = connect
        self._transport = connect(endpoint, self.clock, self._traffic.opened(endpoint.server))
        self._writer = Writer(self._transport, longest=settings.request_for)
        elections = Elections(settings, self._transport, self.clock, self._rewound)
        self.kernel.store.on_rewound = lambda table: None if table.cluster else self._rewound()
        self.leadership = Leadership(
            elections.own(),
            elections.of_surfaces({each.surface: each.lease for each in self._decisions.declared}),
            self.clock,
            begin=self._begin,
            gained=self._gained,
            surface_held=self._surface_held,
            lost=self._lost_leadership,
        )
        self.recorder = Recorder(self._writer, self.clock, guard=self.leadership.may_write_for)
        self._shared = Shared()
        self._home_is_local = False
        around = self._surroundings()
        self.parts: list[Part] = [*_parts(around), *((Budgets(around),) if settings.turns else ())]
        if self._decisions.logbook is not None:
            self.parts.append(Logbook(around, self._decisions.logbook))
        self._tracing: Tracing | None = None
        if self._decisions.logbook is not None and settings.traces.percent:
            self._tracing = Tracing(settings.traces, self.kernel.store, self.clock, lambda: self.kernel.leading)
            self.metrics.offers_openmetrics = True
        sender = Sender(
            self.pump.kinds,
            self.recorder,
            self.clock,
            self.metrics,
            host=socket.gethostname(),
            channels=dict(each for part in self.parts for each in part.channels(self._transport).items()),
            surfaces=self._decisions.surfaces,
            removals=self._tracing,
        )
        self._driver = Driver(
            self.kernel, sender, self.clock, self.metrics, self.wake, self._may_write_for, self.pump.charge
        )
        self._sources = Sources(self.kernel.loop, self.pump, sender, self.clock, self._always, self._connect)
        self._sources.add_home(self._transport, self._writer)
        self._servers = Servers(
            settings, self.parts, self._transport, self.clock, self.metrics, scraped=self.ending.scraped
        )
        self._reload: Reload | None = None
        if settings.file:
            self._reload = Reload(settings, self._reloaded, self.ending.replace, self._troubles, refused)
        self.metrics.from_source(self._samples)

    def _surroundings(self) -> Surroundings:
        return Surroundings(
            self.settings,
            self.kernel.store,
            self.metrics,
            self.clock,
            self.wake.poke,
            leads=lambda: self.kernel.leading,
            leader=self._leader,
            troubles=self._troubles,
            transport=self._way_to,
            home_is_local=lambda: self._home_is_local,
        )

    @property
    def replaced_by(self) -> Settings | None:
        """Return changed settings that only a new process can take over, or None."""
        return self.ending.replaced_by

    async def run(self) -> int:
        """Serve until a signal, changed settings or the loss of leadership ends the process. Return the exit code."""
        self.ending.catch_signals()
        webhooks = self.settings.webhooks
        namespace = self.settings.namespace or own_namespace() or webhooks.outside or self._endpoint.namespace
        self._home_is_local = await is_local(self._endpoint.server)
        try:
            for part in self.parts:
                await part.introduce(self._transport)
            async with self._servers.plain(), self._servers.admission(namespace, self.pump, self.wake.stir):
                return await self._serve()
        finally:
            if self._tracing is not None:
                await self._tracing.close()
            await self._transport.close()

    def stop(self) -> None:
        """End as a signal would."""
        self.ending.signal()

    def _reloaded(self, settings: Settings) -> None:
        set_up_logs(settings.log_format, settings.log_level, settings.log_times)
        for part in self.parts:
            part.follow(settings)
        self.settings = settings
        # Decisions that have read the settings are due, and parts may watch other sources now.
        self.wake.poke()

    def _samples(self) -> Iterable[Sample]:
        """Return the gauges. Only the leader has those of surfaces, because Prometheus would add up all replicas'."""
        parts = self.parts if self.kernel.leading else []
        own: list[Sample] = [("haulout_events_dropped_total", (), float(self.recorder.dropped))]
        if self._tracing is not None:
            own.extend(self._tracing.samples())
        # The lengths of queues are read here, on the event loop: they change while a thread renders the samples.
        return itertools.chain(own, self._decisions.samples(), process_samples(), *[part.samples() for part in parts])

    async def _serve(self) -> int:
        probes = dict(each for part in self.parts for each in part.probes(self._transport).items())
        prober = Prober(self.kernel.store, self.kernel.loop, probes, self.wake.poke)
        driver, sources = self._driver, self._sources
        self._show_leading(0)
        log.info("starting manager")
        ending = asyncio.create_task(self.ending.wait())
        try:
            async with asyncio.TaskGroup() as group:
                # A decision never uses a configuration that was already replaced when it began, as with the originals.
                driver.before_asking.append(self._look)
                driver.after_asking.append(lambda: sources.follow(group))
                driver.after_asking.append(lambda: prober.follow(group))
                works = (driver.run(), self.recorder.run(), self._look_at_files(), sweep())
                tasks = [group.create_task(work) for work in works]
                if self._tracing is not None:
                    tasks.append(group.create_task(self._tracing.run(self._transport)))
                leading = group.create_task(self.leadership.run())
                code = await ending
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                # Events are written before the Lease is released. A process that has lost it must not write.
                if code == 0:
                    await self._leave()
                    await self.recorder.flush(within=2.0)
                leading.cancel()
                await asyncio.wait([leading])
                lingers_for = max((part.lingers_for() for part in self.parts), default=timedelta())
                if self.ending.is_signalled and self.settings.http not in OFF and lingers_for:
                    await self.ending.await_scrape(lingers_for.total_seconds(), in_any_case=self.settings.alone)
                sources.stop()
                prober.stop()
        finally:
            ending.cancel()
            await sources.close()
        if self.ending.is_signalled:
            self.ending.replaced_by = None
            log.info("Received SIGTERM or SIGINT. See you later.")
        elif self.ending.replaced_by is None:
            log.info(self.ending.why)
        return code

    async def _leave(self) -> None:
        """Let every part store what would be lost at the end. A failure is logged and does not delay the end."""
        if self.leadership.may_write_for() is None:
            return
        for part in self.parts:
            try:
                async with asyncio.timeout(LEAVES_WITHIN):
                    await part.leave(self._writer)
            except (KubeError, TimeoutError) as error:
                log.warning(
                    "state could not be stored when the process ended", extra={"part": part.name, "error": str(error)}
                )

    def _way_to(self, cluster: str) -> Transport | None:
        return self._sources.transport(cluster)

    async def _connect(self, access: Hashable) -> Transport:
        opened = await asyncio.to_thread(self._read_access, access)
        server = opened.endpoint.server
        return self._transport_to(
            opened.endpoint,
            self.clock,
            self._traffic.opened(server),
            AWAY,
            tls=opened.tls,
            shared=self._shared,
            on_close=lambda: self._traffic.closed(server),
        )

    def _read_access(self, access: Hashable) -> Opened:
        for part in self.parts:
            opened: Opened | None = part.connect(access)
            if opened is not None:
                return opened
        raise KubeError("no surface of this process brings other clusters")

    def _forget_cluster(self, cluster: str) -> None:
        for part in self.parts:
            part.forget_cluster(cluster)

    def _reconnected(self, cluster: str, reason: str) -> None:
        self.kernel.actor.on_reconnect(cluster)
        for part in self.parts:
            part.on_reconnect(cluster, reason)

    def _always(self) -> set[Source]:
        """Return the sources that the surfaces always watch in the home cluster."""
        return {source for part in self.parts for source in part.watches()}

    def _look(self) -> None:
        for part in self.parts:
            part.look()

    async def _look_at_files(self) -> None:
        for looks in itertools.count(1):
            closely = looks % CLOSELY_EVERY == 0
            if self._reload is not None:
                self._reload.look(closely=closely)
            for part in self.parts:
                part.look(closely=closely)
            await asyncio.sleep(LOOK_AT_FILES_EVERY)

    def _show_leading(self, leads: int) -> None:
        """Set the gauge of leadership, also under the name that dashboards for the originals use."""
        if self.settings.lease is None and not leads:
            return
        self.metrics.gauge("haulout_leader", leads)
        if self.settings.lease is not None:
            self.metrics.gauge("leader_election_master_status", leads, name=self.settings.lease.name)

    def _leader(self) -> tuple[str, str] | None:
        own = self.leadership.own
        return (own.holder, own.namespace) if own else None

    async def _begin(self) -> bool:
        """Prepare every part. If one fails, end the process and return False."""
        try:
            for part in self.parts:
                await self._prepare(part)
        except KubeError as error:
            self.ending.lose(f"cannot begin: {error}")
            return False
        return True

    async def _prepare(self, part: Part) -> None:
        """Prepare a part. A failure is logged, and the surface goes on without it.

        A surface that is served alone behaves as its original: it repeats the attempt while the API server is away, and
        raises KubeError for a refusal.
        """
        backoff = Backoff(0.5, 30.0, Random())  # noqa: S311
        while True:
            try:
                return await part.prepare(self._writer)
            except KubeError as error:
                log.warning("a surface could not be prepared", extra={"surface": part.name, "error": str(error)})
                if not self.settings.alone:
                    return None
                if not isinstance(error, PASSING):
                    raise
            await asyncio.sleep(backoff.fail())

    def _gained(self) -> None:
        self._show_leading(1)
        self.kernel.lead()
        if self._tracing is not None:
            self._tracing.gained()
        # Scripts around the originals wait for this line.
        log.info("Starting workers")
        self.wake.poke()
        in_group = any(each.tells_in_group for each in enabled_surfaces(self.settings.blocks))
        api: Literal["events.k8s.io/v1", "v1"] = "events.k8s.io/v1" if in_group else "v1"
        reporter = Reporter(ITSELF, f"{ITSELF}-{socket.gethostname()}", api)
        self._troubles.lead(by_events(self.recorder, reporter, self._itself))

    def _itself(self) -> ObjectReference:
        own = self.leadership.own
        lease = (own.namespace, own.name) if own else None
        return itself(own_namespace(), socket.gethostname(), lease, self.kernel.store)

    def _surface_held(self, surface: str, held: bool) -> None:
        self.kernel.store.write(lease_row(surface, held=held))
        self.wake.poke()

    def _lost_leadership(self, why: str) -> None:
        self._show_leading(0)
        self.kernel.follow()
        self.ending.lose(why)

    def _rewound(self) -> None:
        """Begin again with another process that knows nothing yet: the API server's storage was restored from a backup.

        Each kind of objects is listed anew at another moment. Decisions in between would rest on two histories (decision 0168).
        """
        if self.ending.has_begun:
            return
        log.warning("the API server shows an earlier state than before, as after a restored backup: starting over")
        self.ending.replace(self.settings)

    def _may_write_for(self) -> float | None:
        """Return how many seconds a write may take; None: no write may be sent, because the process ends or does not lead."""
        return None if self.ending.has_begun else self.leadership.may_write_for()


def _parts(around: Surroundings) -> list[Part]:
    """Return the parts of the surfaces that the settings switch on. One that does no I/O has none of its own."""
    surfaces = enabled_surfaces(around.settings.blocks)
    return [load(each.part)(around) if each.part else Part(around, load(each.decisions)) for each in surfaces]
