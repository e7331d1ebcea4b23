"""NotifyMaintenances of the rig: their API, the operator that serves them, and a web server that carries out steps."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.rig.api import CRDS, Api, ApiError, Json
from tests.rig.operator import HAULOUT, JSON_LOG, Operator, Platform, environment
from tests.rig.plane import Cluster
from tests.rig.process import Process
from tests.rig.rights import printed
from tests.rig.wait import eventually

NMS = "ngn2.nvidia.com/v1alpha1/notifymaintenances"
JOBS = "batch/v1/jobs"
READY, CLIENT, VALIDATION = (
    "maintenance/readyForMaintenance",
    "maintenance/maintenanceClient",
    "maintenance/validationClient",
)


def define(api: Api) -> None:
    """Install the CustomResourceDefinitions, and wait until they are served."""
    for crd in printed("crds", "notify"):
        if api.find(CRDS, crd["metadata"]["name"]) is None:
            api.create(CRDS, crd)
    eventually(lambda: api.items(NMS) is not None, "NotifyMaintenances are served", refused=(ApiError,))


def notice(name: str, node: str, mid: str, *, labels: Json | None = None, annotations: Json | None = None) -> Json:
    return {
        "apiVersion": "ngn2.nvidia.com/v1alpha1",
        "kind": "NotifyMaintenance",
        "metadata": {"name": name, "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"nodeObject": node, "maintenanceID": mid, "maintenanceType": "planned", "owner": "dana"},
    }


def status_of(body: Json) -> str:
    return str(body.get("status", {}).get("maintenanceStatus", ""))


def condition(body: Json, kind: str) -> Json:
    found = body.get("status", {}).get("conditions", [])
    return next((each for each in found if each["type"] == kind), {})


class NotifyOperator(Platform):
    """`haulout run` with the notify surface, whose configuration file a test can exchange."""

    def __init__(
        self,
        plane: Cluster,
        directory: Path,
        namespace: str,
        config: Json,
        *,
        user: str = "operator",
        server: str | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        surfaces = "{notify: {config: config/maintenance.yaml}}"
        # A killed operator keeps its Lease, and the next one would have to wait for it.
        settings = f"namespace: {namespace}\nleader: {{elect: false}}"
        super().__init__(
            plane, directory, json.dumps(config), settings, surfaces=surfaces, user=user, server=server, flags=flags
        )


class Pika(Operator):
    """`haulout as pika`, without webhooks. Tests without a certificate cannot read its metrics."""

    def __init__(
        self,
        plane: Cluster,
        directory: Path,
        namespace: str,
        config: Json,
        *,
        user: str = "operator",
        flags: Sequence[str] = (),
    ) -> None:
        super().__init__(directory, json.dumps(config))
        argv: list[str | Path] = [HAULOUT, "as", "pika", "--config=config/maintenance.yaml", "--listen-webhooks=0"]
        argv += [
            *JSON_LOG,
            f"--metrics-port={self.port}",
            f"--health-probe-bind-address=127.0.0.1:{self.health_port}",
            *flags,
        ]
        env = environment(KUBECONFIG=str(plane.kubeconfig(user)), NAMESPACE=namespace)
        self.process = Process(user, argv, directory, env=env, cwd=directory)


class Inbox:
    """A web server that receives the messages of maintenances.

    `messages`: the object, the event and the `Idempotency-Key` of each, in the order of arrival.
    `unanswered`: the objects whose messages it receives without an answer.
    """

    def __init__(self) -> None:
        self.messages: list[tuple[str, str, str]] = []
        self.unanswered: set[str] = set()
        self._ended = threading.Event()

    def events(self, name: str) -> list[str]:
        """Return the events of an object without repetitions, as a receiver that compares keys sees them."""
        return list({key: event for each, event, key in list(self.messages) if each == name}.values())

    def repeated(self) -> list[tuple[str, str]]:
        """Return the object and the event of each message whose key had come before."""
        keys = [key for _, _, key in self.messages]
        return [each[:2] for number, each in enumerate(self.messages) if each[2] in keys[:number]]

    def take(self, key: str, body: bytes) -> None:
        message = json.loads(body)
        name = message["maintenanceObjectName"]
        self.messages.append((name, message["event"], key))
        if name in self.unanswered:
            self._ended.wait()

    @contextmanager
    def open(self) -> Iterator[str]:
        """Serve. Yield the address."""
        inbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                inbox.take(self.headers["Idempotency-Key"], body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *args: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            self._ended.set()
            server.shutdown()
            server.server_close()


class Workshop:
    """A web server that carries out steps. It refuses the first call for each, then names a status URL, then reports success.

    `done`: the keys of steps that were carried out. `wrong`: calls with a wrong signature.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.calls: Counter[str] = Counter()
        self.asked: Counter[str] = Counter()
        self.done: set[str] = set()
        self.wrong: list[str] = []

    def called(self, headers: dict[str, str], body: bytes) -> tuple[int, Json]:
        key, signed = headers["Idempotency-Key"], hmac.new(self._key, body, hashlib.sha256).hexdigest()
        if headers.get("X-Signature-256") != f"sha256={signed}":
            self.wrong.append(key)
        self.calls[key] += 1
        return (503, {}) if self.calls[key] == 1 else (202, {"result": "pending", "statusURL": f"/status/{key}"})

    def asked_for(self, path: str) -> tuple[int, Json]:
        key = path.rpartition("/")[2]
        self.asked[key] += 1
        if self.asked[key] < 2:
            return 200, {"result": "pending"}
        self.done.add(key)
        return 200, {"result": "success"}

    @contextmanager
    def open(self) -> Iterator[str]:
        """Serve. Yield the address."""
        workshop = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(*workshop.called(dict(self.headers), body))

            def do_GET(self) -> None:
                self.answer(*workshop.asked_for(self.path))

            def answer(self, code: int, said: Json) -> None:
                content = json.dumps(said).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *args: object) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            server.server_close()
