"""The notify surface in a process: what it does before it serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from haulout.app.notify import Notices
from haulout.app.parts import Surroundings
from haulout.base.clock import SystemClock
from haulout.cluster.store import Store
from haulout.kube.errors import ConnectionFailed, Forbidden, KubeError, Status
from haulout.runtime.metrics import Metrics
from haulout.settings.settings import Settings
from haulout.surfaces.notify.settings import NotifySettings


class Server:
    """Stands for the transport to an API server: every request fails in one way."""

    def __init__(self, error: KubeError) -> None:
        self._error = error
        self.asked: list[str] = []

    async def request(self, method: str, path: str) -> Any:
        self.asked.append(path)
        raise self._error


def part(directory: Path, *, alone: bool = True) -> Notices:
    file = directory / "notify.yaml"
    file.write_text("slaPeriod: 1h")
    settings = Settings(blocks={"notify": NotifySettings(config=str(file))}, alone=alone)
    return Notices(Surroundings(settings, Store(), Metrics(), SystemClock(), poke=lambda: None))


async def test_the_original_ends_without_an_api_server(tmp_path: Path) -> None:
    with pytest.raises(ConnectionFailed):
        await part(tmp_path).introduce(Server(ConnectionFailed("refused")))  # type: ignore[arg-type]


async def test_a_refusal_is_an_api_server(tmp_path: Path) -> None:
    server = Server(Forbidden(Status(code=403)))
    await part(tmp_path).introduce(server)  # type: ignore[arg-type]
    assert server.asked == ["/version"]


async def test_beside_other_surfaces_an_api_server_is_waited_for(tmp_path: Path) -> None:
    server = Server(ConnectionFailed("refused"))
    await part(tmp_path, alone=False).introduce(server)  # type: ignore[arg-type]
    assert server.asked == []
