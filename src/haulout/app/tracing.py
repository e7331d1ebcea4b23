"""Exports the traces of maintenances when their records are closed. No maintenance waits for it.

A record that is closed while this process runs is exported at once, also if another client closes it. When leadership is gained, the
records that were closed shortly before are exported, maybe once more: the ids of their spans are the same (decision 0197).
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Iterable
from datetime import timedelta

import msgspec

from haulout.app.parts import CannotStart
from haulout.base.bounds import ORDINARY, is_within
from haulout.base.clock import Clock
from haulout.clients.otlp import Exporter, LibraryMissing
from haulout.cluster.key import Key, node_key
from haulout.cluster.rows import NodeRow, PodRow
from haulout.cluster.store import Store
from haulout.cluster.view import HOLD
from haulout.core.action import Delete, Evict
from haulout.core.cordon import ledger
from haulout.core.holds import HOLDS_OF_NODE, Hold
from haulout.core.logbook.retained import RecordEnd
from haulout.core.logbook.trace import MOST_REMOVALS, Removal, is_sampled, return_span, spans_of
from haulout.core.logbook.wire import KIND, OPEN_LABEL, RECORDS, MaintenanceRecord, RecordMeta, RecordRow, read_record
from haulout.kernel.requests import Answer, Refused
from haulout.kube.errors import ApiError, KubeError, NotFound
from haulout.kube.listing import read_list
from haulout.kube.transport import Transport
from haulout.runtime.metrics import Sample
from haulout.settings.settings import Traces

log = logging.getLogger("haulout.traces")

SPANS = "haulout_trace_spans_total"
# Records that were closed so long before this process began to lead are exported, in case that no other process did it.
REPEATED_FOR = timedelta(minutes=15)
# A node that is not given back so long after the record was closed gets no span for that.
RETURN_FOR = timedelta(hours=1)
# The most pods whose removal is followed, and the most slow removals that are remembered of a node.
MOST_PODS, MOST_OF_NODE = 10_000, 256
# The most records whose export is remembered, so that each is exported once.
MOST_EXPORTED = 10_000
# The longest pause between two looks at what is left to do, in seconds.
LOOK_EVERY = 30.0
FLUSHED_WITHIN = 3.0


class Tracing:
    """The exporter of a process's traces, with what it has to remember until records are closed.

    `leads`: whether this replica is the leader, which alone exports.
    """

    def __init__(self, settings: Traces, store: Store, clock: Clock, leads: Callable[[], bool]) -> None:
        try:
            self._exporter = Exporter(settings.endpoint, socket.gethostname())
        except LibraryMissing:
            raise CannotStart(
                "traces need libraries that are not installed: pip install 'haulout[otel]', or set traces.enabled to false"
            ) from None
        self._settings = settings
        self._store, self._clock, self._leads = store, clock, leads
        # The pods that drains are removing, and the slow removals that have ended, by node.
        self._removing: dict[Key, _Followed] = {}
        self._slow: dict[Key, deque[Removal]] = {}
        # The UIDs and names of the exported records, the oldest first, and the names of those that the watch still shows.
        self._exported: dict[str, str] = {}
        self._shown: set[str] = set()
        # The maintenances whose node is not given back yet, by the Node's name.
        self._returning: dict[str, list[MaintenanceRecord]] = {}
        # The names of records that have to be read.
        self._unread: deque[str] = deque()
        self._repeats = False
        self._due = asyncio.Event()
        store.on_version = _both(store.on_version, self._version_changed)
        store.on_replaced = _both(store.on_replaced, self._gone)

    def samples(self) -> Iterable[Sample]:
        """Return how many spans were sent and dropped."""
        return [(SPANS, (("result", result),), count + 0.0) for result, count in self._exporter.counts.items()]

    def gained(self) -> None:
        """Export soon the records that were closed shortly before this process began to lead."""
        self._repeats = True
        self._due.set()

    async def run(self, transport: Transport) -> None:
        """Read the records that others have closed, until cancelled."""
        while True:
            try:
                await self._work_off(transport)
            except KubeError as error:
                log.warning("records cannot be read, and their traces are exported later", extra={"error": str(error)})
            self._give_up()
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._due.wait()
            except TimeoutError:
                continue
            self._due.clear()

    async def close(self) -> None:
        """Send what waits, within a few seconds."""
        await asyncio.to_thread(self._exporter.close, FLUSHED_WITHIN)

    def asked(self, body: Evict | Delete) -> None:
        """Begin to follow the removal of a pod, or count another request for it."""
        known, row = self._removing.get(body.target), self._store.row(body.target)
        if known is not None and known.removal.uid == body.uid:
            known.removal = msgspec.structs.replace(known.removal, requests=known.removal.requests + 1)
        elif isinstance(row, PodRow) and len(self._removing) < MOST_PODS:
            verb = "evict" if isinstance(body, Evict) else "delete"
            removal = Removal(body.target.namespace, body.target.name, body.uid, verb, self._clock.now())
            self._removing[body.target] = _Followed(node_key(row.node, body.target.cluster), removal)

    def answered(self, body: Evict | Delete, answer: Answer) -> None:
        """Count a refusal by a PodDisruptionBudget."""
        known = self._removing.get(body.target)
        if known is not None and isinstance(answer, Refused) and answer.by_budget:
            known.removal = msgspec.structs.replace(known.removal, blocked=known.removal.blocked + 1)

    def _version_changed(self, key: Key) -> None:
        if key.kind == KIND and not key.cluster:
            row = self._store.row(key)
            if isinstance(row, RecordRow) and row.record is not None and row.labels.get(OPEN_LABEL) != "true":
                self._shown.add(key.name)
                self._export(_with_metadata(row))
        elif key.kind == "Node" and key.name in self._returning:
            self._look_at(key.name)

    def _gone(self, key: Key) -> None:
        if key in self._removing:
            self._removed(self._removing.pop(key))
        elif key.kind == HOLD and self._returning:
            for name in list(self._returning):
                self._look_at(name)
        elif key.kind == KIND and not key.cluster:
            if key.name not in self._shown and self._leads():
                # Another client has closed the record, or the answer to our write was lost.
                self._unread.append(key.name)
                self._due.set()
            self._shown.discard(key.name)

    def _removed(self, followed: _Followed) -> None:
        now = self._clock.now()
        if now - followed.removal.asked_at >= self._settings.slow_for:
            slow = self._slow.setdefault(followed.node, deque(maxlen=MOST_OF_NODE))
            slow.append(msgspec.structs.replace(followed.removal, gone_at=now))

    async def _work_off(self, transport: Transport) -> None:
        if self._repeats and self._leads():
            since = self._clock.now() - REPEATED_FOR
            for each in await read_list(transport, RECORDS.path, RecordEnd):
                ended_at = each.ended_at
                if ended_at is not None and ended_at >= since and each.metadata.uid not in self._exported:
                    self._unread.append(each.metadata.name)
            self._repeats = False
        while self._unread:
            await self._read(self._unread[0], transport)
            self._unread.popleft()

    async def _read(self, name: str, transport: Transport) -> None:
        try:
            reply = await transport.request("GET", f"{RECORDS.path}/{name}")
        except NotFound:
            return
        except ApiError as error:
            log.warning(
                "a record cannot be read, and its trace is not exported", extra={"record": name, "error": str(error)}
            )
            return
        try:
            found = msgspec.json.decode(reply.body)
        except (msgspec.DecodeError, RecursionError):
            return
        record = read_record(found) if is_within(found, ORDINARY) else None
        if record is not None and not record.is_open:
            self._export(record)

    def _export(self, record: MaintenanceRecord) -> None:
        """Export the trace of a closed record, once."""
        uid, node = record.metadata.uid, node_key(record.spec.node.name)
        if not self._leads() or uid in self._exported:
            return
        self._exported[uid] = record.metadata.name
        if len(self._exported) > MOST_EXPORTED:
            self._shown.discard(self._exported.pop(next(iter(self._exported))))
        removals = self._removals_of(node, record)
        if not is_sampled(uid, self._settings.percent):
            return
        self._exporter.put(spans_of(record, removals))
        if not self._is_given_back(record):
            self._returning.setdefault(node.name, []).append(record)

    def _removals_of(self, node: Key, record: MaintenanceRecord) -> list[Removal]:
        """Return the slowest removals during a maintenance. They are forgotten."""
        ended_at = record.status.ended_at or self._clock.now()
        begun_at = record.spec.begun_at or ended_at
        standing = [key for key, each in self._removing.items() if each.node == node]
        left = [self._removing.pop(key).removal for key in standing]
        known = [
            *self._slow.pop(node, ()),
            *(each for each in left if ended_at - each.asked_at >= self._settings.slow_for),
        ]
        during = [each for each in known if begun_at <= (each.gone_at or ended_at) and each.asked_at <= ended_at]
        return sorted(during, key=lambda each: each.asked_at - (each.gone_at or ended_at))[:MOST_REMOVALS]

    def _look_at(self, node: str) -> None:
        """Export the return of the maintenances that have given back a node."""
        now, records = self._clock.now(), self._returning.pop(node)
        left = [record for record in records if not self._is_given_back(record)]
        if left:
            self._returning[node] = left
        for record in records:
            span = return_span(record, now) if record not in left else None
            if span is not None:
                self._exporter.put((span,))

    def _is_given_back(self, record: MaintenanceRecord) -> bool:
        """Whether nothing of a maintenance is left on its node: no claim, and no cordon that no other claim needs."""
        node = node_key(record.spec.node.name)
        row = self._store.row(node)
        if not isinstance(row, NodeRow) or row.uid != record.spec.node.uid:
            return True
        rows = self._store.bucket(HOLDS_OF_NODE, "", node)
        claims = [each.claim for each in rows if isinstance(each, Hold) and each.claim.begun]
        owner = record.spec.owner
        if any(each.ending and each.owner == Key("", owner.kind, owner.namespace, owner.name) for each in claims):
            return False
        return not row.unschedulable or bool(claims) or ledger(row) is None

    def _give_up(self) -> None:
        """Forget the nodes that have not been given back for long."""
        oldest = self._clock.now() - RETURN_FOR
        for name, records in list(self._returning.items()):
            kept = [each for each in records if each.status.ended_at is not None and each.status.ended_at >= oldest]
            if kept:
                self._returning[name] = kept
            else:
                del self._returning[name]


class _Followed:
    """The removal of a pod of a node that has not ended."""

    def __init__(self, node: Key, removal: Removal) -> None:
        self.node = node
        self.removal = removal


def _with_metadata(row: RecordRow) -> MaintenanceRecord:
    """Return the record of a row, whose metadata are those of the row."""
    record = row.record or MaintenanceRecord()
    return msgspec.structs.replace(record, metadata=RecordMeta(name=row.key.name, uid=row.uid, labels=dict(row.labels)))


def _both(first: Callable[[Key], None], second: Callable[[Key], None]) -> Callable[[Key], None]:
    """Return a function that calls both. A failure of the second is logged, so that it holds no maintenance up."""

    def both(key: Key) -> None:
        first(key)
        try:
            second(key)
        except Exception:
            log.exception("a trace is not whole", extra={"object": str(key)})

    return both
