"""Haulout itself as a process of the rig: started as a user would, looked at through its ports and its log."""

from __future__ import annotations

import http.client
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.rig.plane import ControlPlane
from tests.rig.process import Process, free_port
from tests.rig.wait import eventually

HAULOUT = Path(sys.executable).parent / "haulout"


def environment(**more: str) -> dict[str, str]:
    base = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
    return {**base, **more}


class MaintenanceController:
    """`haulout as maintenance-controller` in a directory of its own, with the given `maintenance.yaml`."""

    def __init__(
        self,
        plane: ControlPlane,
        directory: Path,
        config: str,
        *,
        server: str | None = None,
        flags: Sequence[str] = (),
        name: str = "operator",
    ) -> None:
        self.directory = directory
        (directory / "config").mkdir(parents=True, exist_ok=True)
        self.write(config)
        self.port, self.health_port = free_port(), free_port()
        argv: list[str | Path] = [
            *(HAULOUT, "as", "maintenance-controller", "--metrics-timeout=0s"),
            *(f"--metrics-addr=127.0.0.1:{self.port}", f"--health-addr=127.0.0.1:{self.health_port}", *flags),
        ]
        kubeconfig = plane.kubeconfig("operator", server=server)
        self.process = Process(name, argv, directory, env=environment(KUBECONFIG=str(kubeconfig)), cwd=directory)

    def write(self, config: str) -> None:
        """Exchanged as a whole, as mounted files are."""
        fresh = self.directory / "config" / "fresh.yaml"
        fresh.write_text(config)
        fresh.rename(self.directory / "config" / "maintenance.yaml")

    def start(self) -> Self:
        self.process.start()
        eventually(self._healthy, "the operator answers its probes", refused=(OSError, http.client.HTTPException))
        return self

    def get(self, path: str) -> tuple[int, str]:
        return self._get(self.port, path)

    def metric(self, series: str) -> float:
        """The value of one series, written as Prometheus writes it; 0 if it is not there."""
        lines = self.get("/metrics")[1].splitlines()
        return next((float(line.rsplit(" ", 1)[1]) for line in lines if line.rsplit(" ", 1)[0] == series), 0.0)

    def _healthy(self) -> bool:
        self.process.check()
        return self._get(self.health_port, "/healthz") == (200, "ok")

    @staticmethod
    def _get(port: int, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
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
