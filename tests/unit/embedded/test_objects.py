"""Objects as actors and clients create, change and read them, beyond what contract cases show."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.kube.errors import ApiError, NotFound
from tests.build.apiserver import (
    NODES,
    PODS,
    World,
    node,
    pod,
)


@pytest.fixture
def world() -> World:
    return World()


def test_what_go_leaves_out_is_left_out_and_what_it_prints_is_printed(world: World) -> None:
    made = world.ask("POST", "/api/v1/nodes", node("n") | {"spec": {"unschedulable": False, "taints": []}}).body
    assert made["spec"] == {}
    assert made["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
    made = world.ask(
        "PATCH",
        "/api/v1/nodes/n/status",
        {"status": {"conditions": [{"type": "Ready", "status": "True"}], "capacity": {"cpu": "1000m"}}},
        patch="merge",
    ).body
    assert made["status"]["conditions"] == [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": None, "lastTransitionTime": None}
    ]
    assert made["status"]["capacity"] == made["status"]["allocatable"] == {"cpu": "1"}


def test_new_nodes_are_tainted_until_somebody_finds_them_ready() -> None:
    made = World(taint_new_nodes=True).server.create(NODES, node("n"))
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]


def test_names_are_made_up_and_the_same_in_each_run() -> None:
    first, second = (
        World().server.create(PODS, pod("") | {"metadata": {"generateName": "web-", "namespace": "default"}})
        for _ in range(2)
    )
    assert first == second
    assert len(first["metadata"]["name"]) == len("web-") + 5


def test_a_change_that_changes_nothing_has_no_revision(world: World) -> None:
    made = world.server.create(NODES, node("a", x="y"))
    assert world.server.patch(NODES, "", "a", {"metadata": {"labels": {"x": "y"}}}) is made
    assert world.server.update(NODES, made) is made
    assert world.server.patch(NODES, "", "a", {"status": {"phase": "x"}}) is made


def test_objects_are_never_changed_in_place(world: World) -> None:
    sent = pod("a")
    made = world.server.create(PODS, sent)
    before = repr((sent, made))
    world.server.patch(PODS, "default", "a", {"metadata": {"labels": {"x": "y"}}})
    world.server.patch(PODS, "default", "a", {"status": {"phase": "Running"}}, subresource="status")
    world.server.delete(PODS, "default", "a", grace=0)
    assert repr((sent, made)) == before


def test_both_faces_of_an_event(world: World) -> None:
    sent = {
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "x", "namespace": "default"},
        "reason": "R",
        "note": "m",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "action": "A",
    }
    made = world.ask("POST", "/apis/events.k8s.io/v1/namespaces/default/events", sent)
    assert (made.code, made.body["apiVersion"], made.body["note"]) == (201, "events.k8s.io/v1", "m")
    core = world.ask("GET", "/api/v1/namespaces/default/events/e").body
    assert (core["apiVersion"], core["message"], core["reportingComponent"], core["lastTimestamp"]) == (
        "v1",
        "m",
        "a.b/c",
        None,
    )
    del sent["eventTime"]
    refused = world.ask(
        "POST", "/apis/events.k8s.io/v1/namespaces/default/events", sent | {"metadata": {"name": "f"}, "type": "Bad"}
    )
    assert (
        refused.message
        == 'Event "f" is invalid: [eventTime: Required value, type: Invalid value: "": has invalid value: Bad]'
    )


def test_events_are_forgotten_after_an_hour(world: World) -> None:
    about = {"kind": "Node", "name": "x"}
    for minute in (0, 30):
        world.wait(minutes=minute)
        world.ask(
            "POST", "/api/v1/namespaces/default/events", {"metadata": {"name": f"e{minute}"}, "involvedObject": about}
        )
    world.wait(minutes=31)
    assert [each["metadata"]["name"] for each in world.ask("GET", "/api/v1/events").body["items"]] == ["e30"]


def test_actors_are_told_later_and_in_order(world: World) -> None:
    told: list[str] = []

    def on_change(change: Any) -> None:
        told.append(f"{change.type} {change.object['metadata']['name']}")
        if change.type == "ADDED" and change.object["metadata"]["name"] == "a":
            world.server.create(NODES, node("c"))
            told.append("wrote c")

    world.server.subscribe(NODES, on_change)
    world.server.create(NODES, node("a"))
    world.server.create(NODES, node("b"))
    assert told == []
    world.wait(seconds=0)
    assert told == ["ADDED a", "wrote c", "ADDED b", "ADDED c"]


def test_what_is_not_there_is_none(world: World) -> None:
    assert world.server.get(NODES, "", "a") is None
    for act in (lambda: world.server.patch(NODES, "", "a", {}), lambda: world.server.delete(NODES, "", "a")):
        with pytest.raises(NotFound):
            act()


def test_rules_are_reviewed_too(world: World) -> None:
    said = world.ask(
        "POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}
    )
    assert said.body["status"]["resourceRules"] == [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]


def test_refusals_of_actors_are_typed(world: World) -> None:
    with pytest.raises(ApiError) as refusal:
        world.server.create(PODS, pod("p") | {"spec": {"containers": "x"}})
    assert refusal.value.status.code == 400
