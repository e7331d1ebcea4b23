"""The notify surface in a process: what it does before it serves."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from haulout.app.notify import Notices
from haulout.app.parts import CannotStart, Surroundings
from haulout.app.troubles import TroubleEvent
from haulout.base.clock import SystemClock
from haulout.cluster.store import Store
from haulout.kube.errors import ConnectionFailed, Forbidden, KubeError, Status
from haulout.runtime.metrics import Metrics
from haulout.settings.settings import Settings
from haulout.surfaces.notify.settings import NotifySettings


class Server:
    """A transport to an API server on which every request fails in one way."""

    def __init__(self, error: KubeError) -> None:
        self._error = error
        self.asked: list[str] = []

    async def request(self, method: str, path: str) -> Any:
        self.asked.append(path)
        raise self._error


def part(directory: Path, text: str = "slaPeriod: 1h", *, alone: bool = True) -> Notices:
    file = directory / "notify.yaml"
    file.write_text(text)
    settings = Settings(blocks={"notify": NotifySettings(config=str(file))}, alone=alone)
    return Notices(Surroundings(settings, Store(), Metrics(), SystemClock(), poke=lambda: None))


def refused_edits(given: Notices) -> float:
    return given.around.metrics.series("nm_config_reload_errors_total")[()]


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


@pytest.mark.parametrize("text", ["", "slaPeriod: 0s", "slaPeriod: [", "slaPeriod: 1h\noperators: {scheduler: {x: 1}}"])
def test_it_does_not_start_with_an_invalid_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(CannotStart, match=r"unable to create controller: .*notify\.yaml:\d+:\d+: "):
        part(tmp_path, text)


def test_it_does_not_start_without_a_file(tmp_path: Path) -> None:
    settings = Settings(blocks={"notify": NotifySettings(config=str(tmp_path / "none"))}, alone=True)
    with pytest.raises(CannotStart, match="none: No such file or directory"):
        Notices(Surroundings(settings, Store(), Metrics(), SystemClock(), poke=lambda: None))


def test_an_edit_that_is_wrong_is_counted_and_told_once_and_the_last_good_one_stays(tmp_path: Path) -> None:
    given, statements = part(tmp_path), list[TroubleEvent]()
    given.around.troubles.lead(statements.append)
    assert refused_edits(given) == 0
    file = tmp_path / "notify.yaml"
    file.write_text("slaPeriod: nonsense")
    given.look(closely=True)
    assert (refused_edits(given), given.options.sla_for) == (1, timedelta(hours=1))
    file.unlink()
    given.look(closely=True)
    assert (refused_edits(given), given.options.sla_for) == (2, timedelta(hours=1))
    file.write_text("slaPeriod: 2h")
    given.look(closely=True)
    assert (refused_edits(given), given.options.sla_for) == (2, timedelta(hours=2))
    assert [each.reason for each in statements] == [
        *("ConfigurationInvalid", "ConfigurationInvalid", "ConfigurationRestored")
    ]
