"""Addresses and ports of Services: the server's own choice, but no two have the same."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import Json, Resource
from tests.build.apiserver import World

SERVICES = Resource("", "v1", "services")


@pytest.fixture
def world() -> World:
    return World()


def make(world: World, name: str, *ports: int, **spec: Any) -> Json:
    listed = [{"name": f"p{port}", "port": port} for port in ports]
    body = {"metadata": {"name": name, "namespace": "default"}, "spec": {"ports": listed, **spec}}
    made: Json = world.server.create(SERVICES, body)["spec"]
    return made


def node_ports(spec: Json) -> list[int]:
    return [port["nodePort"] for port in spec["ports"]]


def test_each_has_an_address_of_its_own_and_gives_it_back(world: World) -> None:
    first, second = make(world, "a", 80), make(world, "b", 80)
    assert [first["clusterIP"], second["clusterIP"]] == ["10.96.0.2", "10.96.0.3"]
    assert first["clusterIPs"] == ["10.96.0.2"]
    world.server.delete(SERVICES, "default", "a")
    assert make(world, "c", 80)["clusterIP"] == "10.96.0.2"


def test_some_have_none(world: World) -> None:
    assert make(world, "a", 80, clusterIP="None")["clusterIPs"] == ["None"]
    assert "clusterIP" not in make(world, "b", type="ExternalName", externalName="example.test")
    assert make(world, "c", 80)["clusterIP"] == "10.96.0.2"


def test_each_port_is_another_one_on_nodes(world: World) -> None:
    assert node_ports(make(world, "a", 80, 443, type="NodePort")) == [30000, 30001]
    assert node_ports(make(world, "b", 80, 443, type="LoadBalancer")) == [30002, 30003]
    chosen = [{"name": "x", "port": 1}, {"name": "y", "port": 2, "nodePort": 30004}]
    assert node_ports(make(world, "c", type="NodePort", ports=chosen)) == [30005, 30004]
    without = make(world, "d", 80, type="LoadBalancer", allocateLoadBalancerNodePorts=False)
    assert "nodePort" not in without["ports"][0]


def test_whoever_replaces_one_need_not_know_what_it_was_given(world: World) -> None:
    given = make(world, "a", 80, type="NodePort")
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "a"},
        "spec": {
            "type": "NodePort",
            "ports": [{"name": "p80", "port": 80, "targetPort": 8080}, {"name": "q", "port": 81}],
        },
    }
    answer = world.ask("PUT", "/api/v1/namespaces/default/services/a", body)
    assert answer.body["spec"]["clusterIP"] == given["clusterIP"]
    assert node_ports(answer.body["spec"]) == [*node_ports(given), 30001]


def test_none_is_changed_in_place(world: World) -> None:
    make(world, "a", 80, type="NodePort")
    stored = world.server.get(SERVICES, "default", "a")
    before = repr(stored)
    world.server.patch(SERVICES, "default", "a", {"spec": {"type": "ClusterIP"}})
    world.server.patch(SERVICES, "default", "a", {"spec": {"type": "LoadBalancer"}})
    assert repr(stored) == before


def test_a_change_that_changes_nothing_has_no_revision(world: World) -> None:
    make(world, "a", 80, 443, type="LoadBalancer")
    stored = world.server.get(SERVICES, "default", "a")
    assert world.server.patch(SERVICES, "default", "a", {"spec": {"type": "LoadBalancer"}}) is stored
