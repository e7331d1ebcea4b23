"""The part of the process for the kernel's limits: when etcd keeps its quorum."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest

from haulout.app.budgets import Budgets
from haulout.app.parts import Surroundings
from haulout.cluster.store import Store
from haulout.cluster.view import View
from haulout.core.budgets.quorum import NAME
from haulout.kube.errors import ConnectionFailed, KubeError
from haulout.kube.transport import Reply
from haulout.kube.writer import Writer
from haulout.runtime.metrics import Metrics
from haulout.settings.settings import Settings
from haulout.surfaces.clusterapi.settings import ClusterApiSettings
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings
from tests.build.clock import ManualClock
from tests.build.fakeapi import refusal
from tests.build.objects import Objects
from tests.build.rows import START

OPENSHIFT, APPS = "config.openshift.io/v1", "apps/v1"
MAINTENANCES = {"nodemaintenance": NodeMaintenanceSettings()}
ASKED_FOR = {"nodemaintenance": NodeMaintenanceSettings(quorum_on_kubernetes=True)}
MACHINES = {"clusterapi": ClusterApiSettings()}


class Server(Objects):
    """An API server that serves one API group, or fails."""

    def __init__(self, answer: str | KubeError) -> None:
        super().__init__()
        self._reply = answer

    async def request(self, method: str, path: str, **more: Any) -> Reply:
        assert (method, path) == ("GET", "/apis")
        if isinstance(self._reply, KubeError):
            raise self._reply
        groups = [{"name": "x", "versions": [{"groupVersion": self._reply}]}]
        return Reply(200, json.dumps({"kind": "APIGroupList", "groups": groups}).encode())


@pytest.mark.parametrize(
    ("blocks", "answer", "kept"),
    [
        pytest.param(MAINTENANCES, OPENSHIFT, True, id="on OpenShift"),
        pytest.param(MAINTENANCES, APPS, False, id="on plain Kubernetes"),
        pytest.param(ASKED_FOR, APPS, True, id="on plain Kubernetes where a setting asks for it"),
        pytest.param(MAINTENANCES, refusal(403, "Forbidden"), True, id="it may not be read"),
        pytest.param(MAINTENANCES, ConnectionFailed("no route"), True, id="the server is away"),
        pytest.param(MACHINES, OPENSHIFT, False, id="no surface claims nodes"),
    ],
)
async def test_where_etcd_keeps_its_quorum(blocks: dict[str, Any], answer: str | KubeError, kept: bool) -> None:
    store = Store()
    around = Surroundings(Settings(blocks=blocks), store, Metrics(), ManualClock(START), lambda: None)
    part = Budgets(around)
    with contextlib.suppress(ConnectionFailed):
        await part.prepare(Writer(Server(answer)))
    row = View(store).config(NAME)
    assert row is not None
    assert (row.value, "Pod" in {source.kind for source in part.watches()}) == (kept, kept)
