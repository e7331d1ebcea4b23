"""Indexes, bookmarks, ages in tables and YAML: reading beyond what contract cases show."""

from __future__ import annotations

import pytest

from tests.build.apiserver import NODES, PODS, World, events, node, pod, short

NODES_PATH = "/api/v1/nodes"
PODS_PATH = "/api/v1/namespaces/default/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


@pytest.fixture
def world() -> World:
    world = World()
    for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z1")):
        world.server.create(NODES, node(name, zone=zone))
    return world


def names(world: World, address: str) -> list[str]:
    return [each["metadata"]["name"] for each in world.ask("GET", address).body["items"]]


def test_pods_are_found_by_node(world: World) -> None:
    for name, on in (("x", "a"), ("y", "b"), ("z", "a")):
        world.server.create(PODS, pod(name, on=on))
    assert names(world, "/api/v1/pods?fieldSelector=spec.nodeName=a") == ["x", "z"]
    world.server.delete(PODS, "default", "x", grace=0)
    assert names(world, "/api/v1/pods?fieldSelector=spec.nodeName=a,status.phase=Pending") == ["z"]
    assert names(world, "/api/v1/namespaces/kube-system/pods?fieldSelector=spec.nodeName=a") == []


def test_a_watch_from_before_what_is_known() -> None:
    world = World(log_length=2)
    for name in "abcd":
        world.server.create(NODES, node(name))
    watch = world.watch(f"{NODES_PATH}?watch=1&resourceVersion=6")
    [(kind, status)] = events(watch)
    assert (kind, status["code"], status["reason"]) == ("ERROR", 410, "Expired")
    assert status["message"] == "too old resource version: 6 (7)"
    assert watch.watch is not None
    assert watch.watch.ended
    assert short(world.watch(f"{NODES_PATH}?watch=1&resourceVersion=7")) == ["ADDED c", "ADDED d"]


def test_watches_mark_their_progress_and_end(world: World) -> None:
    answer = world.watch(f"{NODES_PATH}?watch=1&resourceVersion=8&allowWatchBookmarks=true&timeoutSeconds=90")
    world.wait(seconds=61)
    [(kind, mark)] = events(answer)
    assert (kind, mark["kind"], mark["metadata"]) == ("BOOKMARK", "Node", {"resourceVersion": "8"})
    world.wait(seconds=30)
    assert answer.watch is not None
    assert answer.watch.ended
    world.server.create(NODES, node("z"))
    assert [kind for kind, _ in events(answer)] == ["BOOKMARK"]


def test_tables(world: World) -> None:
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}], "nodeInfo": {"kubeletVersion": "v1"}}}
    world.server.patch(NODES, "", "a", ready, subresource="status")
    world.server.patch(
        NODES,
        "",
        "a",
        {"spec": {"unschedulable": True}, "metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}},
    )
    world.wait(minutes=3)
    found = world.ask("GET", NODES_PATH, accept=TABLE).body
    assert [column["name"] for column in found["columnDefinitions"]][:5] == [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
    ]
    assert found["rows"][0]["cells"] == [
        "a", "Ready,SchedulingDisabled", "worker", "3m", "v1", "<none>", "<none>", "<unknown>", "<unknown>", "<unknown>",
    ]  # fmt: skip
    assert found["rows"][1]["cells"][1] == "Unknown"
    assert found["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    assert world.ask("GET", f"{NODES_PATH}?includeObject=None", accept=TABLE).body["rows"][0]["object"] is None


@pytest.mark.parametrize(
    "status, deleted, cells",
    [
        pytest.param({"phase": "Running", "containerStatuses": [{"name": "c", "ready": True, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}}}]}, False, ["1/1", "Running", "0"], id="running"),
        pytest.param({"phase": "Running", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 3, "image": "", "imageID": "", "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": {"exitCode": 1, "finishedAt": "2025-12-31T23:59:00Z"}}}]}, False, ["0/1", "CrashLoopBackOff", "3 (60s ago)"], id="crashing"),
        pytest.param({"phase": "Succeeded", "containerStatuses": [{"name": "c", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}, False, ["0/1", "Completed", "0"], id="completed"),
        pytest.param({"phase": "Pending", "initContainerStatuses": [{"name": "i", "ready": False, "restartCount": 0, "image": "", "imageID": "", "state": {"running": {}}}]}, False, ["0/1", "Init:0/0", "0"], id="initialising"),
        pytest.param({"phase": "Failed", "reason": "Evicted"}, False, ["0/1", "Evicted", "0"], id="evicted"),
        pytest.param({"phase": "Running"}, True, ["0/1", "Terminating", "0"], id="terminating"),
    ],
)  # fmt: skip
def test_pods_in_tables(world: World, status: dict[str, object], deleted: bool, cells: list[str]) -> None:
    world.server.create(PODS, pod("x", on="a"))
    world.server.patch(PODS, "default", "x", {"status": status}, subresource="status")
    if deleted:
        world.server.delete(PODS, "default", "x")
    row = world.ask("GET", f"{PODS_PATH}/x", accept=TABLE).body["rows"][0]["cells"]
    assert row[1:4] == cells
    assert row[4:7] == ["0s", "<none>", "a"]


def test_yaml(world: World) -> None:
    said = world.ask("GET", f"{NODES_PATH}/a", accept="application/yaml")
    assert said.body.startswith("apiVersion: v1\nkind: Node\n")
