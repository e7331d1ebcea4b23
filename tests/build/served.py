"""The embedded cluster in a thread of its own, for tests that run commands as a person would."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from haulout.embedded import NODES, PODS, Json, KubeletOptions, PodBehaviour, Resource, World
from tests.build.workloads import node, replica_set, template
from tests.rig.loops import abort_connections

HAULOUT = Path(sys.executable).parent / "haulout"
QUICK = KubeletOptions(
    pod=PodBehaviour(
        starts_after=timedelta(), stops_after=timedelta(milliseconds=200), init_runs_for=timedelta(milliseconds=50)
    ),
    node_ready_after=timedelta(),
)
LEASES = Resource("coordination.k8s.io", "v1", "leases")
NAMESPACES = Resource("", "v1", "namespaces")
T = TypeVar("T")
# Longer than anything that succeeds takes, however busy the machine is.
PATIENCE = 120.0


class Served:
    """An embedded cluster. `run` runs a command against it; `call` reads and changes it in its own thread."""

    def __init__(self, folder: Path, kubelet: KubeletOptions = QUICK, **variables: str) -> None:
        """Prepare the cluster. `variables`: set in the environment of every command."""
        self.folder = folder
        self._kubelet = kubelet
        self._variables = variables
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._stack = contextlib.AsyncExitStack()
        self.world: World

    def __enter__(self) -> Served:
        self._thread.start()
        self._wait_for(self._start())
        return self

    def __exit__(self, *args: object) -> None:
        self._wait_for(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self.world = World(kubelet=self._kubelet)
        await self._stack.enter_async_context(self.world.served(str(self.folder / "kubeconfig")))

    async def _stop(self) -> None:
        await self._stack.aclose()
        # Connected clients would close their connections only later.
        await abort_connections()

    def _wait_for(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def call(self, act: Callable[[World], T]) -> T:
        async def carried_out() -> T:
            return act(self.world)

        done: T = self._wait_for(carried_out())
        return done

    def has_leader(self) -> None:
        """Create the Lease of an operator that leads for the length of a test, for commands that ask for it."""
        renewed_at = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
        lease = {
            "metadata": {"name": "haulout", "namespace": "haulout-system"},
            "spec": {"holderIdentity": "tests_1", "leaseDurationSeconds": 3600, "renewTime": renewed_at},
        }

        def write(world: World) -> None:
            if world.server.get(NAMESPACES, "", "haulout-system") is None:
                world.server.create(NAMESPACES, {"metadata": {"name": "haulout-system"}})
            if world.server.get(LEASES, "haulout-system", "haulout") is None:
                world.server.create(LEASES, lease)
            else:
                world.server.patch(LEASES, "haulout-system", "haulout", {"spec": lease["spec"]})

        self.call(write)

    def make(self, *objects: Json) -> None:
        self.call(lambda world: world.apply(objects))

    def change(self, resource: Resource, name: str, body: Json, namespace: str = "default") -> None:
        place = "" if resource == NODES else namespace
        self.call(lambda world: world.server.patch(resource, place, name, body))

    def node(self, name: str) -> Json:
        found = self.call(lambda world: world.server.get(NODES, "", name))
        assert found is not None, f"there is no node {name}"
        return found

    def pods_on(self, name: str) -> list[Json]:
        pods: list[Json] = self.call(lambda world: world.server.list(PODS, "default"))
        return [pod for pod in pods if pod["spec"].get("nodeName") == name]

    def until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < end, "it did not come to pass in time"
            time.sleep(0.02)

    def environment(self) -> dict[str, str]:
        base = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "KUBECONFIG": str(self.folder / "kubeconfig")}
        return {**base, **self._variables}

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        argv = [str(HAULOUT), *words]
        return subprocess.run(
            argv, cwd=self.folder, env=self.environment(), text=True, capture_output=True, check=False, timeout=PATIENCE
        )

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start a command. What it prints need not be read before it ends: there is room for a megabyte."""
        return subprocess.Popen(
            [str(HAULOUT), *words],
            pipesize=2**20,
            cwd=self.folder,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    @contextlib.contextmanager
    def running(self, *words: str) -> Iterator[None]:
        """Run a command for as long as the block lasts."""
        process = self.start(*words)
        try:
            yield
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE)

    def run_on_terminal(self, *words: str) -> tuple[int, str]:
        """Run a command on a terminal. Return its exit code and everything that it drew."""
        ours, theirs = pty.openpty()
        environment = {**self.environment(), "TERM": "xterm", "COLUMNS": "100"}
        with subprocess.Popen(
            [str(HAULOUT), *words], cwd=self.folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs
        ) as running:
            os.close(theirs)
            drawn = b""
            # Reading from a terminal whose other end is closed is an error, not an end of file.
            with contextlib.suppress(OSError):
                while chunk := os.read(ours, 65536):
                    drawn += chunk
            os.close(ours)
            return running.wait(PATIENCE), drawn.decode()

    def add_busy_node(
        self, name: str, app: str, replicas: int, *more: Json, notes: Mapping[str, str] | None = None
    ) -> None:
        """Add a node with the pods of a ReplicaSet that fits on no other node. `notes`: how they behave."""
        place = {"kubernetes.io/hostname": name}
        self.make(node(name), replica_set(app, replicas, template(app, notes=notes, nodeSelector=place)), *more)
        self.until(lambda: len([pod for pod in self.pods_on(name) if _is_ready(pod)]) == replicas)


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
