"""The scheduler of the embedded cluster."""

from collections import Counter

import pytest

from haulout.embedded import NODES, PODS, ZONE, Json
from haulout.embedded.controllers.node_fit import requests_of
from tests.build.workloads import World, condition_of, deployment, node, pod, template

TOLERATING = [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]


def affinity(*expressions: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": list(expressions)}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def test_pods_of_one_owner_are_spread_over_zones_and_nodes() -> None:
    world = World(nodes=6, zones=3).make(deployment("web", 6)).run()
    assert world.places() == ["n0", "n1", "n2", "n3", "n4", "n5"]
    zones = Counter(int(name[1:]) % 3 for name in world.make(deployment("api", 4)).run().places("app=api"))
    assert sorted(zones.values()) == [1, 1, 2]


@pytest.mark.parametrize(
    ("spec", "places"),
    [
        pytest.param({"nodeSelector": {"disk": "fast"}}, ["n1"], id="node selector"),
        pytest.param({"affinity": affinity({"key": "disk", "operator": "In", "values": ["fast"]})}, ["n1"], id="in"),
        pytest.param({"affinity": affinity({"key": "disk", "operator": "DoesNotExist"})}, ["n0"], id="absent"),
        pytest.param({"affinity": affinity({"key": "size", "operator": "Gt", "values": ["4"]})}, ["n1"], id="greater"),
        pytest.param({"affinity": affinity({"key": "size", "operator": "Lt", "values": ["4"]})}, ["-"], id="less"),
        pytest.param({"nodeSelector": {"gpu": "yes"}}, ["-"], id="taint"),
        pytest.param({"nodeSelector": {"gpu": "yes"}, "tolerations": TOLERATING}, ["n2"], id="tolerated"),
    ],
)
def test_where_a_pod_may_be(spec: Json, places: list[str]) -> None:
    world = World().make(node("n0"), node("n1", disk="fast", size="8"), node("n2", gpu="yes", disk="slow"))
    world.change(NODES, "n2", {"spec": {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}})
    assert world.run(5).make(pod("one", **spec)).run().places() == places


def test_what_fits_nowhere_waits_and_says_why() -> None:
    world = World().make(node("n0", room={"cpu": "2"}), node("n1", room={"cpu": "2"})).run(5)
    world.change(NODES, "n0", {"spec": {"unschedulable": True}})
    world.make(deployment("web", 3, template("web", cpu="1"))).run()
    assert world.places() == ["-", "n1", "n1"]
    waiting = next(one for one in world.pods() if "nodeName" not in one["spec"])
    found = next(one for one in waiting["status"]["conditions"] if one["type"] == "PodScheduled")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert found["message"] == "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable."


def test_who_waits_is_tried_again_when_a_node_is_uncordoned_or_a_pod_leaves() -> None:
    world = World().make(node("n0", room={"pods": "1"})).run(5)
    world.make(pod("a"), pod("b"), pod("c")).run()
    assert world.places() == ["-", "-", "n0"]
    world.objects.delete(PODS, "default", "a", grace=1)
    assert world.run().places() == ["-", "n0"]
    assert world.make(node("n1")).run().places() == ["n0", "n1"]
    assert all(condition_of(one, "PodScheduled") == "True" for one in world.pods())


@pytest.mark.parametrize("requests", [{}, {"cpu": "100m"}, {"cpu": "1.5", "memory": "1Gi"}], ids=str)
def test_one_container_requests_as_much_as_with_an_empty_one_beside_it(requests: Json) -> None:
    container = {"name": "main", "resources": {"requests": requests}}
    assert requests_of({"containers": [container]}) == requests_of({"containers": [container, {"name": "empty"}]})


def test_a_node_that_grows_has_room_for_the_pods_that_wait() -> None:
    world = World().make(node("n0", room={"cpu": "1"})).run(5)
    world.make(deployment("web", 2, template("web", cpu="1"))).run()
    world.change_taints("n0", [{"key": "odd", "effect": "PreferNoSchedule"}])
    assert world.run().places() == ["-", "n0"]
    status = {"allocatable": {"cpu": "2", "memory": "32Gi", "pods": "110"}}
    world.objects.patch(NODES, "", "n0", {"status": status}, subresource="status")
    assert world.run().places() == ["n0", "n0"]


def test_a_node_that_moves_to_another_zone_counts_there() -> None:
    world = World(nodes=3, zones=3).run(5)
    world.change(NODES, "n2", {"metadata": {"labels": {ZONE: "z0"}}})
    assert world.make(deployment("web", 4)).run().places() == ["n0", "n1", "n1", "n2"]


def test_higher_priority_goes_first() -> None:
    world = World().make(node("n0", room={"pods": "1"}))
    world.make(pod("low", priority=0), pod("high", priority=10)).run()
    assert world.get(PODS, "high")["spec"]["nodeName"] == "n0"
    assert "nodeName" not in world.get(PODS, "low")["spec"]


def test_a_drained_nodes_pods_come_up_elsewhere() -> None:
    world = World(nodes=3).make(deployment("web", 6)).run()
    world.change(NODES, "n0", {"spec": {"unschedulable": True}})
    for one in world.pods():
        if one["spec"]["nodeName"] == "n0":
            world.objects.evict("default", one["metadata"]["name"])
    world.run()
    assert world.places() == ["n1", "n1", "n1", "n2", "n2", "n2"]
    assert world.ready() == 6
