"""The webhook server alone, in a thread of the test run. It reads a real cluster, and answers only reviews."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from haulout.app.webhooks import Certificates, guarded_metrics, looker, webhook_server
from haulout.base.clock import SystemClock
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Keep, Resource
from haulout.cluster.store import Listing, Store
from haulout.core.admission import Webhook
from haulout.kube.config import load as load_endpoint
from haulout.kube.http import HttpTransport
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.serve.web import metrics_route
from haulout.surfaces.nodemaintenance.wire import RESOURCE
from tests.rig.loops import abort_connections
from tests.rig.process import free_port
from tests.rig.wait import eventually

KINDS = ("Node", "NodeMaintenance", "Pod", "PodDisruptionBudget")


class Hooks:
    """A webhook server. `kinds`: the kinds that it watches. `resources`: those of them that are no built-in kinds."""

    def __init__(
        self,
        kubeconfig: Path,
        webhooks: tuple[Webhook, ...],
        certificates: Certificates,
        *,
        kinds: tuple[str, ...] = KINDS,
        resources: tuple[Resource, ...] = (RESOURCE,),
    ) -> None:
        self._kinds, self._resources = kinds, resources
        self.port, self.metrics_port = free_port(), free_port()
        self.store = Store()
        self._kubeconfig = kubeconfig
        self._webhooks = webhooks
        self._certificates = certificates
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self._missing: Callable[[], str] = lambda: "not started"
        self._loop: asyncio.AbstractEventLoop
        self._ended: asyncio.Event

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def post(self, path: str, body: Any, *, method: str = "POST", **headers: str) -> tuple[int, Any]:
        """Send a request straight to the server, whatever name its certificate has."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._ask(self.port, method, path, content, {"Content-Type": "application/json", **headers})

    def scrape(self, token: str = "") -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return self._ask(self.metrics_port, "GET", "/metrics", None, headers)

    def handshake(self, authorities: bytes) -> bytes:
        """Return the certificate that a new connection gets. Raises ssl.SSLError unless these authorities trust it."""
        context = ssl.create_default_context(cadata=authorities.decode())
        connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        try:
            connection.connect()
            assert isinstance(connection.sock, ssl.SSLSocket)
            return connection.sock.getpeercert(binary_form=True) or b""
        finally:
            connection.close()

    @staticmethod
    def _ask(port: int, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, Any]:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=60, context=context)
        try:
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            text = answer.read().decode()
            is_json = answer.getheader("Content-Type", "").startswith("application/json")
            return answer.status, json.loads(text) if is_json else text
        finally:
            connection.close()

    async def _run(self) -> None:
        self._loop, self._ended = asyncio.get_running_loop(), asyncio.Event()
        clock, metrics = SystemClock(), Metrics()
        transport = HttpTransport(load_endpoint(path=str(self._kubeconfig)), clock)
        pump = Pump(self.store, clock, metrics, lambda: None, Kinds(self._resources))
        async with asyncio.TaskGroup() as group:
            for kind in self._kinds:
                pump.open(group, transport, "", kind, Keep())
            async with (
                webhook_server(
                    f"127.0.0.1:{self.port}",
                    self._webhooks,
                    self._certificates,
                    transport=transport,
                    store=self.store,
                    clock=clock,
                    metrics=metrics,
                    look=looker(transport, self.store, pump.kinds.projector, lambda: None),
                ) as missing,
                guarded_metrics(
                    f"127.0.0.1:{self.metrics_port}",
                    metrics_route(metrics),
                    transport=transport,
                    clock=clock,
                    metrics=metrics,
                ),
            ):
                self._missing = missing
                await self._ended.wait()
            pump.close_all()
        await transport.close()
        await abort_connections()

    def _listed(self) -> bool:
        return all(self.store.table("", kind).listing is Listing.LISTED for kind in self._kinds)

    def __enter__(self) -> Self:
        self._thread.start()
        eventually(lambda: not self._missing() and self._listed(), "the webhook server has all that it needs")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(30)
