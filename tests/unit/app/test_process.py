"""Reports of the process about itself, as metrics, logs and events."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from haulout import __version__
from haulout.app.ending import Ending
from haulout.app.parts import Part
from haulout.app.process import Process
from haulout.app.run import run
from haulout.cluster.key import Key
from haulout.cluster.store import Listing
from haulout.core.action import Evict
from haulout.core.declaration import Declaration
from haulout.core.holds import Rank
from haulout.kernel.requests import Change, Refused
from haulout.kernel.rooms import Order, Subject
from haulout.kube.endpoint import Endpoint
from haulout.kube.errors import (
    ApiError,
    ConnectionFailed,
    Forbidden,
    KubeError,
    RequestTimeout,
    ServerFailure,
    Status,
    TooManyRequests,
)
from haulout.kube.writer import Writer
from haulout.runtime.logs import fields
from haulout.settings.settings import Settings
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings
from haulout.surfaces.nodemaintenance.wire import MaintenanceRow
from haulout.surfaces.profiles.settings import EsxSettings, KubernikusSettings, ProfilesSettings
from tests.build.maintenances import maintenance_key

HOME = Endpoint(name="home", server="https://127.0.0.1:1")


@pytest.mark.parametrize("dropped", [0, 7])
def test_events_that_did_not_fit_are_counted(dropped: int) -> None:
    process = Process(Settings(blocks={"clusterapi": ClusterApiSettings()}), HOME)
    process.recorder.dropped = dropped
    lines = process.metrics.render().decode().splitlines()
    assert f"haulout_events_dropped_total {dropped}" in lines
    assert "# TYPE haulout_events_dropped_total counter" in lines


def test_queues_are_measured_where_they_do_not_change() -> None:
    """The samples are gone through in another thread, while the event loop fills and empties the queues."""
    process = Process(Settings(blocks={"clusterapi": ClusterApiSettings()}, turns=False), HOME)
    subjects = process.kernel.loop.subjects(Key("", "Machine", "fleet", "a"))
    due = process.kernel.loop._due
    for subject in subjects:
        due.add(Order(0, Rank(), subject))
    samples = process._samples()
    for subject in subjects:
        due.remove(subject)
    found = {dict(labels)["controller"]: value for name, labels, value in samples if name == "workqueue_depth"}
    assert found == {"machine": 2, "metal3": 0}


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
    process = Process(Settings(blocks={"clusterapi": ClusterApiSettings()}, turns=False), HOME)
    target = Key("far", "Node", "", "n")
    process.reporting.on_refusal(Subject("machine", Key("", "Machine", "fleet", "a")), Change(target, {}), answer)
    lines = process.metrics.render().decode().splitlines()
    assert f'controller_runtime_reconcile_errors_total{{controller="machine"}} {errors}' in lines
    assert f'controller_runtime_reconcile_total{{controller="machine",result="error"}} {errors}' in lines


def test_a_write_without_an_answer_is_an_error_of_the_controller() -> None:
    process = Process(Settings(blocks={"clusterapi": ClusterApiSettings()}, turns=False), HOME)
    process.reporting.on_lost_answer(Subject("machine", Key("", "Machine", "fleet", "a")))
    process.reporting.on_lost_answer(Subject("arbiter", Key("", "Node", "", "n")))
    lines = process.metrics.render().decode().splitlines()
    assert 'controller_runtime_reconcile_errors_total{controller="machine"} 1' in lines


def test_who_stands_in_for_no_controller_is_not_counted_as_one() -> None:
    process = Process(Settings(blocks={"clusterapi": ClusterApiSettings()}, turns=False), HOME)
    target = Key("", "Node", "", "n")
    process.reporting.on_refusal(Subject("arbiter", target), Change(target, {}), Refused(403, "no"))
    assert 'controller="arbiter"' not in process.metrics.render().decode()


def test_who_does_a_part_of_what_a_controller_does_is_counted_as_that() -> None:
    process = Process(
        Settings(blocks={"clusterapi": ClusterApiSettings(), "nodemaintenance": NodeMaintenanceSettings()}), HOME
    )
    target = Key("", "Machine", "fleet", "a")
    process.reporting.on_refusal(Subject("machine-release", target), Change(target, {}), Refused(403, "no"))
    lines = process.metrics.render().decode().splitlines()
    controllers = {match[1] for line in lines if (match := re.search(r'controller="([^"]+)"', line))}
    assert controllers == {"machine", "metal3", "nodemaintenance", "budgets", "logbook"}
    assert 'controller_runtime_reconcile_errors_total{controller="machine"} 1' in lines
    assert 'workqueue_retries_total{controller="machine",name="machine"} 1' in lines


ESX = """
intervals:
  check: {period: 60s, jitter: 0.1}
  podEviction: {period: 5s, timeout: 5m}
  vmShutdown: {period: 5s, timeout: 5m}
