"""A real API server with a fleet in its storage, and programs that take turns at it."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.harness import OURS, Peer
from tests.rig.api import ApiError, Json
from tests.rig.operator import MaintenanceController, environment
from tests.rig.plane import ControlPlane
from tests.rig.process import CHECKOUT, Process, Scratch
from tests.rig.wait import eventually

# An API server needs minutes to start with 150,000 pods in its storage.
READY_WITHIN = 1200.0

# The audit log tells our requests from a peer's by these users.
USERS = {True: "operator", False: "operator-b"}


@contextlib.contextmanager
def control_plane(label: str, objects: Iterable[Json]) -> Iterator[ControlPlane]:
    """Yield a running control plane with these objects. They are loaded into etcd before the API server starts."""
    scratch = Scratch(f"bench-{label}")
    plane = ControlPlane(scratch.directory("plane"))
    try:
        plane.etcd.start()
        plane.load(objects)
        plane.apiserver.start()
        eventually(lambda: _ready(plane), "kube-apiserver ready", READY_WITHIN, refused=(OSError, ApiError))
        yield plane
    finally:
        plane.stop()
        scratch.close()


def _ready(plane: ControlPlane) -> bool:
    plane.apiserver.check()
    api = plane.api()
    return bool(api.request("GET", "/readyz") == "ok" and api.find("namespaces", "default"))


@dataclasses.dataclass(frozen=True)
class Contender:
    """A program that is measured: ours if `argv` is empty, else a peer."""

    name: str
    argv: tuple[str, ...] = ()

    @property
    def ours(self) -> bool:
        return not self.argv

    @property
    def user(self) -> str:
        return USERS[self.ours]


def contenders(peers: Iterable[Peer]) -> list[Contender]:
    return [Contender(OURS), *(Contender(peer.name, peer.argv) for peer in peers)]


@dataclasses.dataclass(frozen=True)
class Running:
    process: Process
    operator: MaintenanceController | None = None


@contextlib.contextmanager
def controller(plane: ControlPlane, contender: Contender, config: str) -> Iterator[Running]:
    """Run `haulout as maintenance-controller`, or a peer in a directory with the same `config/maintenance.yaml`."""
    directory = fresh_directory(plane, contender.name)
    if contender.ours:
        # Log as in production: readable lines cost more than JSON.
        operator = MaintenanceController(plane, directory, config, flags=("--zap-devel=false",))
        with operator:
            yield Running(operator.process, operator)
        return
    (directory / "config").mkdir()
    (directory / "config" / "maintenance.yaml").write_text(config)
    with peer_process(plane, contender, directory) as process:
        yield Running(process)


@contextlib.contextmanager
def syncing(plane: ControlPlane, contender: Contender, module: str) -> Iterator[Running]:
    """Run our client, which is a module of this package, or a peer."""
    directory = fresh_directory(plane, contender.name)
    if contender.ours:
        argv = [sys.executable, "-m", module]
        env = environment(KUBECONFIG=str(plane.kubeconfig(contender.user)))
        with Process(contender.name, argv, directory, env=env, cwd=CHECKOUT) as process:
            yield Running(process)
        return
    with peer_process(plane, contender, directory) as process:
        yield Running(process)


def peer_process(plane: ControlPlane, contender: Contender, directory: Path) -> Process:
    env = environment(KUBECONFIG=str(plane.kubeconfig(contender.user)))
    return Process(contender.name, contender.argv, directory, env=env, cwd=directory)


def fresh_directory(plane: ControlPlane, name: str) -> Path:
    number = len(list(plane.directory.glob(f"{name}-*")))
    made = plane.directory / f"{name}-{number}"
    made.mkdir()
    return made
