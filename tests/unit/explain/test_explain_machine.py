"""`haulout explain machine` judges hosts by the rules of the operator whose settings it reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from haulout.app.clusterapi import ClusterApis
from haulout.app.parts import Surroundings
from haulout.base.clock import SystemClock
from haulout.cluster.store import Store
from haulout.explain.setup import read_setup
from haulout.runtime.metrics import Metrics
from haulout.settings.file import read_settings
from haulout.surfaces.clusterapi.hosts import reasons
from tests.build.machines import host, machine

SETTINGS = """
surfaces:
  clusterapi: {enableMetal3Maintenance: true, workloadRequests: true, allowedServerRanges: [10.0.0.0/8]}
"""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("haulout.yaml").write_text(SETTINGS)


def test_its_options_are_those_of_the_operator() -> None:
    given = read_settings(SETTINGS.encode(), "haulout.yaml", {}, {}, "")
    part = ClusterApis(Surroundings(given, Store(), Metrics(), SystemClock(), lambda: None))
    assert read_setup("").options("clusterapi") == part.options


@pytest.mark.parametrize("namespace, consumer", [("other", "m3"), ("fleet", "")], ids=["elsewhere", "no consumer"])
def test_a_host_that_the_operator_leaves_alone_is_not_awaited(namespace: str, consumer: str) -> None:
    approved = machine("m", namespace=namespace, request="approved", provider="metal3://fleet/h/m3")
    told = reasons(approved, host(consumer=consumer), read_setup("").options("clusterapi"))
    assert [reason.code for reason in told] == ["host-left-alone"]
