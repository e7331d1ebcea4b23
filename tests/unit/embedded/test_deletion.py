"""Deletion of objects in virtual time, beyond what contract cases show."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import NAMESPACES, Json
from tests.build.apiserver import CONFIG_MAPS, PODS, World, pod

PODS_PATH = "/api/v1/namespaces/default/pods"


@pytest.fixture
def world() -> World:
    return World()


def times(obj: Json | None) -> tuple[Any, Any]:
    assert obj is not None
    return obj["metadata"].get("deletionTimestamp"), obj["metadata"].get("deletionGracePeriodSeconds")


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
