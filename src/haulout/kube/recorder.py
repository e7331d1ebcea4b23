"""Writes Kubernetes events, each in the name of its surface. Repetitions are merged, and the queue is bounded."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Hashable
from datetime import datetime
from random import Random
from typing import Any, Literal, Never

from msgspec import Struct

from haulout.base.backoff import Backoff, Sleep
from haulout.base.clock import Clock
from haulout.kube.errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    KubeError,
    NotFound,
    RequestTimeout,
    ServerFailure,
    TooManyRequests,
)
from haulout.kube.writer import Guard, Withheld, Writer
from haulout.model.event import CoreEvent, Event, EventMeta, EventSource, ObjectReference, Series
from haulout.model.meta import wire_micro_time, wire_time

log = logging.getLogger(__name__)

# As in client-go, tools/events/event_broadcaster.go: a series ends after SERIES_FOR seconds without a repetition. While
# it goes on, it is written every REFRESH_AFTER seconds.
SERIES_FOR = 6 * 60.0
REFRESH_AFTER = 30 * 60.0
# API servers delete events after an hour by default.
CORE_FOR = 60 * 60.0
# Repetitions of an event in the core API are collected for so many seconds, and written with one request.
REPEATED_AFTER = 2.0
_TICK = 60.0
# Enough for up to three transitions of a thousand nodes within half a minute. The server needs twice as long to store
# them.
MOST_QUEUED = 10_000
# The longest texts that the server's validation accepts.
_NOTE_BYTES = 1024
_INSTANCE_LENGTH = 128
_NAME_LENGTH = 253


class Reporter(Struct, frozen=True):
    """The name and the API with which events are written. Some surfaces' roles allow only the core API, "v1"."""

    controller: str
    instance: str
    api: Literal["events.k8s.io/v1", "v1"] = "events.k8s.io/v1"


class _Happening(Struct, eq=False):
    """One event with its repetitions so far.

    `seen_at`, `written_at`: the `monotonic()` of the last repetition and of the last write.
    `count`: how often it has happened. `written`: the count that the server has.
    `queued`: the event waits to be written. `collects`: its repetitions are being collected.
    """

    reporter: Reporter
    type: str
    reason: str
    action: str
    note: str
    regarding: ObjectReference
    related: ObjectReference | None
    name: str
    first_at: datetime
    last_at: datetime
    seen_at: float
    written_at: float
    count: int = 1
    written: int = 0
    queued: bool = False
    collects: bool = False

    @property
    def core(self) -> bool:
        return self.reporter.api == "v1"

    @property
    def due(self) -> bool:
        """Whether the event has to be written as soon as it can be.

        In the core API that holds for every repetition. In events.k8s.io it holds for the event itself and its first
        repetition. Further repetitions are written at intervals and when the series ends.
        """
        return self.written < (self.count if self.core else min(self.count, 2))

    def ended(self, now: float) -> bool:
        return now - self.seen_at >= (CORE_FOR if self.core else SERIES_FOR)

    @property
    def namespace(self) -> str:
        return self.regarding.namespace or "default"

    @property
    def collection(self) -> str:
        prefix = "/api/v1" if self.core else "/apis/events.k8s.io/v1"
        return f"{prefix}/namespaces/{self.namespace}/events"

    def body(self) -> Event | CoreEvent:
        meta = EventMeta(self.name, self.namespace)
        if self.core:
            return CoreEvent(
                api_version="v1",
                kind="Event",
                metadata=meta,
                involved_object=self.regarding,
                related=self.related,
                reason=self.reason,
                message=self.note,
                source=EventSource(self.reporter.controller),
                first_timestamp=wire_time(self.first_at),
                last_timestamp=wire_time(self.last_at),
                count=self.count,
                type=self.type,
                action=self.action,
                reporting_component=self.reporter.controller,
                reporting_instance=self.reporter.instance[:_INSTANCE_LENGTH],
            )
        return Event(
            api_version="events.k8s.io/v1",
            kind="Event",
            metadata=meta,
            event_time=wire_micro_time(self.first_at),
            reporting_controller=self.reporter.controller,
            reporting_instance=self.reporter.instance[:_INSTANCE_LENGTH],
            action=self.action or self.reason,
            reason=self.reason,
            type=self.type,
            regarding=self.regarding,
            related=self.related,
            note=self.note,
            series=self._series() if self.count > 1 else None,
        )

    def repetition(self) -> dict[str, Any]:
        """Return the patch that writes the count of repetitions to the event."""
        if self.core:
            return {"count": self.count, "lastTimestamp": wire_time(self.last_at)}
        return {"series": self._series()}

    def _series(self) -> Series:
        return Series(self.count, wire_micro_time(self.last_at))


