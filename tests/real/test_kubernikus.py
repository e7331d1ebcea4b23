"""Kubernikus on a real API server, with a small OpenStack: nodes that leave, alone and as the work of a profile."""

from __future__ import annotations

import asyncio
import base64
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.build.cloud import PASSWORD, OpenStack, serving
from tests.real.profiles import DATA, PROFILE, STATE, label_of
from tests.rig.crash import CrashTest, normalised
from tests.rig.fleet import node_object, pod_object
from tests.rig.kwok import Kwok
from tests.rig.operator import HAULOUT, MaintenanceController, Platform
from tests.rig.plane import ControlPlane
from tests.rig.wait import eventually

NOTHING = "intervals: {requeue: 30s}"
FILE = """
intervals:
  requeue: 1s
  podDeletion: {period: 1s, timeout: 30s}
  podEviction: {period: 1s, timeout: 30s}
"""
QUICK = FILE.replace("1s", "100ms")
# As the profiles leave a node without any: that may be one write with the version, or one more.
ATTACHED = (
    '{"Profiles":{"default":{"Transition":"2026-01-01T00:00:00Z","Current":"operational","Previous":"operational"}},'
    '"Notifications":{}}'
)
DELETE, UPDATE = "cloud.sap/delete-node", "cloud.sap/kubelet-needs-update"
# Asks for the deletion of its node by itself, and is in maintenance meanwhile.
PROFILES = f"""
intervals: {{requeue: 1s}}
instances:
  check:
  - {{type: hasLabel, name: outdated, config: {{key: {UPDATE}, value: "true"}}}}
  - {{type: hasLabel, name: never, config: {{key: never}}}}
  trigger:
  - {{type: alterLabel, name: delete, config: {{key: {DELETE}, value: "true"}}}}
profiles:
- name: update
  operational: {{transitions: [{{check: outdated, next: in-maintenance, trigger: delete}}]}}
  in-maintenance: {{transitions: [{{check: never, next: operational}}]}}
"""


@pytest.fixture
def cloud() -> Iterator[OpenStack]:
    """The simulated cloud, in a thread of its own."""
    ready, loop = threading.Event(), asyncio.new_event_loop()
    made: list[OpenStack] = []
    done = asyncio.Event()

    async def serve() -> None:
        async with serving() as cloud:
            made.append(cloud)
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    assert ready.wait(60)
    yield made[0]
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


@pytest.mark.tools("etcd", "kube-apiserver", "kwok")
def test_a_node_goes_once_the_file_is_right(
    plane: ControlPlane, kwok: Kwok, cloud: OpenStack, prefix: str, tmp_path: Path
) -> None:
    stays, goes = kwok.nodes(prefix, 2)
    cloud.servers = [("i0", f"{goes}0"), ("i1", goes), ("i2", stays)]
    api = plane.api()
    entry = base64.b64encode(cloud.config().encode()).decode()
    secret = {"metadata": {"name": prefix, "namespace": "default"}, "data": {"cloudprovider.conf": entry}}
    api.create("secrets", {"apiVersion": "v1", "kind": "Secret", **secret}, "default")
    api.create("pods", pod_object(f"{prefix}-pod", "default", goes, grace=1), "default")
    flags = ["--enable-kubernikus-maintenance", "--zap-devel=false"]
    with MaintenanceController(plane, tmp_path, NOTHING, flags=flags) as operator:
        eventually(lambda: operator.logged("Failed to parse configuration file (syntax error)"), "no file is said")
        api.patch("nodes", goes, {"metadata": {"labels": {DELETE: "true"}}})
        operator.write(FILE, "config/kubernikus.yaml")
        eventually(lambda: label_of(api.get("nodes", stays), UPDATE) is not None, "the version is compared")
        eventually(lambda: api.find("pods", f"{prefix}-pod", "default") is None, "the node is emptied")
        eventually(lambda: operator.logged("kubernikus maintenance failed"), "the credentials are missing")
        assert cloud.asked == []
        operator.write(f"{FILE}cloudProviderSecret: {{name: {prefix}, namespace: default}}", "config/kubernikus.yaml")
        eventually(lambda: cloud.deletions == ["i1"], "the server is deleted")
        assert api.get("nodes", goes)["spec"]["unschedulable"]
        assert "unschedulable" not in api.get("nodes", stays)["spec"]
        operator.process.stop()
    assert PASSWORD not in operator.process.text()
    api.delete("secrets", prefix, "default")
    plane.wipe(prefix)


