"""A small HTTPS server that plays admission webhooks: the path says what it answers, and it remembers what it was sent.

`/deny/<case>` denies, `/patch/<case>` adds a label, and so on; see `verdict`.
"""

from __future__ import annotations

import base64
import http.server
import json
import ssl
import threading
from collections import defaultdict
from http import HTTPStatus
from types import TracebackType
from typing import Any, Self

import trustme

Json = dict[str, Any]


class Hooks:
    """A server of webhooks that serves as long as its `with` block lasts."""

    def __init__(self) -> None:
        authority = trustme.CA()
        self.received: dict[str, list[Json]] = defaultdict(list)
        self.ca_bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.hooks = self
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(tls)
        self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    def client(self, act: str, case: str) -> Json:
        """Return the `clientConfig` of a webhook."""
        port = self._server.server_address[1]
        return {"url": f"https://127.0.0.1:{port}/{act}/{case}", "caBundle": self.ca_bundle}

    def calls(self, act: str, case: str) -> list[Json]:
        return self.received[f"/{act}/{case}"]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    hooks: Hooks

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore the broken connections of a server that is stopped."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        self.server.hooks.received[path].append(review["request"])
        act = path.split("/")[1]
        if act == "broken":
            self._reply(HTTPStatus.INTERNAL_SERVER_ERROR, b"broken on purpose")
            return
        answer = {**verdict(act, review["request"]), "uid": review["request"]["uid"]}
        body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
        self._reply(HTTPStatus.OK, json.dumps(body).encode())

    def _reply(self, status: HTTPStatus, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is the base class's
        """Log nothing."""


def verdict(act: str, request: Json) -> Json:
    match act:
        case "deny" | "probe":
            return {"allowed": False}
        case "deny-told":
            return {"allowed": False, "status": {"message": "not on a Monday"}}
        case "deny-coded":
            return {"allowed": False, "status": {"message": "teapot", "code": 418, "reason": "Teapot"}}
        case "deny-reason":
            return {"allowed": False, "status": {"reason": "Because"}}
        case "deny-bad-code":
            return {"allowed": False, "status": {"message": "no", "code": 200}}
        case "deny-moving":
            # As KubeVirt answers while it moves a virtual machine to another node.
            details = {"retryAfterSeconds": 60}
            told = {"message": "it is being moved", "code": 429, "reason": "TooManyRequests", "details": details}
            return {"allowed": False, "status": told}
        case "warn":
            return {"allowed": True, "warnings": ["first warning", "second warning"]}
        case "deny-warn":
            return {"allowed": False, "status": {"message": "no"}, "warnings": ["told you"]}
        case "patch":
            return patched([{"op": "add", "path": "/metadata/labels", "value": {"patched": "yes"}}])
        case "patch-annotation":
            labels = request["object"]["metadata"].get("labels", {})
            seen = ",".join(sorted(labels))
            return patched([{"op": "add", "path": "/metadata/annotations", "value": {"labels-seen": seen}}])
        case "patch-invalid":
            return patched([{"op": "add", "path": "/metadata/labels", "value": {"patched": "not valid!"}}])
        case "patch-failing":
            return patched([{"op": "remove", "path": "/metadata/labels/none"}])
        case "patch-name":
            return patched([{"op": "replace", "path": "/metadata/name", "value": "other"}])
    return {"allowed": True}


def patched(operations: list[Json]) -> Json:
    return {
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(operations).encode()).decode(),
    }