class Recorder:
    """A writer of Kubernetes events, which works in the background and merges events that repeat.

    `record` never waits and never fails; `run` writes. If the queue is full, the oldest event is dropped. An event that
    the `guard` withholds is dropped, too: a replica that no longer leads writes no events. `dropped` counts both.
    """

    def __init__(
        self,
        writer: Writer,
        clock: Clock,
        *,
        queue: int = MOST_QUEUED,
        known: int = 4096,
        tries: int = 5,
        at_once: int = 16,
        guard: Guard | None = None,
        random: Random | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._writer = writer
        self._clock = clock
        self._queue: deque[_Happening] = deque()
        self._queue_limit = queue
        # Events whose repetitions are being collected, each with the `monotonic()` at which they are written.
        self._collecting: deque[tuple[float, _Happening]] = deque()
        self._known: dict[Hashable, _Happening] = {}
        self._known_limit = known
        self._tries = tries
        self._at_once = at_once
        self._guard = guard
        self._random = random or Random()  # noqa: S311
        self._sleep = sleep
        self._wake = asyncio.Event()
        self._last_name = 0
        # What the role does not allow, by API and kind. It is reported once, because it lasts.
        self._forbidden: set[tuple[str, str]] = set()
        self.dropped = 0
        self.failed = 0

    def record(
        self,
        reporter: Reporter,
        regarding: ObjectReference,
        reason: str,
        note: str,
        *,
        action: str = "",
        type: Literal["Normal", "Warning"] = "Normal",  # noqa: A002
        related: ObjectReference | None = None,
        by_note: bool = False,
    ) -> None:
        """Record an event. If it repeats a known one, only the count of the known one grows.

        In events.k8s.io a repetition may have another note. In the core API its object may have another version.

        `by_note`: an event with another note is another event in events.k8s.io, too.
        """
        about: Hashable = (regarding, note) if by_note else regarding
        if reporter.api == "v1":
            about = (regarding.kind, regarding.namespace, regarding.name, regarding.uid, regarding.api_version, note)
        key = (reporter, type, reason, action, related, about)
        known = self._known.pop(key, None)
        now, elapsed = self._clock.now(), self._clock.monotonic()
        if known is None or known.ended(elapsed):
            known = _Happening(
                reporter=reporter,
                type=type,
                reason=reason,
                action=action,
                note=note.encode()[:_NOTE_BYTES].decode(errors="ignore"),
                regarding=regarding,
                related=related,
                name=self._name(regarding.name, now),
                first_at=now,
                last_at=now,
                seen_at=elapsed,
                written_at=elapsed,
            )
        else:
            known.count += 1
            known.last_at, known.seen_at = now, elapsed
        self._known[key] = known
        if len(self._known) > self._known_limit:
            del self._known[next(iter(self._known))]
        self._schedule(known)

    async def run(self) -> Never:
        while True:
            self._take_collected()
            await self._write_queued()
            self._wake.clear()
            try:
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()
            except TimeoutError:
                self._tick()

    def _pause(self) -> float | None:
        """Return how many seconds `run` may sleep if no event is recorded meanwhile; None if without limit."""
        if self._collecting:
            return max(0.0, self._collecting[0][0] - self._clock.monotonic())
        return _TICK if self._known else None

    async def flush(self, within: float = 5.0) -> None:
        """Write all unwritten events after `run` has ended. Each is tried once, within so many seconds for all."""
        for known in (*self._known.values(), *(happening for _, happening in self._collecting)):
            if known.count > known.written:
                self._enqueue(known)
        self._known.clear()
        self._collecting.clear()
        self._tries = 1
        try:
            async with asyncio.timeout(within):
                await self._write_queued()
        except TimeoutError:
            self.dropped += len(self._queue)

    def _name(self, name: str, now: datetime) -> str:
        """Return the name of a new event. It is unique even if many events happen at the same instant."""
        self._last_name = max(self._last_name + 1, int(now.timestamp() * 1e6) * 1000)
        suffix = f".{self._last_name:x}"
        return name[: _NAME_LENGTH - len(suffix)].rstrip(".-") + suffix

    def _schedule(self, happening: _Happening) -> None:
        """Queue an event if it is due: the first time at once, and repetitions in the core API after a short while."""
        if not happening.due:
            return
        if not (happening.core and happening.written):
            self._enqueue(happening)
        elif not (happening.queued or happening.collects):
            happening.collects = True
            self._collecting.append((self._clock.monotonic() + REPEATED_AFTER, happening))
            self._wake.set()

    def _take_collected(self) -> None:
        now = self._clock.monotonic()
        while self._collecting and self._collecting[0][0] <= now:
            _, happening = self._collecting.popleft()
            happening.collects = False
            self._enqueue(happening)

    def _enqueue(self, happening: _Happening) -> None:
        if happening.queued:
            return
        if len(self._queue) >= self._queue_limit:
            self._queue.popleft().queued = False
            self.dropped += 1
        happening.queued = True
        self._queue.append(happening)
        self._wake.set()

    def _tick(self) -> None:
        now = self._clock.monotonic()
        for key, known in list(self._known.items()):
            if known.count > known.written and (known.ended(now) or now - known.written_at >= REFRESH_AFTER):
                self._enqueue(known)
            if known.ended(now):
                del self._known[key]

    async def _write_queued(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(self._at_once, len(self._queue)))]
            writes = []
            try:
                async with asyncio.TaskGroup() as group:
                    writes = [group.create_task(self._write(happening)) for happening in batch]
            finally:
                # Writes that were cancelled go back into the queue, and `flush` repeats them. An event keeps its name,
                # so it is not created twice.
                unfinished = [each for each, write in zip(batch, writes, strict=True) if write.cancelled()]
                self._queue.extendleft(reversed(unfinished))

    async def _write(self, happening: _Happening) -> None:
        backoff = Backoff(0.5, 10.0, self._random)
        while True:
            try:
                await self._send(happening)
            except (ConnectionFailed, RequestTimeout, ServerFailure, TooManyRequests) as error:
                wait = backoff.fail() + (error.retry_after or 0.0 if isinstance(error, ApiError) else 0.0)
                if backoff.failures < self._tries:
                    await self._sleep(min(wait, 60.0))
                    continue
                self._give_up(happening, error)
            except Withheld:
                happening.queued = False
                self.dropped += 1
            except KubeError as error:
                self._give_up(happening, error)
            else:
                happening.queued = False
                self._schedule(happening)
            return

    async def _send(self, happening: _Happening) -> None:
        # Events take turns by the object that they are about. With one key for all, events would get one turn in a
        # hundred during a busy rollout.
        count, key = happening.count, ("events", happening.regarding)
        if happening.written:
            try:
                path = f"{happening.collection}/{happening.name}"
                await self._writer.merge_patch(path, happening.repetition(), key=key, slim=True, guard=self._guard)
            except NotFound:
                # The server has deleted the event, as it does after an hour. The repetition becomes a new event.
                await self._writer.create(happening.collection, happening.body(), key=key, slim=True, guard=self._guard)
        else:
            try:
                await self._writer.create(happening.collection, happening.body(), key=key, slim=True, guard=self._guard)
            except Conflict as error:
                if not error.exists:
                    raise
        happening.written, happening.written_at = count, self._clock.monotonic()

    def _give_up(self, happening: _Happening, error: KubeError) -> None:
        happening.queued = False
        self.failed += 1
        if isinstance(error, Forbidden):
            refused = happening.reporter.api, happening.regarding.kind
            if refused in self._forbidden:
                return
            self._forbidden.add(refused)
        about = f"{happening.regarding.kind} {happening.namespace}/{happening.regarding.name}"
        log.warning("event not written", extra={"about": about, "reason": happening.reason, "error": str(error)})
