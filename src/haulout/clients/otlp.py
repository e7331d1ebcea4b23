"""Sends traces to an OpenTelemetry collector by OTLP/HTTP, in a thread of its own. Nothing waits for it."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from haulout import __version__
from haulout.base.url import without_secrets
from haulout.core.logbook.trace import Span

if TYPE_CHECKING:
    import requests
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

log = logging.getLogger("haulout.traces")

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The path that OTLP/HTTP appends to an address without one.
PATH = "/v1/traces"
# The variables with the collector's address, and its address if nothing says any.
VARIABLES, NEAREST = (
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    "http://localhost:4318",
)
# The most spans that wait for the collector: about 15 MB. Beyond that, the oldest are dropped.
MOST_WAITING = 10_000
# The most spans in a request.
MOST_AT_ONCE = 512
# The most bytes of an answer that are read.
MOST_READ = 2**16
# After a failure the next attempt waits so many seconds, then twice as long, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 60.0
# These answers, as those of 500 and above, say that the same request may succeed later.
LATER = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})


class LibraryMissing(Exception):
    """The packages of the extra `otel` are not installed."""


class Exporter:
    """A sender of spans to one collector. `put` never blocks, and a collector that fails costs spans alone.

    `endpoint`: the collector's address, with or without a path. Empty: the variables of OpenTelemetry say it. The other
    variables of the exporter (`OTEL_EXPORTER_OTLP_HEADERS`, `_TIMEOUT`, `_COMPRESSION`, `_CERTIFICATE`) are obeyed, too.
    `instance`: tells the spans of this process from those of other replicas.
    `counts`: how many spans were sent and how many were dropped.
    """

    def __init__(self, endpoint: str, instance: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        except ImportError:
            raise LibraryMissing from None
        import requests

        self._failure = _Failure()
        session = requests.Session()
        session.hooks["response"].append(self._failure.answered)
        self._client = OTLPSpanExporter(endpoint=traces_url(endpoint) or None, session=session)
        self._endpoint = traces_url(endpoint) or next(filter(None, map(os.environ.get, VARIABLES)), NEAREST)
        own = {"service.name": "haulout", "service.version": __version__, "service.instance.id": instance}
        # The variables OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES win.
        self._resource = Resource.create(own).merge(OTELResourceDetector().detect())
        self.counts = {"sent": 0, "dropped": 0}
        self._waiting: deque[Span] = deque()
        # How many spans are in the request that is under way.
        self._sending = 0
        self._condition = threading.Condition()
        self._is_closing = False
        self._is_failing = False
        self._thread: threading.Thread | None = None

    def put(self, spans: Sequence[Span]) -> None:
        """Queue spans. The oldest are dropped if too many wait."""
        with self._condition:
            self._waiting.extend(spans)
            self._shorten()
            self._condition.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="traces", daemon=True)
                self._thread.start()

    def close(self, within: float) -> None:
        """Send what waits, for at most so many seconds. Spans that a collector did not take by then are dropped."""
        with self._condition:
            self._is_closing = True
            self._condition.notify()
        if self._thread is not None:
            self._thread.join(within)
        # This ends the pause before another attempt.
        self._client.shutdown()  # type: ignore[no-untyped-call]
        with self._condition:
            lost = len(self._waiting) + self._sending
            self._waiting.clear()
        if lost:
            self.counts["dropped"] += lost
            log.warning("traces were not exported before the end", extra={"spans": lost})

    def _shorten(self) -> None:
        while len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self.counts["dropped"] += 1

    def _run(self) -> None:
        with self._failure.listening():
            pause = FIRST_PAUSE
            while batch := self._next_batch():
                if self._sends(batch):
                    pause = FIRST_PAUSE
                    continue
                with self._condition:
                    if self._is_closing:
                        return
                    self._condition.wait_for(lambda: self._is_closing, pause)
                pause = min(pause * 2, LONGEST_PAUSE)

    def _next_batch(self) -> list[Span]:
        """Wait for spans and return the oldest of them; none if the exporter is closing and nothing waits."""
        with self._condition:
            self._condition.wait_for(lambda: self._waiting or self._is_closing)
            self._sending = min(len(self._waiting), MOST_AT_ONCE)
            return [self._waiting.popleft() for _ in range(self._sending)]

    def _sends(self, batch: list[Span]) -> bool:
        """Send spans. Return False if they are to be sent again later, because they may be taken then."""
        self._failure.clear()
        try:
            is_sent = self._client.export([_readable(span, self._resource) for span in batch]).name == "SUCCESS"
        except Exception as error:  # noqa: BLE001 - whatever the library raises must not end the thread
            self._failure.why, is_sent = f"{type(error).__name__}: {error}", False
        if is_sent:
            self._sending = 0
            self._note_success(len(batch))
            return True
        is_refused = self._failure.is_final
        with self._condition:
            self._sending = 0
            if is_refused:
                self.counts["dropped"] += len(batch)
            else:
                self._waiting.extendleft(reversed(batch))
                self._shorten()
        self._note_failure()
        return is_refused

    def _note_success(self, count: int) -> None:
        self.counts["sent"] += count
        if self._is_failing:
            self._is_failing = False
            log.info("traces are exported again")

    def _note_failure(self) -> None:
        """Log the first failure of several."""
        if self._is_failing:
            return
        self._is_failing = True
        log.warning(
            "traces are not exported, and maintenances go on without them",
            extra={
                "endpoint": without_secrets(self._endpoint),
                "error": without_secrets(self._failure.text),
                "act": "check traces.endpoint, the collector, and the headers in OTEL_EXPORTER_OTLP_HEADERS",
            },
        )


class _Failure(logging.Handler):
    """Why the last export failed. The library says so in log lines alone, which are taken from it here."""

    def __init__(self) -> None:
        super().__init__()
        self.why, self._status = "", 0

    def clear(self) -> None:
        self.why, self._status = "", 0

    def answered(self, response: requests.Response, **_: object) -> None:
        """Note an answer of the collector. Of its body only the beginning is read, which may be without end."""
        self._status = response.status_code
        response._content = response.raw.read(MOST_READ)  # noqa: SLF001 - requests has no way to bound a body
        response._content_consumed = True  # noqa: SLF001
        response.close()

    def emit(self, record: logging.LogRecord) -> None:
        self.why = record.getMessage()

    @property
    def text(self) -> str:
        return f"HTTP {self._status}" if self._status else self.why or "no answer"

    @property
    def is_final(self) -> bool:
        """Whether the collector refused the spans, so that it would refuse them again."""
        return HTTPStatus.BAD_REQUEST <= self._status < HTTPStatus.INTERNAL_SERVER_ERROR and self._status not in LATER

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Let the log lines of the library come here alone."""
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False
        try:
            yield
        finally:
            logger.removeHandler(self)


def _readable(span: Span, resource: Resource) -> ReadableSpan:
    """Return a span in the form of OpenTelemetry, with the ids that it has here."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, Status, StatusCode, TraceFlags

    def context(identity: str) -> SpanContext:
        flags = TraceFlags(TraceFlags.SAMPLED)
        return SpanContext(int(span.trace, 16), int(identity, 16), is_remote=False, trace_flags=flags)

    return ReadableSpan(
        span.name,
        context(span.id),
        context(span.parent) if span.parent else None,
        resource,
        dict(span.attributes),
        status=Status(StatusCode.ERROR, span.error) if span.error else Status(StatusCode.UNSET),
        start_time=_nanoseconds(span.begun_at),
        end_time=_nanoseconds(span.ended_at),
        instrumentation_scope=InstrumentationScope("haulout", __version__),
    )


def _nanoseconds(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1) * 1000


def traces_url(endpoint: str) -> str:
    """Return the address that traces are sent to. The path of OTLP/HTTP is appended where there is none."""
    return f"{endpoint.rstrip('/')}{PATH}" if endpoint and urlsplit(endpoint).path in ("", "/") else endpoint
