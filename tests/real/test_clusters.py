"""Several clusters in one process: each is opened when a decision names it, and closed when no decision does any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from datetime import datetime
from pathlib import Path

import pytest

from haulout.base.clock import SystemClock
from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow, Value
from haulout.cluster.store import Listing
from haulout.cluster.view import CONFIG, View
from haulout.core.action import Label
from haulout.core.decision import NOTHING, Decider, Decision, Source
from haulout.kernel.kernel import Kernel
from haulout.kube.allowed_addresses import Reach
from haulout.kube.config import from_secret
from haulout.kube.http import HttpTransport
from haulout.kube.recorder import Recorder
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.driver import Driver
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Sender
from haulout.runtime.sources import Sources
from haulout.runtime.wake import Wake
from tests.rig.fleet import node_object
from tests.rig.loops import abort_connections
from tests.rig.plane import ControlPlane

SETTING = Key("", CONFIG, "", "clusters")


def names_clusters(key: Key, view: View, now: datetime) -> Decision:
    """Ask for the clusters that the configuration names, each with its kubeconfig."""
    setting = view.config("clusters")
    wanted = setting.value if setting is not None else {}
    assert isinstance(wanted, dict)
    return Decision(sources=tuple(Source(name, "Node", Keep(), access) for name, access in wanted.items()))


def greets(key: Key, view: View, now: datetime) -> Decision:
    """Label every node of every cluster with the name of the cluster."""
    row = view.get(key, NodeRow)
    if row is None or row.labels.get("seen-in") == key.cluster:
        return NOTHING
    return Decision(actions=((Label(key, "seen-in", key.cluster),),))


LOCAL = Reach(loopback=True)


async def connect(access: Hashable) -> Transport:
    assert isinstance(access, bytes)
    return HttpTransport(from_secret(access, source="test", reach=LOCAL).endpoint, SystemClock())


async def until(condition: Callable[[], bool]) -> None:
    """Wait by polling, because the result is on a server."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.tools("etcd", "kube-apiserver")
async def test_clusters_are_opened_and_closed_while_running(
    plane: ControlPlane, managed_plane: ControlPlane, prefix: str, tmp_path: Path
) -> None:
    planes = {"east": plane, "west": managed_plane}
    access = {name: inline_kubeconfig(made) for name, made in planes.items()}
    for made in planes.values():
        made.load([node_object(f"{prefix}-0")])
    kernel = Kernel([Decider("names", CONFIG, names_clusters), Decider("greets", "Node", greets, cluster=None)])
    clock, metrics = SystemClock(), Metrics()
    transport = HttpTransport(from_secret(access["east"], source="home", reach=LOCAL).endpoint, clock)
    wake = Wake(kernel.loop)
    pump = Pump(kernel.store, clock, metrics, wake.poke)
    writer = Writer(transport)
    sender = Sender(pump.kinds, Recorder(writer, clock), clock, metrics, host="test")
    driver = Driver(kernel, sender, clock, metrics, wake)
    sources = Sources(kernel.loop, pump, sender, clock, set, connect)
    sources.add_home(transport, writer)

    def configure(*names: str) -> None:
        kernel.store.write(Value(key=SETTING, value={name: access[name] for name in names}))
        wake.poke()

    def mark(name: str) -> str | None:
        labels = planes[name].api().get("nodes", f"{prefix}-0")["metadata"]["labels"]
        found: str | None = labels.get("seen-in")
        return found

    async with asyncio.TaskGroup() as group:
        driver.after_asking.append(lambda: sources.follow(group))
        running = group.create_task(driver.run())
        configure("east", "west")
        await until(lambda: mark("east") == "east" and mark("west") == "west")
        configure("east")
        await until(lambda: kernel.store.row(node_key(f"{prefix}-0", "west")) is None)
        assert kernel.store.table("west", "Node").listing is Listing.WAITING
        assert pump.opened() == [("east", "Node")]
        assert set(sender.writers) == {"", "east"}
        configure("east", "west")
        await until(lambda: kernel.store.row(node_key(f"{prefix}-0", "west")) is not None)
        configure()
        await until(lambda: pump.opened() == [])
        running.cancel()
    await transport.close()
    await abort_connections()
    for made in planes.values():
        made.wipe(prefix)


def inline_kubeconfig(plane: ControlPlane) -> bytes:
    """Return a kubeconfig for a Secret, which names no file of this machine."""
    import base64
    import json

    cluster = {
        "server": plane.api().server,
        "certificate-authority-data": base64.b64encode(plane.ca.read_bytes()).decode(),
    }
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": plane.token("operator")}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    }
    return json.dumps(body).encode()
