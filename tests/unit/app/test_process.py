"""What the process itself tells of."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from haulout.app.process import Process
from haulout.cli.settings import ClusterApi, Settings
from haulout.cluster.key import Key


@pytest.mark.parametrize("dropped", [0, 7])
def test_events_that_did_not_fit_are_counted(dropped: int) -> None:
    process = Process(Settings(clusterapi=ClusterApi()))
    process._recorder = SimpleNamespace(dropped=dropped)  # type: ignore[assignment]
    lines = process.metrics.render().decode().splitlines()
    assert f"haulout_events_dropped {dropped}.0" in lines
    assert "# TYPE haulout_events_dropped counter" in lines


def test_queues_are_measured_where_they_do_not_change() -> None:
    """The samples are gone through in another thread, while the event loop fills and empties the queues."""
    process = Process(Settings(clusterapi=ClusterApi(), turns=False))
    subjects = process.kernel.loop.subjects(Key("", "Machine", "fleet", "a"))
    process.kernel.loop._due = dict.fromkeys(subjects)  # type: ignore[assignment]
    samples = process._samples()
    process.kernel.loop._due = {}
    found = {dict(labels)["controller"]: value for name, labels, value in samples if name == "workqueue_depth"}
    assert found == {"machine": 1, "machine-release": 1, "machine-orphans": 0, "metal3": 0}
