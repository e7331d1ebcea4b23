"""What the process itself tells of."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from haulout import __version__
from haulout.app.parts import Part
from haulout.app.process import Process, run
from haulout.cli.settings import ClusterApi, Settings
from haulout.cluster.key import Key
from haulout.kube.errors import Forbidden, Status
from haulout.kube.writer import Writer
from haulout.runtime.logs import fields
from haulout.runtime.requests import Change, Refused
from haulout.runtime.rooms import Subject


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


@pytest.mark.parametrize(
    "answer, errors",
    [
        (Refused(403, "no"), 1),
        (Refused(0, "connection refused"), 1),
        (Refused(429, "slow down"), 1),
        (Refused(409, "somebody else wrote"), 0),
        (Refused(404, "it is gone"), 0),
        (Refused(429, "not now", cause="DisruptionBudget"), 0),
    ],
    ids=["forbidden", "unreachable", "throttled", "conflict", "gone", "budget"],
)
def test_writes_that_are_not_taken_are_errors_of_the_controller(answer: Refused, errors: int) -> None:
    process = Process(Settings(clusterapi=ClusterApi(), turns=False))
    target = Key("far", "Node", "", "n")
    process.refused(Subject("machine", Key("", "Machine", "fleet", "a")), Change(target, {}), answer)
    lines = process.metrics.render().decode().splitlines()
    assert f'controller_runtime_reconcile_errors_total{{controller="machine"}} {errors}.0' in lines
    assert f'controller_runtime_reconcile_total{{controller="machine",result="error"}} {errors}.0' in lines


def test_who_stands_in_for_no_controller_is_not_counted_as_one() -> None:
    process = Process(Settings(clusterapi=ClusterApi(), turns=False))
    target = Key("", "Node", "", "n")
    process.refused(Subject("arbiter", target), Change(target, {}), Refused(403, "no"))
    assert 'controller="arbiter"' not in process.metrics.render().decode()


class Unprepared(Part):
    name = "unprepared"
    deciders = ()

    async def prepare(self, writer: Writer) -> None:
        raise Forbidden(Status(message="namespaces is forbidden", code=403))


@pytest.mark.parametrize("alone", [True, False])
def test_a_surface_without_its_rights_keeps_only_its_original_from_beginning(alone: bool) -> None:
    process = Process(Settings(clusterapi=ClusterApi(), alone=alone))
    process.parts = [Unprepared(process.parts[0].around)]
    asyncio.run(process._begin(None))  # type: ignore[arg-type]
    assert process.kernel.leading is not alone


def test_the_first_thing_that_is_said_is_what_was_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("haulout.app.process.set_up_logs", lambda *_: None)
    caplog.set_level("INFO")
    assert run(Settings(clusterapi=ClusterApi(), kubeconfig=str(tmp_path / "missing"))) == 1
    first = caplog.records[0]
    assert first.getMessage() == "haulout"
    assert fields(first) == {"version": __version__, "commit": "unknown", "built": "unknown"}