@pytest.mark.tools("etcd", "kube-apiserver", "kwok")
def test_a_profile_that_has_its_node_deleted_does_not_wait_for_itself(
    plane: ControlPlane, kwok: Kwok, cloud: OpenStack, prefix: str, tmp_path: Path
) -> None:
    (name,) = kwok.nodes(prefix, 1, labels={PROFILE: "update"})
    cloud.servers = [("i1", name)]
    api = plane.api()
    surfaces = "{profiles: {metricsTimeout: 0s, kubernikus: {enabled: true, credentials: cloud.conf}}}"
    operator = Platform(plane, tmp_path, PROFILES, "leader: {elect: false}", surfaces=surfaces)
    operator.write(FILE, "config/kubernikus.yaml")
    operator.write(cloud.config(), "cloud.conf")
    with operator:
        # Older than any API server that we test with.
        api.patch("nodes", name, {"status": {"nodeInfo": {"kubeletVersion": "v1.1.0"}}}, sub="status")
        eventually(lambda: label_of(api.get("nodes", name), STATE) == "in-maintenance", "the profile works")
        eventually(lambda: cloud.deletions == ["i1"], "the server is deleted")
        assert api.get("nodes", name)["spec"]["unschedulable"]
        operator.process.stop()
    plane.wipe(prefix)


@pytest.mark.tools("etcd", "kube-apiserver")
def test_killed_at_every_write_a_node_is_emptied_and_its_server_deleted_once(
    plane: ControlPlane, cloud: OpenStack, prefix: str, tmp_path: Path
) -> None:
    name, api, deleted = f"{prefix}-node", plane.api(), list[list[str]]()
    for file, text in {"maintenance.yaml": NOTHING, "kubernikus.yaml": QUICK, "cloud.conf": cloud.config()}.items():
        (tmp_path / file).write_text(text)
    kubernikus = f"{{enabled: true, config: {tmp_path}/kubernikus.yaml, credentials: {tmp_path}/cloud.conf}}"
    (tmp_path / "haulout.yaml").write_text(
        'listen: {http: "0", health: "0"}\nleader: {elect: false}\n'
        f"surfaces: {{profiles: {{config: {tmp_path}/maintenance.yaml, kubernikus: {kubernikus}}}}}\n"
    )

    def make() -> None:
        plane.wipe(prefix)
        api.create("namespaces", {"metadata": {"name": prefix}})
        node = node_object(name, labels={STATE: "operational"}, annotations={DATA: ATTACHED})
        plane.load([node, pod_object(f"{prefix}-pod", prefix, name, grace=0)])
        cloud.servers, cloud.asked = [("i0", f"{name}0"), ("i1", name)], []
        deleted.append([])

    def act() -> None:
        # Two who write to a node at the same time would have a conflict, which is one write more.
        eventually(lambda: label_of(api.get("nodes", name), UPDATE) is not None, "the version is compared")
        api.patch("nodes", name, {"metadata": {"labels": {DELETE: "true"}}})

    def end() -> Any:
        deleted[-1] = cloud.deletions
        node = api.get("nodes", name)
        return normalised([node["metadata"]["labels"], node["metadata"]["annotations"], node["spec"]])

    report = CrashTest(
        plane=plane,
        logs=tmp_path,
        argv=[HAULOUT, "run", "--config", tmp_path / "haulout.yaml"],
        make_world=make,
        act=act,
        settled=lambda: not api.items("pods", prefix) and len(cloud.servers) == 1,
        end_state=end,
        quiet=0.3,
    ).verify()
    plane.wipe(prefix)
    # What the kubelet's version comes to, the cordon, the eviction.
    assert len(report.writes) == 3, report.writes
    assert all(each == ["i1"] for each in deleted), deleted
