"""An embedded cluster with nodes in zones and workloads, served over HTTPS (decision 0046)."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

from haulout.base import yaml
from haulout.base.clock import SystemClock
from haulout.embedded.controllers.actors import ActorOptions, Actors
from haulout.embedded.controllers.behaviour import KubeletOptions
from haulout.embedded.face.admission import Admission
from haulout.embedded.face.api import Api
from haulout.embedded.face.https import HttpFace
from haulout.embedded.face.webhooks import WebhookClient
from haulout.embedded.interfaces import Json
from haulout.embedded.resources import DEPLOYMENTS, DISRUPTION_BUDGETS, NODES
from haulout.embedded.store.kinds import Kind
from haulout.embedded.store.server import Server
from haulout.embedded.timers import FastClock, LoopTimers

# The address at which `haulout run` serves webhooks by default.
STAND_IN = "https://127.0.0.1:9443"
ZONE = "topology.kubernetes.io/zone"


class World:
    """An embedded cluster that is ready to use.

    It has the API server, the simulated controllers and the HTTPS server that clients connect to.
    """

    def __init__(
        self, *, speed: float = 1.0, kubelet: KubeletOptions | None = None, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        clock = FastClock(SystemClock(), speed)
        self.timers = LoopTimers(clock, speed=speed)
        self.server = Server(self.timers)
        self.actors = Actors(self.server, self.timers, ActorOptions(kubelet=kubelet or KubeletOptions()))
        self._webhooks = WebhookClient(stand_in=STAND_IN)
        self.face = HttpFace(Api(self.server, Admission(self.server, post=self._webhooks.post)), host=host, port=port)

    def add_nodes(self, count: int, zones: int, labels: Mapping[str, str] | None = None) -> list[str]:
        names = []
        for number in range(count):
            zone = f"zone-{_letters(number % zones)}"
            name = f"{zone}-{number // zones + 1:02}"
            metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone, **(labels or {})}}
            self.server.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": metadata})
            names.append(name)
        return names

    def add_shop(self, replicas: int) -> None:
        """Create three Deployments, each with a budget that lets a tenth of its pods be unavailable."""
        for name in ("web", "cart", "search"):
            labels = {"app": name}
            pod = {
                "metadata": {"labels": labels},
                "spec": {
                    "containers": [{"name": name, "image": f"shop/{name}", "resources": {"requests": {"cpu": "100m"}}}]
                },
            }
            meta = {"name": name, "namespace": "default"}
            spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": pod}
            self.server.create(
                DEPLOYMENTS, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}
            )
            budget = {"maxUnavailable": "10%", "selector": {"matchLabels": labels}}
            self.server.create(
                DISRUPTION_BUDGETS,
                {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": budget},
            )

    def apply(self, manifests: Iterable[Json]) -> int:
        count = 0
        for body in manifests:
            kind = self._kind(body)
            if kind.namespaced:
                body.setdefault("metadata", {}).setdefault("namespace", "default")
            self.server.create(kind.resource, body)
            count += 1
        return count

    def _kind(self, body: Json) -> Kind:
        group, _, version = str(body.get("apiVersion", "")).rpartition("/")
        for kind in self.server.catalog:
            if (kind.resource.group, kind.resource.version, kind.kind) == (group, version, body.get("kind")):
                return kind
        raise ValueError(f"there is no kind {body.get('kind')} in {body.get('apiVersion')}")

    @contextlib.asynccontextmanager
    async def served(self, kubeconfig: str) -> AsyncIterator[Path]:
        """Start the controllers and the HTTPS server. Yield the path of a kubeconfig that works until the end."""
        self.actors.start()
        async with self.face, contextlib.AsyncExitStack() as stack:
            if kubeconfig:
                path = Path(kubeconfig)
            else:
                path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="haulout-"))) / "kubeconfig"
            stack.push_async_callback(self._webhooks.close)
            self.face.write_kubeconfig(path)
            yield path


def read_manifests(path: str) -> list[Json]:
    loaded: list[Any] = yaml.load_all(Path(path).read_bytes(), bounds=yaml.SNAPSHOT)
    flat: list[Json] = []
    for body in loaded:
        if isinstance(body, dict):
            flat += body.get("items", [body]) if body.get("kind") == "List" else [body]
    return flat


def _letters(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("a") + rest) + text
    return text
