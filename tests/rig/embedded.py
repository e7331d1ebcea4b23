"""`haulout cluster` as a process of the rig: an embedded cluster that tests use as any client would."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import yaml

from tests.rig.api import Api
from tests.rig.operator import HAULOUT, environment
from tests.rig.plane import run_kubectl
from tests.rig.process import Process
from tests.rig.wait import eventually


class EmbeddedCluster:
    """An embedded cluster, with the interface of a control plane. All users are the same one there."""

    def __init__(self, directory: Path, *, nodes: int = 0, flags: Sequence[str] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._kubeconfig = directory / "kubeconfig.yaml"
        argv: list[str | Path] = [
            HAULOUT,
            "cluster",
            f"--nodes={nodes}",
            f"--write-kubeconfig={self._kubeconfig}",
            *flags,
        ]
        self.process = Process("cluster", argv, directory, env=environment(), cwd=directory)
        self._api: Api | None = None

    def kubeconfig(self, user: str = "", *, server: str | None = None) -> Path:
        assert server is None, "nothing stands between an embedded cluster and its clients"
        return self._kubeconfig

    def api(self, user: str = "") -> Api:
        if self._api is None:
            config = yaml.safe_load(self._kubeconfig.read_text())
            cluster, who = config["clusters"][0]["cluster"], config["users"][0]["user"]
            ca = self.directory / "ca.crt"
            ca.write_bytes(base64.b64decode(cluster["certificate-authority-data"]))
            self._api = Api(cluster["server"], who["token"], ca=ca)
        return self._api

    def kubectl(self, *words: str, stdin: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        return run_kubectl(self._kubeconfig, *words, stdin=stdin, check=check)

    def _says_how_to_reach_it(self) -> bool:
        self.process.check()
        return "export KUBECONFIG=" in self.process.text()

    def __enter__(self) -> Self:
        self.process.start()
        eventually(self._says_how_to_reach_it, "haulout cluster serves")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._api is not None:
            self._api.close()
        self.process.stop()
