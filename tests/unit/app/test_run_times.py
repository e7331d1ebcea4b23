"""The ConfigMap with the run times of pods, on the embedded API server."""

from __future__ import annotations

import pytest

from haulout.app.run_times import RunTimes
from haulout.embedded import Api, InProcessTransport, Resource, Server, VirtualTimers
from haulout.kube.writer import Writer
from haulout.surfaces.notify.scheduler.history import CONFIGMAP
from haulout.surfaces.notify.scheduler.recording import StoredHistory
from tests.build.rows import START

CONFIGMAPS, NAMESPACES = Resource("", "v1", "configmaps"), Resource("", "v1", "namespaces")


@pytest.fixture
def server() -> Server:
    made = Server(VirtualTimers(START))
    made.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "own"}})
    return made


def run_times(server: Server) -> RunTimes:
    return RunTimes(Writer(InProcessTransport(Api(server))))


async def test_what_is_stored_is_read_again(server: Server) -> None:
    kept = run_times(server)
    assert await kept.read("own") == ""
    await kept.store(StoredHistory("own", '{"a":[1.0]}'))
    await kept.store(StoredHistory("own", '{"a":[1.0,2.0]}'))
    assert await run_times(server).read("own") == '{"a":[1.0,2.0]}'
    assert server.get(CONFIGMAPS, "own", CONFIGMAP) is not None


async def test_other_keys_of_the_configmap_stay(server: Server) -> None:
    made = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIGMAP, "namespace": "own"}}
    server.create(CONFIGMAPS, {**made, "data": {"note": "ours"}})
    await run_times(server).store(StoredHistory("own", "{}"))
    found = server.get(CONFIGMAPS, "own", CONFIGMAP)
    assert found is not None
    assert found["data"] == {"note": "ours", "history.json": "{}"}
