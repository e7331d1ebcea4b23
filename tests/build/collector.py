"""An OpenTelemetry collector that keeps the spans which it gets by OTLP/HTTP. It can refuse them, or be slow."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.rig.wait import eventually


class Collector:
    """The collector, with the spans that it has taken, in their order.

    `status`: its answer to each request. `goes_on`: not set, it does not answer before it is.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.resources: list[dict[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.status, self.requests = 200, 0
        self.goes_on = threading.Event()
        self.goes_on.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.requests += 1
                collector.goes_on.wait(60)
                if collector.status < 300:
                    collector.headers.append(dict(self.headers.items()))
                    collector.take(self.path, body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces", path
        for part in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.resources.append({each.key: each.value.string_value for each in part.resource.attributes})
            for scope in part.scope_spans:
                self.spans.extend(scope.spans)

    def traces(self) -> dict[str, list[Span]]:
        """Return the spans by the ids of their traces."""
        found: dict[str, list[Span]] = {}
        for each in list(self.spans):
            found.setdefault(each.trace_id.hex(), []).append(each)
        return found

    def await_spans(self, most: int = 1) -> list[Span]:
        """Wait for so many spans, and return those that are there then."""
        eventually(lambda: len(self.spans) >= most, f"{most} spans were exported")
        return list(self.spans)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.goes_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def attributes(span: Span) -> dict[str, str | int | list[str]]:
    """Return the attributes of a span: texts, numbers and lists of texts."""
    return {each.key: _value(each.value) for each in span.attributes}


def _value(value: object) -> str | int | list[str]:
    kind = value.WhichOneof("value")  # type: ignore[attr-defined]
    found = getattr(value, kind)
    return [each.string_value for each in found.values] if kind == "array_value" else found
