"""What the process itself tells of."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from haulout.app.process import Process
from haulout.cli.settings import ClusterApi, Settings


@pytest.mark.parametrize("dropped", [0, 7])
def test_events_that_did_not_fit_are_counted(dropped: int) -> None:
    process = Process(Settings(clusterapi=ClusterApi()))
    process._recorder = SimpleNamespace(dropped=dropped)  # type: ignore[assignment]
    lines = process.metrics.render().decode().splitlines()
    assert f"haulout_events_dropped {dropped}.0" in lines
    assert "# TYPE haulout_events_dropped counter" in lines
