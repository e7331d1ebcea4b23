"""The composition root: one process that serves surfaces, from the settings that `run` and `as` both make."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Callable, Hashable, Iterable
from pathlib import Path
from random import Random
from typing import Literal

from haulout import BUILT, COMMIT, __version__
from haulout.app.budgets import Budgets
from haulout.app.clusterapi import ClusterApis
from haulout.app.controllers import Queues, count_error, count_refusal, depths, observed
from haulout.app.esx import Esx
from haulout.app.kubernikus import Kubernikus
from haulout.app.nodemaintenance import NodeMaintenances
from haulout.app.parts import CannotStart, Part, Surroundings
from haulout.app.profiles import Profiles
from haulout.app.reload import Reload
from haulout.app.troubles import Troubles, by_events, itself
from haulout.app.webhooks import certificates_of, guarded_metrics, looker, webhook_server
from haulout.base.address import OFF, AddressError
from haulout.base.backoff import Backoff
from haulout.base.clock import Clock, SystemClock
from haulout.base.url import without_secrets
from haulout.cluster.key import Key
from haulout.cluster.view import NotListed
from haulout.core.action import Evict
from haulout.core.budgets.declare import BUDGETS
from haulout.core.decision import Source
from haulout.core.declaration import Enabled
from haulout.core.surface_lease import lease_row
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Body, Refused
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from haulout.kube.bounds import AWAY
from haulout.kube.config import SERVICE_ACCOUNT, Opened
from haulout.kube.config import load as load_endpoint
from haulout.kube.endpoint import Endpoint, impersonation
from haulout.kube.errors import (
    ConfigInvalid,
    ConnectionFailed,
    KubeError,
    RequestTimeout,
    ServerFailure,
    TooManyRequests,
)
from haulout.kube.http import HttpTransport
from haulout.kube.lease import Election, Terms
from haulout.kube.reach import is_local
from haulout.kube.recorder import Recorder, Reporter
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.model.event import ObjectReference
from haulout.plugins.load import PluginProblem
from haulout.runtime.connections import Connections
from haulout.runtime.driver import LONGEST_REQUEST, Driver
from haulout.runtime.logs import set_up_logs
from haulout.runtime.metrics import Metrics, Sample, process_samples
from haulout.runtime.probes import Prober
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Sender
from haulout.runtime.sources import Sources
from haulout.runtime.traffic import Traffic
from haulout.serve.web import listen, metrics_route, probe_route
from haulout.settings.settings import Settings

log = logging.getLogger("haulout.process")

# In whose name the process tells of itself.
ITSELF = "haulout"
# What a server that is slow, away or busy answers, or does not: another time it may be otherwise.
PASSING = (ConnectionFailed, RequestTimeout, ServerFailure, TooManyRequests)
# In the place of a surface's name, as on the command line.
KERNEL = "kernel"
LOOK_AT_FILES_EVERY = 1.0
# Not every file system shows every change in a file's times: each so many looks it is read whatever they say.
CLOSELY_EVERY = 10


class Fatal(Exception):
    """An error with which the process cannot run. The message says what the user has to set."""


def run(settings: Settings) -> int:
    """Serves until signalled (0) or until it cannot go on (1)."""
    set_up_logs(settings.log_format, settings.log_level, settings.log_times)
    log.info("haulout", extra={"version": __version__, "commit": COMMIT, "built": BUILT})
    try:
        import uvloop

        runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    except ImportError:
        runner = asyncio.Runner()
    last, refused = None, None
    with runner:
        while True:
            try:
                process = Process(settings, refused=refused)
                code = runner.run(process.run())
            except (Fatal, CannotStart, KubeError, AddressError, PluginProblem) as error:
                log.error(str(error))
                if last is None or not isinstance(error, (CannotStart, ConfigInvalid)):
                    return 1
                log.error("settings cannot be used, the last good ones stay in force")
                settings, last, refused = last, None, settings
                continue
            if process.replaced_by is None:
                return code
            settings, last, refused = process.replaced_by, process.settings, None
            set_up_logs(settings.log_format, settings.log_level, settings.log_times)


class Process(Reports):
    """One running operator: the surfaces of some settings with their kernel, watches, servers and leader election.

    `replaced_by`: settings with which it has to be put together anew. `refused`: with these it cannot be.
    """

    def __init__(self, settings: Settings, clock: Clock | None = None, refused: Settings | None = None) -> None:
        self.settings = settings
        self.clock = clock or SystemClock()
        self.metrics = Metrics()
        wanted = _parts(settings)
        declared = [part.declaration for part in wanted]
        self._controllers = {
            decider.name: each.controllers.get(decider.name, decider.name)
            for each in (*declared, *((BUDGETS,) if settings.turns else ()))
            for decider in each.deciders
        }
        queues = Queues(self._controllers, self.metrics, self.clock)
        leases = dict(settings.surface_leases)
        assembly = assemble(
            [Enabled(each, leased=each.surface in leases) for each in declared],
            together=settings.turns,
            reports=self,
            on_failure=self._decision_failed,
            observe=lambda decider: observed(
                decider, self._controllers[decider.name], self.metrics, self.clock, queues
            ),
        )
        self.kernel, self._surfaces = assembly.kernel, assembly.surfaces
        self.kernel.leading = False
        self.kernel.loop.on_due = queues.joined
        self._troubles = Troubles(self.clock)
        connections = Connections(self.kernel.store, self.clock, self._reconnected, self._left)
        self.pump = Pump(
            self.kernel.store,
            self.clock,
            self.metrics,
            self._stir,
            assembly.kinds,
            self._troubles.outage,
            connections,
            self._troubles.oversized,
        )
        self._traffic = Traffic(self.metrics)
        self._home_is_local = False
        self._sources: Sources | None = None
        self._driver: Driver | None = None
        self._recorder: Recorder | None = None
        self._election: Election | None = None
        self._surface_elections: dict[str, Election] = {}
        # Surfaces that have held the Lease of their original, whether or not they still do.
        self._leased: set[str] = set()
        self._webhooks_lack: Callable[[], str] = lambda: ""
        self.replaced_by: Settings | None = None
        self._replaced = asyncio.Event()
        self._lost = asyncio.Event()
        self._why = "leadership lost"
        self._signalled = asyncio.Event()
        self._scraped = asyncio.Event()
        around = Surroundings(
            settings,
            self.kernel.store,
            self.metrics,
            self.clock,
            self._poke,
            leads=lambda: self.kernel.leading,
            leader=self._leader,
            troubles=self._troubles,
            transport=lambda cluster: self._sources.transport(cluster) if self._sources else None,
            home_is_local=lambda: self._home_is_local,
        )
        self.parts = [part(around) for part in (*wanted, *((Budgets,) if settings.turns else ()))]
        self._reload: Reload | None = None
        if settings.file:
            self._reload = Reload(settings, self._reloaded, self._replace, self._troubles, refused)
        self.metrics.from_source(self._samples)

    async def run(self) -> int:
        self._catch_signals()
        settings = self.settings
        endpoint = load_endpoint(
            path=settings.kubeconfig,
            context=settings.context,
            namespace=settings.namespace,
            impersonate=impersonation(settings.as_user, settings.as_groups),
            pod_first=settings.pod_first,
        )
        log.info("Loaded kubeconfig", extra={"server": without_secrets(endpoint.server)})
        self._home_is_local = await is_local(endpoint.server)
        transport = HttpTransport(endpoint, self.clock, self._traffic.opened(endpoint.server))
        try:
            for part in self.parts:
                await part.introduce(transport)
            async with self._servers(transport), self._admission(endpoint, transport):
                return await self._serve(endpoint, transport)
        finally:
            await transport.close()

    def _reloaded(self, settings: Settings) -> None:
        set_up_logs(settings.log_format, settings.log_level, settings.log_times)
        for part in self.parts:
            part.follow(settings)
        self.settings = settings
        # Whoever has read them is due, and what is always watched may be something else.
        self._poke()

    def _replace(self, settings: Settings) -> None:
        """Ends as by a signal, for another to begin with these settings."""
        self.replaced_by = settings
        self.kernel.follow()
        self._replaced.set()

    # What the kernel reports

    def _samples(self) -> Iterable[Sample]:
        """Told by the leader alone, or as many replicas as there are would be added up."""
        parts = self.parts if self.kernel.leading else []
        own: list[Sample] = []
        if self._recorder is not None:
            own.append(("haulout_events_dropped", (), float(self._recorder.dropped)))
        # Queues change while the rest is gone through off the event loop: how long they are is settled here.
        waiting = list(depths(self.kernel.loop, self._controllers))
        return itertools.chain(own, waiting, process_samples(), *[part.samples() for part in parts])

    def refused(self, subject: Subject, body: Body, answer: Refused) -> None:
        # Those who evict do so for others.
        wanted_by = body.surface if isinstance(body, Evict) else subject.decider
        self.metrics.count("haulout_refusals", surface=self._surface(wanted_by), code=str(answer.code))
        if subject.decider in self._controllers:
            count_refusal(self.metrics, self._controllers[subject.decider], answer)

    def _surface(self, decider: str) -> str:
        """For the eyes of people: a surface has several decisions, and those that all share are the kernel's."""
        return self._surfaces.get(decider, KERNEL)

    def lost(self, subject: Subject) -> None:
        if subject.decider in self._controllers:
            count_error(self.metrics, self._controllers[subject.decider])

    def restless(self, subject: Subject, target: Key) -> None:
        self.metrics.count("haulout_restless_keys", surface=self._surface(subject.decider))
        log.warning(
            "slowed down: it keeps writing",
            extra={"surface": self._surface(subject.decider), "decision": subject.decider, "object": str(target)},
        )

    def _decision_failed(self, subject: Subject, error: Exception) -> None:
        self.metrics.count("haulout_decision_failures", surface=self._surface(subject.decider))
        if isinstance(error, NotListed):
            # Said once by whoever cannot read it, not by all who would need it.
            return
        log.error(
            "decision failed",
            exc_info=error,
            extra={"surface": self._surface(subject.decider), "decision": subject.decider, "object": str(subject.key)},
        )

    # Serving

    @contextlib.asynccontextmanager
    async def _servers(self, transport: Transport) -> AsyncIterator[None]:
        probes = {"/healthz": probe_route(lambda: ""), "/readyz": probe_route(self._unready)}
        scraped = metrics_route(self.metrics, self._scraped.set)
        plain = {self.settings.health: probes}
        async with contextlib.AsyncExitStack() as stack:
            if self.settings.guarded:
                guarded = guarded_metrics(
                    self.settings.http, scraped, transport=transport, clock=self.clock, metrics=self.metrics
                )
                await stack.enter_async_context(guarded)
            else:
                more = [routes for part in self.parts for routes in part.routes(transport).items()]
                plain[self.settings.http] = {**plain.get(self.settings.http, {}), "/metrics": scraped, **dict(more)}
            # The probes last: whoever answers them answers everything.
            for address, routes in reversed(plain.items()):
                server = await listen(address, routes)
                if server is not None:
                    stack.push_async_callback(server.cleanup)
            yield

    @contextlib.asynccontextmanager
    async def _admission(self, endpoint: Endpoint, transport: Transport) -> AsyncIterator[None]:
        said = self.settings.webhooks
        webhooks = tuple(webhook for part in self.parts for webhook in part.webhooks())
        namespace = self.settings.namespace or _own_namespace() or said.outside or endpoint.namespace
        server = webhook_server(
            said.address,
            webhooks,
            certificates_of(said, namespace),
            transport=transport,
            store=self.kernel.store,
            clock=self.clock,
            metrics=self.metrics,
            look=looker(transport, self.kernel.store, self.pump.projector, self._stir),
        )
        async with server as self._webhooks_lack:
            yield

    async def _serve(self, endpoint: Endpoint, transport: HttpTransport) -> int:
        writer = Writer(transport, longest=self.settings.request_for)
        recorder = self._recorder = Recorder(writer, self.clock, guard=self._may_tell_for)
        channels = dict(each for part in self.parts for each in part.channels(transport).items())
        host = socket.gethostname()
        sender = Sender(
            self.pump, recorder, self.clock, self.metrics, host=host, channels=channels, surfaces=self._surfaces
        )
        sources = self._sources = Sources(self.kernel.loop, self.pump, sender, self.clock, self._always, self._connect)
        sources.add_home(transport, writer)
        driver = self._driver = Driver(self.kernel, sender, self.clock, self.metrics)
        driver.may_write_for = self._may_write_for
        probes = dict(each for part in self.parts for each in part.probes(transport).items())
        prober = Prober(self.kernel.store, self.kernel.loop, probes, self._poke)
        self._plan_election(transport, endpoint)
        log.info("starting manager")
        ending = asyncio.create_task(self._ended())
        try:
            async with asyncio.TaskGroup() as group:
                driver.before_asking.append(self._look)
                # What surfaces always watch follows from their settings, the rest from what has been decided.
                driver.before_asking.append(lambda: sources.follow(group))
                driver.after_asking.append(lambda: sources.follow(group))
                driver.after_asking.append(lambda: prober.follow(group))
                tasks = [group.create_task(work) for work in (driver.run(), recorder.run(), self._look_at_files())]
                leading = group.create_task(self._lead(writer))
                code = await ending
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                # Everything has been said before the lease is given back; whoever has lost it says nothing more.
                if code == 0:
                    await recorder.flush(within=2.0)
                leading.cancel()
                await asyncio.wait([leading])
                if self._signalled.is_set():
                    await self._await_scrape()
                sources.stop()
                prober.stop()
        finally:
            ending.cancel()
            await sources.close()
        if self._signalled.is_set():
            self.replaced_by = None
            log.info("Received SIGTERM or SIGINT. See you later.")
        elif self.replaced_by is None:
            log.info(self._why)
        return code

    async def _connect(self, access: Hashable) -> Transport:
        opened = await asyncio.to_thread(self._read_access, access)
        server = opened.endpoint.server
        return HttpTransport(
            opened.endpoint,
            self.clock,
            self._traffic.opened(server),
            AWAY,
            tls=opened.tls,
            on_close=lambda: self._traffic.closed(server),
        )

    def _read_access(self, access: Hashable) -> Opened:
        for part in self.parts:
            opened: Opened | None = part.connect(access)
            if opened is not None:
                return opened
        raise KubeError("no surface of this process brings other clusters")

    def _left(self, cluster: str) -> None:
        for part in self.parts:
            part.left(cluster)

    def _reconnected(self, cluster: str, reason: str) -> None:
        self.kernel.actor.reconnected(cluster)
        for part in self.parts:
            part.reconnected(cluster, reason)

    def _always(self) -> set[Source]:
        """What the surfaces watch at home, whatever is decided."""
        return {source for part in self.parts for source in part.watches()}

    def _look(self) -> None:
        for part in self.parts:
            part.look()

    async def _look_at_files(self) -> None:
        for looks in itertools.count(1):
            await asyncio.sleep(LOOK_AT_FILES_EVERY)
            closely = looks % CLOSELY_EVERY == 0
            if self._reload is not None:
                self._reload.look(closely=closely)
            for part in self.parts:
                part.look(closely=closely)

    # Leading

    def _plan_election(self, transport: HttpTransport, endpoint: Endpoint) -> None:
        lease = self.settings.lease
        identity = f"{socket.gethostname()}_{uuid.uuid4()}"
        names = {part.declaration.surface: part.declaration.lease for part in self.parts}
        self._surface_elections = {
            surface: Election(
                transport, self.clock, namespace=namespace, name=names[surface], identity=identity, release=True
            )
            for surface, namespace in self.settings.surface_leases
        }
        if lease is None:
            return
        namespace = lease.namespace or _own_namespace() or lease.outside
        if not namespace:
            raise Fatal("leader election needs a namespace: none is set and this is not a pod (no service account)")
        self._election = Election(
            transport,
            self.clock,
            namespace=namespace,
            name=lease.name,
            identity=identity,
            terms=Terms(lease.duration, lease.renew_within, lease.retry),
            release=lease.release,
        )
        self._show_leading(0)

    def _show_leading(self, leads: int) -> None:
        """Also under the name by which dashboards for the originals know it."""
        self.metrics.gauge("haulout_leader", leads)
        if self.settings.lease is not None:
            self.metrics.gauge("leader_election_master_status", leads, name=self.settings.lease.name)

    def _leader(self) -> tuple[str, str] | None:
        return (self._election.holder, self._election.namespace) if self._election else None

    async def _lead(self, writer: Writer) -> None:
        async with asyncio.TaskGroup() as group:

            def begin() -> None:
                group.create_task(self._begin(writer))
                for surface, election in self._surface_elections.items():
                    group.create_task(self._lead_surface(surface, election))

            if self._election is None:
                begin()
            else:
                await self._election.run(begin, self._lost_leadership)

    async def _lead_surface(self, surface: str, election: Election) -> None:
        """Whoever loses it ends: another may act by now, and what this one knows may be old."""

        def say(*, held: bool) -> None:
            if held:
                self._leased.add(surface)
            self.kernel.store.write(lease_row(surface, held=held))
            self._poke()

        def lost() -> None:
            say(held=False)
            self._why = f"leadership lost: {surface} no longer holds the Lease of its original"
            self._lost.set()

        await election.run(lambda: say(held=True), lost)

    async def _begin(self, writer: Writer) -> None:
        try:
            for part in self.parts:
                await self._prepare(part, writer)
        except KubeError as error:
            self._why = f"cannot begin: {error}"
            self._lost.set()
            return
        if self._election is None or self._election.leading:
            self._gained()

    async def _prepare(self, part: Part, writer: Writer) -> None:
        """An original alone waits for the server, and ends with what it refuses; beside others, a surface does without."""
        backoff = Backoff(0.5, 30.0, Random())  # noqa: S311
        while True:
            try:
                return await part.prepare(writer)
            except KubeError as error:
                log.warning("not prepared", extra={"surface": part.name, "error": str(error)})
                if not self.settings.alone:
                    return None
                if not isinstance(error, PASSING):
                    raise
            await asyncio.sleep(backoff.failed())

    def _gained(self) -> None:
        self._show_leading(1)
        self.kernel.lead()
        self._poke()
        if self._recorder is not None:
            # In the API that the originals' roles allow.
            api: Literal["events.k8s.io/v1", "v1"] = "events.k8s.io/v1" if self.settings.profiles_config else "v1"
            reporter = Reporter(ITSELF, f"{ITSELF}-{socket.gethostname()}", api)
            self._troubles.lead(by_events(self._recorder, reporter, self._itself))

    def _itself(self) -> ObjectReference:
        lease = (self._election.namespace, self._election.name) if self._election else None
        return itself(_own_namespace(), socket.gethostname(), lease, self.kernel.store)

    def _lost_leadership(self) -> None:
        self._show_leading(0)
        self.kernel.follow()
        self._lost.set()

    def _may_write_for(self) -> float | None:
        """At its end, it only tells of what it has done."""
        return None if self._signalled.is_set() or self._replaced.is_set() else self._may_tell_for()

    def _may_tell_for(self) -> float | None:
        # Surfaces whose lease is not held yet want nothing written. Those that hold it write no longer than it lets them,
        # and once it is lost nothing is: a write may have been decided before, and the process is about to end.
        elections = [self._surface_elections[surface] for surface in sorted(self._leased)]
        if self._election is not None:
            elections.append(self._election)
        longest, now = LONGEST_REQUEST, self.clock.elapsed()
        for election in elections:
            until, ends = election.may_write_until(), election.lease_ends_at()
            if until is None or ends is None or now >= until:
                return None
            longest = min(longest, ends - now)
        return longest

    # Ending

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signal)

    def _signal(self) -> None:
        if self._signalled.is_set():
            # At once: what is still under way is no longer waited for.
            os._exit(1)
        self.stop()

    def stop(self) -> None:
        """Ends as a signal would."""
        # From now on: whoever looks while events are written and the lease is given back has looked.
        self._scraped.clear()
        self._signalled.set()
        self.kernel.follow()

    async def _ended(self) -> int:
        waits = [asyncio.create_task(event.wait()) for event in (self._signalled, self._replaced, self._lost)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return 0 if self._signalled.is_set() or self._replaced.is_set() else 1

    async def _await_scrape(self) -> None:
        """The last counters may still be wanted: wait for one more look at them, where there is any."""
        if self.settings.http in OFF or not self.settings.scrape_within:
            return
        hint = "a second signal ends it at once"
        log.info("waiting for one more scrape", extra={"seconds": self.settings.scrape_within, "hint": hint})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.scrape_within):
                await self._scraped.wait()

    def _unready(self) -> str:
        if lack := self._webhooks_lack():
            return lack
        if self.settings.ready_at_once:
            return ""
        return next(filter(None, (part.lacks() for part in self.parts)), "")

    def _stir(self) -> None:
        if self._driver is not None:
            self._driver.stir()

    def _poke(self) -> None:
        if self._driver is not None:
            self._driver.poke()


def _own_namespace() -> str:
    try:
        return (Path(SERVICE_ACCOUNT) / "namespace").read_text().strip()
    except OSError:
        return ""


def _parts(settings: Settings) -> list[type[Part]]:
    wanted: list[tuple[bool, type[Part]]] = [
        (bool(settings.profiles_config), Profiles),
        (bool(settings.profiles_config) and settings.kubernikus.enabled, Kubernikus),
        (bool(settings.profiles_config) and settings.esx.enabled, Esx),
        (settings.nodemaintenance is not None, NodeMaintenances),
        (settings.clusterapi is not None, ClusterApis),
    ]
    return [part for is_wanted, part in wanted if is_wanted]
