"""Keeps the open watches equal to the sources that surfaces always need and that decisions currently ask for.

See decision 0017.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Hashable, Set

import msgspec

from haulout.base.clock import Clock
from haulout.cluster.rows import Connection
from haulout.core.decision import Source
from haulout.kernel.loop import Loop
from haulout.kube.errors import ConfigRefused, KubeError
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.pace import Pace
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Sender

log = logging.getLogger(__name__)

# The timeout of a write to another cluster, in seconds.
LONGEST_AWAY = 10.0

# How often the access of a cluster is read. The author of a kubeconfig can make reading as costly as the bounds allow,
# and can replace it at any time. Each new access also opens connections without the back-off of earlier ones. A few
# changes in a row are ordinary: credentials are rotated, or a person tries different values.
READ_EVERY, READ_BURST, READ_REFILL, READ_LONGEST = 2.0, 10, 30.0, 300.0
FIRST_PACE = Pace(READ_EVERY, READ_BURST, READ_REFILL, READ_LONGEST)
# The timeout for reading an access, in seconds.
READ_WITHIN = 10.0

Connect = Callable[[Hashable], Awaitable[Transport]]


async def _nowhere(access: Hashable) -> Transport:
    raise KubeError("no surface of this process brings other clusters")


class _Way(msgspec.Struct):
    """A connection to a cluster, with the access from which it was made.

    `waits`: the kinds that have not been listed through it yet.
    """

    access: Hashable
    transport: Transport
    waits: set[str]


class _Reading(msgspec.Struct):
    """The reading of a cluster's access, under way or done.

    `access`: None if the transport has been used or the reading failed. Then only `pace` matters.
    `pace`: when the next access may be read.
    `transport`: the result, until it is used.
    """

    access: Hashable = None
    task: asyncio.Task[None] | None = None
    pace: Pace = FIRST_PACE
    transport: Transport | None = None


class Sources:
    """The open watches and connections, kept equal to the sources that decisions ask for.

    `always`: returns the sources that are watched in any case. `connect`: makes a transport from a source's `access`.

    When an access changes, the old connection is used until all kinds have been listed through the new one.
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
        self._readings: dict[str, _Reading] = {}
        # The paces of clusters that were removed in the last minutes. A cluster that is deleted and created again does
        # not get a new burst of readings.
        self._left_paces: dict[str, Pace] = {}
        # Accesses are read one after the other, so that many costly ones do not use the processor at the same time.
        self._reader = asyncio.Semaphore(1)
        # The number of configurations and the demands of decisions at the last `follow`.
        self._last: tuple[int, Set[Source]] | None = None
        # All sources at the last `follow`, and the clusters whose access has been read since then.
        self._asked: Set[Source] = frozenset()
        self._read_since: set[str] = set()

    def add_home(self, transport: Transport, writer: Writer) -> None:
        self._ways[""] = _Way(None, transport, set())
        self._sender.writers[""] = writer

    def transport(self, cluster: str) -> Transport | None:
        way = self._ways.get(cluster)
        return way.transport if way else None

    def follow(self, group: asyncio.TaskGroup) -> None:
        """Open and close watches, if a configuration or the demands of decisions have changed since the last call."""
        configurations, demands = self._loop.configurations, self._loop.sources()
        if self._last is not None and configurations == self._last[0] and demands is self._last[1]:
            return
        self._last = (configurations, demands)
        # There may be hundreds of clusters, so a change of one must not cause work for the others.
        changed, sources = self._changed(self._always() | demands)
        clusters, places = {source.cluster for source in sources}, {(source.cluster, source.kind) for source in sources}
        known = {*self._ways, *self._refused, *self._readings}
        for cluster in [name for name in changed if name in known and name and name not in clusters]:
            self._close(cluster, group)
        for cluster, kind in self._pump.opened():
            if cluster in changed and (cluster, kind) not in places:
                self._pump.close(cluster, kind)
        for source in sorted(sources, key=lambda source: (source.cluster, source.kind)):
            way = self._ways.get(source.cluster) or self._opened(source, group)
            if way is not None:
                self._pump.open(group, way.transport, source.cluster, source.kind, source.keep)
                if way.access != source.access:
                    self._hand_over(source, group)
                elif source.cluster:
                    self._keep(source.cluster, group)
        # The rows of connections were written above, after all decisions had run. So decisions have to run again.
        self._pump.changed()

    def _changed(self, asked: Set[Source]) -> tuple[set[str], set[Source]]:
        """Return the clusters whose sources have changed or whose access has been read, and all sources of these."""
        changed = {source.cluster for source in asked ^ self._asked} | self._read_since
        self._asked = asked
        self._read_since = set()
        return changed, self._merged({source for source in asked if source.cluster in changed})

    def stop(self) -> None:
        self._pump.close_all()
        for reading in self._readings.values():
            if reading.task is not None:
                reading.task.cancel()

    async def close(self) -> None:
        """Close the connections to other clusters. The caller that opened the home cluster's connection closes that."""
        for way in (*(way for cluster, way in self._ways.items() if cluster), *self._coming.values()):
            await way.transport.close()
        for reading in self._readings.values():
            if reading.transport is not None:
                await reading.transport.close()

    def _opened(self, source: Source, group: asyncio.TaskGroup) -> _Way | None:
        transport = self._transport(source, group)
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
            transport = self._transport(source, group)
            if transport is None:
                return
            way = self._coming[cluster] = _Way(source.access, transport, set())
        if source.kind not in way.waits:
            way.waits.add(source.kind)
            seen = lambda: self._seen(cluster, source.kind, group)  # noqa: E731
            self._pump.take_over(group, way.transport, cluster, source.kind, seen)

    def _seen(self, cluster: str, kind: str, group: asyncio.TaskGroup) -> None:
        """Note that a kind has been listed through the new access. Once all kinds are, close the old connection."""
        way = self._coming[cluster]
        way.waits.discard(kind)
        if way.waits:
            return
        old, self._ways[cluster] = self._ways[cluster], self._coming.pop(cluster)
        self._sender.writers[cluster] = self._writer(way.transport)
        self._pump.connections.rotated(cluster, way.access)
        group.create_task(old.transport.close(), name=f"close {cluster}")

    def _keep(self, cluster: str, group: asyncio.TaskGroup) -> None:
        """Keep the present access, which decisions ask for again. Drop its successor, and forget a refusal of that."""
        reading = self._readings.get(cluster)
        if reading is not None and reading.access is not None:
            self._drop_reading(cluster, group)
            self._readings[cluster] = _Reading(pace=reading.pace)
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

    def _transport(self, source: Source, group: asyncio.TaskGroup) -> Transport | None:
        """Return the transport of a source's access. If it has not been read yet, begin to read it and return None."""
        cluster = source.cluster
        if self._refused.get(cluster) == source.access:
            return None
        reading = self._readings.get(cluster)
        if reading is None or reading.access != source.access:
            reading = self._read_anew(source, reading, group)
        if reading.transport is None:
            return None
        transport, reading.transport, reading.access = reading.transport, None, None
        self._accept(cluster)
        return transport

    def _read_anew(self, source: Source, before: _Reading | None, group: asyncio.TaskGroup) -> _Reading:
        self._drop_reading(source.cluster, group)
        pace = before.pace if before else self._left_paces.pop(source.cluster, FIRST_PACE)
        reading = self._readings[source.cluster] = _Reading(source.access, pace=pace)
        name = f"read access {source.cluster}"
        reading.task = group.create_task(self._read(source, reading, group), name=name)
        return reading

    def _drop_reading(self, cluster: str, group: asyncio.TaskGroup) -> None:
        reading = self._readings.pop(cluster, None)
        if reading is not None and reading.task is not None:
            reading.task.cancel()
        if reading is not None and reading.transport is not None:
            group.create_task(reading.transport.close(), name=f"close {cluster}")

    async def _read(self, source: Source, reading: _Reading, group: asyncio.TaskGroup) -> None:
        """Read an access, and then call `follow` again, which could not go on without it."""
        await asyncio.sleep(reading.pace.next_at - self._clock.monotonic())
        async with self._reader:
            reading.pace = reading.pace.read(self._clock.monotonic())
            try:
                async with asyncio.timeout(READ_WITHIN):
                    reading.transport = await self._connect(source.access)
            except TimeoutError:
                self._refuse(source, Connection.INVALID, f"it could not be read within {READ_WITHIN:g} s")
            except KubeError as error:
                state = Connection.REJECTED if isinstance(error, ConfigRefused) else Connection.INVALID
                self._refuse(source, state, str(error))
            except Exception as error:  # noqa: BLE001 - a foreign kubeconfig must not end the process
                # Only the type and place are logged: the error's text may contain a secret of the kubeconfig.
                place = traceback.extract_tb(error.__traceback__)[-1]
                name = type(error).__name__
                log.error("access cannot be read", extra={"error": name, "at": f"{place.filename}:{place.lineno}"})
                self._refuse(source, Connection.INVALID, f"it cannot be used ({name})")
        reading.task = None
        if reading.transport is None:
            reading.access = None
        self._last = None
        self._read_since.add(source.cluster)
        self.follow(group)

    def _refuse(self, source: Source, state: str, why: str) -> None:
        """Refuse an access that cannot work as it is. It is not read again until it changes."""
        self._refused[source.cluster] = source.access
        log.warning("cluster cannot be opened", extra={"cluster": source.cluster, "error": why})
        self._pump.connections.refused(source.cluster, state, why)

    def _writer(self, transport: Transport) -> Writer:
        return Writer(transport, longest=LONGEST_AWAY)

    def _close(self, cluster: str, group: asyncio.TaskGroup) -> None:
        self._refused.pop(cluster, None)
        self._remember_pace(cluster)
        self._drop_reading(cluster, group)
        self._stay(cluster, group)
        for opened, kind in self._pump.opened():
            if opened == cluster:
                self._pump.close(opened, kind)
        way = self._ways.pop(cluster, None)
        if way is not None:
            del self._sender.writers[cluster]
            group.create_task(way.transport.close(), name=f"close {cluster}")
        self._pump.connections.closed(cluster)

    def _remember_pace(self, cluster: str) -> None:
        reading = self._readings.get(cluster)
        unsettled_for = reading.pace.settled_at - self._clock.monotonic() if reading is not None else 0.0
        if reading is not None and unsettled_for > 0:
            self._left_paces[cluster] = reading.pace
            asyncio.get_running_loop().call_later(unsettled_for + 1, self._forget_paces)

    def _forget_paces(self) -> None:
        now = self._clock.monotonic()
        self._left_paces = {name: pace for name, pace in self._left_paces.items() if pace.settled_at > now}

    def _merged(self, sources: Set[Source]) -> set[Source]:
        """Return one source for each kind and cluster, which keeps the fields that any of its readers needs.

        If the sources have different accesses, the one that is not in use yet counts: it is the newer one, and some
        decisions have not seen it yet.
        """
        found: dict[tuple[str, str], list[Source]] = {}
        for source in sources:
            found.setdefault((source.cluster, source.kind), []).append(source)
        return {several[0] if len(several) == 1 else self._one_of(several) for several in found.values()}

    def _one_of(self, several: list[Source]) -> Source:
        known, *others = sorted(several, key=repr)
        for source in others:
            way = self._ways.get(source.cluster)
            newer = known if way is not None and way.access == source.access else source
            known = msgspec.structs.replace(newer, keep=source.keep | known.keep)
        return known
