"""The node lifecycle controller of the embedded cluster: taints and evictions."""

from datetime import timedelta

import pytest

from haulout.embedded import LEASES, NODES, PODS, ActorOptions
from tests.build.workloads import World, condition_of, daemon_set, deployment, is_leaving, node, pod


def beating(nodes: int = 3) -> World:
    return World(ActorOptions(heartbeats=True), nodes=nodes).run(5)


def test_a_new_nodes_taint_goes_when_it_is_ready() -> None:
    world = World().make(node("n0"))
    assert world.taints("n0") == ["not-ready:NoSchedule"]
    assert world.run(5).taints("n0") == []


def test_a_cordon_is_a_taint() -> None:
    world = World(nodes=1).run(5)
    world.change(NODES, "n0", {"spec": {"unschedulable": True}})
    assert world.run(0).taints("n0") == ["unschedulable:NoSchedule"]
    world.change(NODES, "n0", {"spec": {"unschedulable": None}})
    assert world.run(0).taints("n0") == []


@pytest.mark.parametrize("brief", [False, True], ids=["in full", "brief"])
def test_a_cordon_at_the_instant_of_a_reboot_is_a_taint_too(brief: bool) -> None:
    world = World(ActorOptions(heartbeats=False, brief=brief), nodes=2).run(5)
    world.actors.reboot("n0", timedelta(minutes=10))
    world.change(NODES, "n0", {"spec": {"unschedulable": True}})
    taints = ["not-ready:NoSchedule", "unschedulable:NoSchedule", "not-ready:NoExecute"]
    assert world.run(0).taints("n0") == taints
    world.change(NODES, "n0", {"spec": {"unschedulable": None}})
    assert world.run(0).taints("n0") == [taints[0], taints[2]]
    assert world.run(600).taints("n0") == []


def test_a_node_that_moves_to_another_zone_is_counted_there() -> None:
    world = World(nodes=4, zones=2).run(5)
    for name in ("n0", "n2"):
        world.change(NODES, name, {"metadata": {"labels": {"topology.kubernetes.io/zone": "z1"}}})
    for name in ("n0", "n1", "n2"):
        world.actors.kill_kubelet(name)
    tainted = ["unreachable:NoSchedule", "unreachable:NoExecute"]
    assert world.run(51).taints("n0") == tainted[:1]
    world.actors.revive_kubelet("n1")
    assert world.run(11).taints("n0") == tainted


def test_foreign_taints_stay() -> None:
    world = World(nodes=1).run(5)
    world.change(NODES, "n0", {"spec": {"unschedulable": True, "taints": [{"key": "odd", "effect": "NoSchedule"}]}})
    assert world.run(0).taints("n0") == ["odd:NoSchedule", "unschedulable:NoSchedule"]


def test_heartbeats_keep_nodes_ready() -> None:
    world = beating().run(3600)
    assert [condition_of(one, "Ready") for one in world.objects.list(NODES)] == ["True"] * 3
    leases = world.objects.list(LEASES, "kube-node-lease")
    assert [one["spec"]["renewTime"][:19] for one in leases] == ["2026-01-01T01:00:01"] * 3
    heartbeat = world.get(NODES, "n0")["status"]["conditions"][-1]["lastHeartbeatTime"]
    assert heartbeat == "2026-01-01T01:00:01Z"


def test_a_dead_kubelet_leads_to_taints_and_evictions() -> None:
    world = beating().make(deployment("web", 3), daemon_set("agent")).run()
    world.actors.kill_kubelet("n0")
    assert condition_of(world.run(39).get(NODES, "n0"), "Ready") == "True"
    assert condition_of(world.run(12).get(NODES, "n0"), "Ready") == "Unknown"
    assert world.taints("n0") == ["unreachable:NoSchedule", "unreachable:NoExecute"]
    assert world.ready("app=web") == 2
    assert not [one for one in world.run(280).pods() if is_leaving(one)]
    leaving = [one for one in world.run(60).pods() if is_leaving(one)]
    assert [one["metadata"]["labels"]["app"] for one in leaving] == ["web"]
    assert condition_of(leaving[0], "DisruptionTarget") == "True"
    assert world.ready("app=web") == 3
    world.actors.revive_kubelet("n0")
    world.run()
    assert world.taints("n0") == []
    assert len(world.names("app=web")) == 3
    assert world.ready("app=agent") == 3


def test_without_heartbeats_a_dead_kubelet_shows_just_the_same() -> None:
    world = World(nodes=3).make(deployment("web", 3)).run()
    world.actors.kill_kubelet("n0")
    assert condition_of(world.run(49).get(NODES, "n0"), "Ready") == "True"
    assert condition_of(world.run(2).get(NODES, "n0"), "Ready") == "Unknown"
    world.actors.revive_kubelet("n0")
    assert condition_of(world.run(86400).get(NODES, "n0"), "Ready") == "True"
    assert world.taints("n0") == []


def test_tolerations_decide_how_long_a_pod_stays() -> None:
    world = World(nodes=2).run(5)
    forever = {"key": "drain", "operator": "Exists", "effect": "NoExecute"}
    world.make(
        pod("never", nodeName="n0"),
        pod("a-while", nodeName="n0", tolerations=[{**forever, "tolerationSeconds": 60}]),
        pod("forever", nodeName="n0", tolerations=[forever]),
    ).run()
    world.change(NODES, "n0", {"spec": {"taints": [{"key": "drain", "effect": "NoExecute"}]}})
    assert world.run(40).names() == ["a-while", "forever"]
    assert world.run(60).names() == ["forever"]


def test_an_eviction_is_called_off_when_the_taint_goes() -> None:
    world = World(nodes=1).run(5)
    stays = [{"key": "drain", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 60}]
    world.make(pod("a", nodeName="n0", tolerations=stays)).run()
    world.change(NODES, "n0", {"spec": {"taints": [{"key": "drain", "effect": "NoExecute"}]}})
    world.run(30)
    world.change(NODES, "n0", {"spec": {"taints": None}})
    assert not is_leaving(world.run(3600).get(PODS, "a"))


def test_dead_nodes_of_a_zone_are_tainted_one_after_another() -> None:
    world = World(nodes=8).run(5)
    for name in ("n0", "n1", "n2"):
        world.actors.kill_kubelet(name)
    world.run(51)
    tainted = [[name for name in ("n0", "n1", "n2") if "unreachable:NoExecute" in world.taints(name)]]
    for _ in range(2):
        world.run(10)
        tainted.append([name for name in ("n0", "n1", "n2") if "unreachable:NoExecute" in world.taints(name)])
    assert tainted == [["n0"], ["n0", "n1"], ["n0", "n1", "n2"]]


def test_when_everything_is_dead_nothing_is_evicted() -> None:
    world = World(nodes=2).make(deployment("web", 2)).run()
    for name in ("n0", "n1"):
        world.actors.kill_kubelet(name)
    world.run(3600)
    assert not [one for one in world.pods() if is_leaving(one)]
    world.actors.revive_kubelet("n1")
    world.run(600)
    assert [is_leaving(one) for one in world.pods() if one["spec"]["nodeName"] == "n0"] == [True]
