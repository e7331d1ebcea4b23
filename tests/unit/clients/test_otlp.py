"""The exporter of traces: what a collector gets, and what a collector that fails costs."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from haulout.clients import otlp
from haulout.clients.otlp import Exporter, LibraryMissing, traces_url
from haulout.core.logbook.trace import Span
from tests.build.collector import Collector, attributes
from tests.rig.process import free_port
from tests.rig.wait import eventually

AT = datetime(2026, 3, 1, 10, 0, 0, 250_000, tzinfo=UTC)


def span(number: int = 1, **fields: object) -> Span:
    made = {"parent": "", "begun_at": AT, "ended_at": AT + timedelta(seconds=2), **fields}
    return Span(trace="ab" * 16, id=f"{number:016x}", name=f"span {number}", **made)  # type: ignore[arg-type]


def lines(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Return our own log lines. pytest also sees those that the library writes and no handler prints."""
    return [each for each in caplog.records if each.name == "haulout.traces"]


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as made:
        yield made


@pytest.fixture
def exporter(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[Exporter]:
    monkeypatch.setattr(otlp, "FIRST_PAUSE", 0.01)
    made = Exporter(collector.url, "pod-1")
    yield made
    collector.goes_on.set()
    made.close(within=30)


def test_a_span_arrives_as_it_is(collector: Collector, exporter: Exporter) -> None:
    known = (("haulout.surface", "notify"), ("haulout.pods.evicted", 3), ("haulout.limits", ("one", "two")))
    child = span(2, parent="00000000000000ff", attributes=known, error="it failed")
    exporter.put((span(1), child))
    root, found = collector.await_spans(2)
    assert (root.trace_id.hex(), root.span_id.hex(), root.parent_span_id) == ("ab" * 16, f"{1:016x}", b"")
    assert root.start_time_unix_nano == 1772359200_250_000_000
    assert root.end_time_unix_nano - root.start_time_unix_nano == 2_000_000_000
    assert (found.parent_span_id.hex(), found.status.message) == ("00000000000000ff", "it failed")
    assert attributes(found) == {
        "haulout.surface": "notify",
        "haulout.pods.evicted": 3,
        "haulout.limits": ["one", "two"],
    }
    (resource,) = collector.resources
    assert (resource["service.name"], resource["service.instance.id"]) == ("haulout", "pod-1")


def test_the_variables_of_opentelemetry_are_obeyed(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20abc")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "maintenances")
    exporter = Exporter("", "pod-1")
    exporter.put((span(),))
    collector.await_spans()
    exporter.close(within=30)
    assert collector.headers[0]["authorization"] == "Bearer abc"
    assert collector.resources[0]["service.name"] == "maintenances"


def test_a_collector_that_is_busy_gets_the_same_spans_later(collector: Collector, exporter: Exporter) -> None:
    collector.status = 500
    exporter.put((span(),))
    eventually(lambda: collector.requests >= 2, "it is tried again")
    collector.status = 200
    assert [each.name for each in collector.await_spans()] == ["span 1"]
    eventually(lambda: exporter.counts == {"sent": 1, "dropped": 0}, "it is counted")


def test_a_collector_that_refuses_spans_does_not_get_them_again(
    collector: Collector, exporter: Exporter, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    collector.status = 401
    exporter.put((span(1),))
    eventually(lambda: exporter.counts["dropped"] == 1, "it was dropped")
    exporter.put((span(2),))
    eventually(lambda: exporter.counts["dropped"] == 2, "the next was dropped, too")
    collector.status = 200
    exporter.put((span(3),))
    assert [each.name for each in collector.await_spans()] == ["span 3"]
    eventually(lambda: len(lines(caplog)) == 2, "the end of the failure was logged")
    failed, works = lines(caplog)
    assert (failed.levelname, failed.__dict__["error"]) == ("WARNING", "HTTP 401")
    assert "OTEL_EXPORTER_OTLP_HEADERS" in failed.__dict__["act"]
    assert works.message == "traces are exported again"


def test_a_dead_collector_is_logged_once_and_ends_in_time(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    exporter = Exporter(f"http://127.0.0.1:{free_port()}", "pod-1")
    exporter.put((span(1),))
    eventually(lambda: lines(caplog), "the failure was logged")
    exporter.put((span(2),))
    exporter.close(within=0.1)
    assert [each.levelname for each in lines(caplog)] == ["WARNING", "WARNING"]
    assert [each.message for each in lines(caplog)][1] == "traces were not exported before the end"


def test_no_more_spans_wait_than_have_room(
    collector: Collector, exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "MOST_WAITING", 3)
    collector.goes_on.clear()
    exporter.put((span(1),))
    eventually(lambda: collector.requests == 1, "the collector does not answer")
    exporter.put([span(number) for number in range(2, 8)])
    collector.goes_on.set()
    assert [each.name for each in collector.await_spans(4)] == ["span 1", "span 5", "span 6", "span 7"]
    assert exporter.counts["dropped"] == 3


def test_what_waits_is_sent_at_the_end(collector: Collector) -> None:
    exporter = Exporter(collector.url, "pod-1")
    exporter.put([span(number) for number in range(1200)])
    exporter.close(within=30)
    assert len(collector.spans) == 1200
    assert [each.name for each in threading.enumerate() if each.name == "traces"] == []


@pytest.fixture
def endless() -> Iterator[str]:
    """The address of a collector whose answers have no end."""

    class Endless(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b"x" * 2**16)

        def log_message(self, *_: object) -> None:
            """Keep the requests out of the output of the tests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endless) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_answer_without_end_is_read_in_part(endless: str) -> None:
    exporter = Exporter(endless, "pod-1")
    exporter.put([span(1)])
    eventually(lambda: exporter.counts["sent"] == 1, "the first span is sent")
    exporter.put([span(2)])
    eventually(lambda: exporter.counts["sent"] == 2, "the second span is sent")
    exporter.close(within=30)


def test_a_queue_does_not_wait_for_a_collector_that_does_not_answer(collector: Collector, exporter: Exporter) -> None:
    collector.goes_on.clear()
    for number in range(50):
        exporter.put((span(number),))
    assert collector.spans == []


def test_without_the_extra_there_is_no_exporter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    with pytest.raises(LibraryMissing):
        Exporter("", "pod-1")


@pytest.mark.parametrize(
    "endpoint, url",
    [
        ("", ""),
        ("http://a:4318", "http://a:4318/v1/traces"),
        ("http://a:4318/", "http://a:4318/v1/traces"),
        ("https://a/otlp/v1/traces", "https://a/otlp/v1/traces"),
    ],
)
def test_the_path_is_appended_where_there_is_none(endpoint: str, url: str) -> None:
    assert traces_url(endpoint) == url
