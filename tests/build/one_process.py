"""A whole operator process on embedded clusters within this process, in virtual time: nothing of it is replaced but its sockets."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from haulout.app.process import Process
from haulout.base import yaml
from haulout.embedded import (
    NAMESPACES,
    NODES,
    ActorOptions,
    Actors,
    Api,
    InProcessTransport,
    Json,
    KubeletOptions,
    LoopTimers,
    PodBehaviour,
    Resource,
    Server,
)
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import KubeError
from haulout.settings.settings import Settings, Webhooks
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings
from haulout.surfaces.notify.settings import NotifySettings
from haulout.surfaces.packages.settings import PackagesSettings
from haulout.surfaces.profiles.settings import ProfilesSettings
from haulout.surfaces.registry import definition
from tests.build.all_surfaces import CRDS, NOTICE_TEXT, PROFILE
from tests.build.maintenances import DEFINITIONS
from tests.build.maintenances import definition as made_definition
from tests.build.notices import HOME, OWN
from tests.build.virtual import LoopClock, VirtualLoop

SECRETS = Resource("", "v1", "secrets")
MACHINES = Resource("cluster.x-k8s.io", "v1beta2", "machines")
KUBELET = KubeletOptions(
    pod=PodBehaviour(stops_after=timedelta(seconds=3), init_runs_for=timedelta(seconds=1)),
    node_ready_after=timedelta(),
)
HOME_SERVER = "https://127.0.0.1:6443"


class InlineLoop(VirtualLoop):
    """A virtual loop that runs the work of threads at once: otherwise time would jump on while they work."""

    def run_in_executor(self, executor: Executor | None, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        future: asyncio.Future[Any] = self.create_future()
        try:
            future.set_result(func(*args))
        except (KubeError, OSError, ValueError) as error:
            future.set_exception(error)
        return future


class Line(InProcessTransport):
    """A transport to an embedded cluster that reports its end."""

    def __init__(self, api: Api, on_close: Callable[[], None]) -> None:
        super().__init__(api)
        self._on_close = on_close

    async def close(self) -> None:
        await super().close()
        self._on_close()


class OneProcess:
    """An operator with all five surfaces, its home cluster, and workload clusters that come and go.

    `workloads`: the servers of workload clusters, by the address in their kubeconfigs.
    """

    def __init__(self, folder: Path) -> None:
        (folder / "maintenance.yaml").write_text(PROFILE)
        notify = json.loads(NOTICE_TEXT)
        # The history of run times remembers the last 2,000 workloads on purpose.
        notify["operators"]["scheduler"]["history"] = {"enabled": False}
        (folder / "notify.yaml").write_text(json.dumps(notify))
        self.clock = LoopClock()
        self.home = Server(LoopTimers(self.clock))
        actors = Actors(self.home, LoopTimers(self.clock), ActorOptions(heartbeats=False, kubelet=KUBELET))
        self._apis = {HOME_SERVER: Api(self.home)}
        self.workloads: dict[str, Server] = {}
        for crd in CRDS:
            self.home.create(DEFINITIONS, yaml.load(definition(crd)))
        for kind in ("Machine", "Cluster"):
            self.home.create(DEFINITIONS, made_definition(kind, "cluster.x-k8s.io", "v1beta2", namespaced=True))
        for name in (HOME, OWN, "skyhook", "medik8s-leases"):
            self.home.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        actors.start()
        blocks = {
            "profiles": ProfilesSettings(config=str(folder / "maintenance.yaml"), metrics_timeout=timedelta()),
            "nodemaintenance": NodeMaintenanceSettings(lease_namespace="medik8s-leases"),
            "packages": PackagesSettings(namespace="skyhook"),
            "notify": NotifySettings(config=str(folder / "notify.yaml")),
            "clusterapi": ClusterApiSettings(),
        }
        webhooks = Webhooks(address="127.0.0.1:0")
        settings = Settings(http="0", health="0", namespace=OWN, webhooks=webhooks, blocks=blocks)
        self.process = Process(settings, Endpoint(name="home", server=HOME_SERVER), self.clock, connect=self._connect)

    def _connect(
        self, endpoint: Endpoint, *_: object, on_close: Callable[[], None] = lambda: None, **__: object
    ) -> Line:
        return Line(self._apis[endpoint.server], on_close)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[OneProcess]:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.process.run())
            try:
                yield self
            finally:
                self.process.stop()

    def create(self, resource: Resource, kind: str, metadata: Json, spec: Json, **more: Json) -> None:
        version = f"{resource.group}/{resource.version}" if resource.group else resource.version
        self.home.create(resource, {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, **more})

    def add_workload(self, name: str) -> Server:
        """Let a workload cluster come: its API server, and the Secret with its kubeconfig."""
        address = f"https://127.0.0.1:{7000 + len(self.workloads)}/{name}"
        server = self.workloads[name] = Server(LoopTimers(self.clock))
        self._apis[address] = Api(server)
        kubeconfig = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": address, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
        data = {"value": base64.b64encode(json.dumps(kubeconfig).encode()).decode()}
        meta = {"name": f"{name}-kubeconfig", "namespace": HOME}
        self.home.create(SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data})
        return server

    def remove_workload(self, name: str) -> None:
        server = self.workloads.pop(name)
        self._apis = {address: api for address, api in self._apis.items() if api.server is not server}
        self.home.delete(SECRETS, HOME, f"{name}-kubeconfig")

    def add_node(self, name: str, **labels: str) -> None:
        self.home.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