vCenters: {templateUrl: "https://vcenter-$AZ.example.test", credentials: {a: {username: robot, password: none}}}
"""
SURFACES = (
    ("machine", "clusterapi"),
    ("machine-release", "clusterapi"),
    ("metal3", "clusterapi"),
    ("nodemaintenance", "nodemaintenance"),
    ("nodemaintenance-leases", "nodemaintenance"),
    ("nodemaintenance-tainted", "nodemaintenance"),
    ("profiles-marks", "profiles"),
    ("esx", "profiles"),
    ("kubernikus", "profiles"),
    ("budgets", "kernel"),
    ("arbiter", "kernel"),
    ("pace", "kernel"),
)


@pytest.mark.parametrize(("decider", "surface"), SURFACES)
def test_what_befalls_a_decision_is_counted_to_its_surface(decider: str, surface: str, tmp_path: Path) -> None:
    config = tmp_path / "any.yaml"
    config.write_text(ESX)
    process = Process(
        Settings(
            blocks={
                "clusterapi": ClusterApiSettings(),
                "nodemaintenance": NodeMaintenanceSettings(),
                "profiles": ProfilesSettings(
                    config=str(config),
                    esx=EsxSettings(enabled=True, config=str(config)),
                    kubernikus=KubernikusSettings(enabled=True, config=str(config)),
                ),
            },
            turns=True,
        ),
        HOME,
    )
    subject, target = Subject(decider, Key("", "Node", "", "n")), Key("", "Pod", "ns", "p")
    process.reporting.on_refusal(subject, Change(target, {}), Refused(403, "no"))
    process.reporting.on_refusal(Subject("evict", target), Evict(target, "uid", surface=decider), Refused(500, "no"))
    process.reporting.on_restless(subject, target)
    process.reporting.decision_failed(subject, ValueError("no"))
    lines = process.metrics.render().decode().splitlines()
    # Of the other surfaces, failures are counted from 0: an alert needs to see an increase.
    counted = {line for line in lines if 'surface="' in line and "_total" in line and not line.endswith(" 0")}
    assert counted == {
        f'haulout_refusals_total{{code="403",surface="{surface}"}} 1',
        f'haulout_refusals_total{{code="500",surface="{surface}"}} 1',
        f'haulout_restless_keys_total{{surface="{surface}"}} 1',
        f'haulout_decision_failures_total{{surface="{surface}"}} 1',
    }


def test_decisions_show_as_work_of_a_queue() -> None:
    process = Process(Settings(blocks={"nodemaintenance": NodeMaintenanceSettings()}), HOME)
    process.kernel.lead()
    process.kernel.store.set_listing("", "NodeMaintenance", Listing.LISTED)
    process.kernel.store.write(MaintenanceRow(key=maintenance_key("a")))
    process.kernel.loop.run(datetime(2026, 1, 1, tzinfo=UTC))
    lines = process.metrics.render().decode().splitlines()
    queue = 'controller="nodemaintenance",name="nodemaintenance"'
    assert f"workqueue_adds_total{{{queue}}} 1" in lines
    assert f"workqueue_queue_duration_seconds_count{{{queue}}} 1" in lines
    assert f"workqueue_work_duration_seconds_count{{{queue}}} 1" in lines
    assert f'workqueue_depth{{{queue},priority=""}} 0' in lines
    for name in ("retries_total", "unfinished_work_seconds", "longest_running_processor_seconds"):
        assert f"workqueue_{name}{{{queue}}} 0" in lines


async def test_the_scrape_that_is_waited_for_is_the_first_after_the_signal() -> None:
    ending = Ending(lambda: None)
    ending.scraped()
    ending.signal()
    waits = asyncio.create_task(ending.await_scrape(60.0, in_any_case=False))
    await asyncio.sleep(0)
    assert not waits.done()
    ending.scraped()
    async with asyncio.timeout(60):
        await waits


async def test_a_process_whose_metrics_are_not_read_does_not_wait_for_it() -> None:
    ending = Ending(lambda: None)
    ending.signal()
    async with asyncio.timeout(60):
        await ending.await_scrape(3600.0, in_any_case=False)


def test_what_the_process_takes_of_its_machine_is_shown() -> None:
    text = Process(Settings(blocks={"nodemaintenance": NodeMaintenanceSettings()}), HOME).metrics.render().decode()
    values = dict(line.split() for line in text.splitlines() if line.startswith("process_"))
    parts = ("cpu_seconds_total", "resident_memory_bytes", "virtual_memory_bytes", "start_time_seconds", "open_fds")
    assert values.keys() == {*(f"process_{part}" for part in parts), "process_max_fds"}
    assert float(values["process_resident_memory_bytes"]) > 2**20
    assert "# TYPE process_cpu_seconds_total counter" in text


def test_requests_are_counted_in_the_words_of_the_originals() -> None:
    process = Process(Settings(blocks={"nodemaintenance": NodeMaintenanceSettings()}), HOME)
    answered = process._traffic.opened("https://10.0.0.1:6443")
    answered("10.0.0.1:6443", "GET", "200")
    line = 'rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 1'
    assert line in process.metrics.render().decode().splitlines()
    process._traffic.closed("https://10.0.0.1:6443")
    answered("10.0.0.1:6443", "GET", "<error>")
    assert "10.0.0.1" not in process.metrics.render().decode()


class Unprepared(Part):
    """A part whose preparation fails with each of the errors in turn, and then succeeds."""

    declaration = Declaration(name="unprepared", deciders=(), sources=lambda options: frozenset())
    errors: Iterator[KubeError] = iter(())

    async def prepare(self, writer: Writer) -> None:
        if (error := next(self.errors, None)) is not None:
            raise error


async def _begin(process: Process) -> None:
    work = asyncio.create_task(process.leadership.run())
    ended = asyncio.create_task(process.ending.wait())
    await asyncio.wait([work, ended], return_when=asyncio.FIRST_COMPLETED)
    ended.cancel()


def begun(errors: Iterable[KubeError], *, alone: bool) -> Process:
    process = Process(Settings(blocks={"clusterapi": ClusterApiSettings()}, alone=alone), HOME)
    part = Unprepared(process.parts[0].around)
    part.errors = iter(errors)
    process.parts = [part]
    asyncio.run(_begin(process))
    return process


@pytest.mark.parametrize("alone", [True, False])
def test_a_surface_without_its_rights_keeps_only_its_original_from_beginning(alone: bool) -> None:
    forbidden = Forbidden(Status(message="namespaces is forbidden", code=403))
    assert begun(itertools.repeat(forbidden), alone=alone).kernel.leading is not alone


@pytest.mark.parametrize("error", [ServerFailure(Status(code=500)), ApiError(Status(code=422))])
def test_what_one_surface_cannot_prepare_keeps_no_other_from_beginning(error: KubeError) -> None:
    """As where a webhook for namespaces is down, for however long."""
    assert begun(itertools.repeat(error), alone=False).kernel.leading


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailed("refused"),
        RequestTimeout("no answer within 30 s"),
        ServerFailure(Status(code=503)),
        TooManyRequests(Status(code=429)),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_answer_that_does_not_come_delays_the_beginning_and_ends_nothing(error: KubeError) -> None:
    assert begun([error], alone=True).kernel.leading


def test_the_first_thing_that_is_said_is_what_was_started(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("haulout.app.run.set_up_logs", lambda *_: None)
    caplog.set_level("INFO")
    assert run(Settings(blocks={"clusterapi": ClusterApiSettings()}, kubeconfig=str(tmp_path / "missing"))) == 1
    first = caplog.records[0]
    assert first.getMessage() == "haulout"
    assert fields(first) == {"version": __version__, "commit": "unknown", "built": "unknown"}
