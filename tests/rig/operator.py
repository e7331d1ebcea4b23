"""Haulout itself as a process of the rig: started as a user would, looked at through its ports and its log."""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.rig.plane import Cluster
from tests.rig.process import Process, free_port
from tests.rig.wait import eventually

HAULOUT = Path(sys.executable).parent / "haulout"
JSON_LOG = ("--zap-devel=false",)
PROFILES = "{profiles: {config: config/maintenance.yaml, metricsTimeout: 0s}}"
# Log as in production. Only the probes are served.
DROP_IN = [
    *(str(HAULOUT), "as", "node-maintenance-operator", "--zap-devel=false"),
    *("--metrics-bind-address=0", "--listen-webhooks=0"),
]


def environment(**more: str) -> dict[str, str]:
    base = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
    return {**base, **more}


class Operator:
    """An operator as a process in a directory of its own, with the given `maintenance.yaml`."""

    def __init__(self, directory: Path, config: str) -> None:
        self.directory = directory
        (directory / "config").mkdir(parents=True, exist_ok=True)
        self.write(config)
        self.port, self.health_port = free_port(), free_port()
        self.process: Process

    def write(self, text: str, name: str = "config/maintenance.yaml") -> None:
        """Replace the configuration file at once, as a kubelet replaces mounted files."""
        fresh = self.directory / "fresh"
        fresh.write_text(text)
        fresh.rename(self.directory / name)

    def start(self) -> Self:
        self.process.start()
        eventually(self._healthy, "the operator answers its probes", refused=(OSError, http.client.HTTPException))
        return self

    def get(self, path: str) -> tuple[int, str]:
        return self._get(self.port, path)

    def metric(self, series: str) -> float:
        """Return the value of one series, written as Prometheus writes it; 0 if it does not exist."""
        lines = self.get("/metrics")[1].splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.rsplit(" ", 1)[0] == series), 0.0)

    def logged(self, message: str) -> list[dict[str, Any]]:
        """Return the log lines with this message so far.

        Lines that are not JSON, as some at the start, are left out.
        """
        # The text after the last line break may be half of a line that is just being written.
        whole = self.process.text().rpartition("\n")[0].splitlines()
        lines = [json.loads(line) for line in whole if line.startswith("{")]
        return [line for line in lines if line["msg"] == message]

    def readiness(self) -> tuple[int, str]:
        """Return the status and the text of the readiness probe."""
        return self._get(self.health_port, "/readyz")

    def _healthy(self) -> bool:
        self.process.check()
        return self._get(self.health_port, "/healthz") == (200, "ok")

    @staticmethod
    def _get(port: int, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.process.stop()


class MaintenanceController(Operator):
    """`haulout as maintenance-controller`."""

    def __init__(
        self,
        plane: Cluster,
        directory: Path,
        config: str,
        *,
        server: str | None = None,
        flags: Sequence[str] = (),
        name: str = "operator",
        user: str = "operator",
        kubeconfig: Path | None = None,
    ) -> None:
        super().__init__(directory, config)
        ports = (f"--metrics-addr=127.0.0.1:{self.port}", f"--health-addr=127.0.0.1:{self.health_port}")
        argv = [str(HAULOUT), "as", "maintenance-controller", "--metrics-timeout=0s", *ports, *flags]
        env = environment(KUBECONFIG=str(kubeconfig or plane.kubeconfig(user, server=server)))
        self.process = Process(name, argv, directory, env=env, cwd=directory)


class NodeMaintenanceOperator(Operator):
    """`haulout as node-maintenance-operator`, without webhooks. Tests without a certificate cannot read its metrics."""

    def __init__(
        self,
        plane: Cluster,
        directory: Path,
        *,
        server: str | None = None,
        flags: Sequence[str] = (),
        name: str = "operator",
        user: str = "operator",
    ) -> None:
        super().__init__(directory, "")
        env = environment(KUBECONFIG=str(plane.kubeconfig(user, server=server)))
        self.process = Process(name, [*DROP_IN, self._health, *flags], directory, env=env, cwd=directory)

    @property
    def _health(self) -> str:
        return f"--health-probe-bind-address=127.0.0.1:{self.health_port}"


class SkyhookOperator(Operator):
    """`haulout as skyhook-operator`, without webhooks. `variables`: those of its environment."""

    def __init__(
        self,
        plane: Cluster,
        directory: Path,
        namespace: str,
        *,
        user: str = "operator",
        server: str | None = None,
        **variables: str,
    ) -> None:
        super().__init__(directory, "")
        env = environment(
            KUBECONFIG=str(plane.kubeconfig(user, server=server)),
            NAMESPACE=namespace,
            ENABLE_WEBHOOKS="false",
            METRICS_PORT=f"127.0.0.1:{self.port}",
            PROBE_PORT=f"127.0.0.1:{self.health_port}",
            LOG_LEVEL="info",
            **variables,
        )
        argv = [str(HAULOUT), "as", "skyhook-operator"]
        self.process = Process("operator", argv, directory, env=env, cwd=directory)


class Platform(Operator):
    """`haulout run` with profiles or other `surfaces`, without webhooks. `settings`: lines for its `haulout.yaml`."""

    def __init__(
        self,
        plane: Cluster,
        directory: Path,
        config: str,
        settings: str = "",
        *,
        server: str | None = None,
        surfaces: str = PROFILES,
        flags: Sequence[str] = (),
        name: str = "operator",
        user: str = "operator",
    ) -> None:
        super().__init__(directory, config)
        self.basic = (
            f"kubeconfig: {plane.kubeconfig(user, server=server)}\n"
            f'listen: {{http: "127.0.0.1:{self.port}", health: "127.0.0.1:{self.health_port}", webhooks: "0"}}\n'
            f"surfaces: {surfaces}\n"
        )
        self.settle(settings)
        self.process = Process(name, [HAULOUT, "run", *flags], directory, env=environment(), cwd=directory)

    def settle(self, settings: str) -> None:
        """Write other settings, beside those that tests need to look at it."""
        self.write(f"{self.basic}{settings}\n", "haulout.yaml")
