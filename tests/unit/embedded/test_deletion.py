"""Deletion of objects: grace, finalizers, propagation, namespaces."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import NAMESPACES, Json
from haulout.kube.errors import Conflict, Forbidden, Invalid
from tests.build.apiserver import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, World, deployment, node, pod

PODS_PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
def world() -> World:
    return World()


def times(obj: Json | None) -> tuple[Any, Any]:
    assert obj is not None
    return obj["metadata"].get("deletionTimestamp"), obj["metadata"].get("deletionGracePeriodSeconds")


def test_a_node_goes_at_once(world: World) -> None:
    made = world.server.create(NODES, node("a"))
    said = world.ask("DELETE", "/api/v1/nodes/a")
    assert said.body["details"] == {"name": "a", "kind": "nodes", "uid": made["metadata"]["uid"]}
    assert world.server.get(NODES, "", "a") is None


@pytest.mark.parametrize(
    "spec, phase, grace, wanted",
    [
        pytest.param({"on": "n"}, "Running", None, ("2026-01-01T00:00:30Z", 30), id="its own grace"),
        pytest.param({"on": "n"}, "Running", 5, ("2026-01-01T00:00:05Z", 5), id="asked for less"),
        pytest.param({"on": "n"}, "Running", -1, ("2026-01-01T00:00:01Z", 1), id="negative"),
        pytest.param({"on": "n"}, "Running", 0, None, id="none"),
        pytest.param({}, "Pending", None, None, id="unscheduled"),
        pytest.param({"on": "n"}, "Succeeded", None, None, id="ended"),
    ],
)
def test_pods_are_given_time(
    world: World, spec: Json, phase: str, grace: int | None, wanted: tuple[str, int] | None
) -> None:
    world.server.create(PODS, pod("a", **spec))
    world.server.patch(PODS, "default", "a", {"status": {"phase": phase}}, subresource="status")
    world.server.delete(PODS, "default", "a", grace=grace)
    found = world.server.get(PODS, "default", "a")
    assert (times(found) if found else None) == wanted


def test_grace_can_only_become_shorter(world: World) -> None:
    world.server.create(PODS, pod("a", on="n"))
    world.server.delete(PODS, "default", "a")
    assert world.server.get(PODS, "default", "a")["metadata"]["generation"] == 2  # type: ignore[index]
    world.server.delete(PODS, "default", "a", grace=60)
    assert times(world.server.get(PODS, "default", "a")) == ("2026-01-01T00:00:30Z", 30)
    world.wait(seconds=3)
    world.server.delete(PODS, "default", "a", grace=5)
    assert times(world.server.get(PODS, "default", "a")) == ("2026-01-01T00:00:05Z", 5)
    world.server.delete(PODS, "default", "a", grace=1)
    assert times(world.server.get(PODS, "default", "a")) == ("2026-01-01T00:00:03Z", 1)
    world.server.delete(PODS, "default", "a", grace=0)
    assert world.server.get(PODS, "default", "a") is None


def test_a_deletion_without_grace_is_two_changes(world: World) -> None:
    heard = world.heard(PODS)
    world.server.create(PODS, pod("a"))
    said = world.ask("DELETE", f"{PODS_PATH}/a")
    world.wait(seconds=0)
    assert [change.type for change in heard] == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(change.object["metadata"]["resourceVersion"]) for change in heard]
    assert versions == list(range(versions[0], versions[0] + 3))
    assert said.body["kind"] == "Pod"


def test_finalizers_keep_an_object_until_the_last_is_gone(world: World) -> None:
    heard = world.heard(NODES)
    world.server.create(NODES, {"metadata": {"name": "a", "finalizers": ["x.io/f"]}})
    for _ in range(2):
        world.server.delete(NODES, "", "a")
    assert times(world.server.get(NODES, "", "a")) == ("2026-01-01T00:00:00Z", 0)
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being deleted"):
        world.server.patch(NODES, "", "a", {"metadata": {"finalizers": ["x.io/f", "x.io/g"]}})
    world.server.patch(NODES, "", "a", {"metadata": {"finalizers": None}})
    assert world.server.get(NODES, "", "a") is None
    world.wait(seconds=0)
    assert [change.type for change in heard] == ["ADDED", "MODIFIED", "DELETED"]


@pytest.mark.parametrize(
    "propagation, finalizers",
    [
        pytest.param(None, None, id="by default"),
        pytest.param("Background", None, id="background"),
        pytest.param("Foreground", ["foregroundDeletion"], id="foreground"),
        pytest.param("Orphan", ["orphan"], id="orphan"),
    ],
)
def test_the_collector_is_told_by_finalizers(
    world: World, propagation: str | None, finalizers: list[str] | None
) -> None:
    world.server.create(DEPLOYMENTS, deployment("d"))
    world.server.delete(DEPLOYMENTS, "default", "d", propagation=propagation)
    found = world.server.get(DEPLOYMENTS, "default", "d")
    assert (found["metadata"]["finalizers"] if found else None) == finalizers


def test_jobs_leave_their_pods_behind_unless_told_otherwise(world: World) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "a"}]}}
    address = "/apis/batch/v1/namespaces/default/jobs"
    world.ask("POST", address, {"metadata": {"name": "j"}, "spec": {"template": template}})
    said = world.ask("DELETE", f"{address}/j")
    assert said.body["metadata"]["finalizers"] == ["orphan"]
    assert "child pods are preserved by default" in said.warnings[0]


@pytest.mark.parametrize(
    "asked, message",
    [
        ({"uid": "x"}, "the UID in the precondition (x) does not match the UID in record"),
        (
            {"resourceVersion": "1"},
            "the ResourceVersion in the precondition (1) does not match the ResourceVersion in record",
        ),
    ],
    ids=["uid", "version"],
)
def test_preconditions(world: World, asked: Json, message: str) -> None:
    world.server.create(NODES, node("a"))
    said = world.ask("DELETE", "/api/v1/nodes/a", {"preconditions": asked})
    assert said.code == 409
    assert said.message.startswith('Operation cannot be fulfilled on Node "a": ')
    assert message in said.message
    with pytest.raises(Conflict):
        world.server.delete(NODES, "", "a", uid="y")


def test_collections_are_deleted_by_selector(world: World) -> None:
    for name, zone in (("a", "z1"), ("b", "z2"), ("c", "z1")):
        world.server.create(NODES, node(name, zone=zone))
    said = world.ask("DELETE", "/api/v1/nodes?labelSelector=zone=z1")
    assert [each["metadata"]["name"] for each in said.body["items"]] == ["a", "c"]
    assert [each["metadata"]["name"] for each in world.server.list(NODES)] == ["b"]


def test_a_namespace_is_emptied_before_it_goes(world: World) -> None:
    world.server.create(NAMESPACES, {"metadata": {"name": "team"}})
    world.server.create(PODS, {**pod("a", on="n"), "metadata": {"name": "a", "namespace": "team"}})
    world.server.create(CONFIG_MAPS, {"metadata": {"name": "c", "namespace": "team"}})
    said = world.ask("DELETE", "/api/v1/namespaces/team")
    assert said.body["status"] == {"phase": "Terminating"}
    world.wait(seconds=0)
    assert world.server.get(CONFIG_MAPS, "team", "c") is None
    assert times(world.server.get(PODS, "team", "a"))[1] == 30
    refused = world.ask("POST", "/api/v1/namespaces/team/configmaps", {"metadata": {"name": "x"}})
    assert (
        refused.message
        == 'configmaps "x" is forbidden: unable to create new content in namespace team because it is being terminated'
    )
    assert refused.body["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    world.server.delete(PODS, "team", "a", grace=0)
    world.wait(seconds=0)
    assert world.server.get(NAMESPACES, "", "team") is None


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(world: World, name: str) -> None:
    with pytest.raises(Forbidden, match=f'namespaces "{name}" is forbidden: this namespace may not be deleted'):
        world.server.delete(NAMESPACES, "", name)
