"""The DaemonSet controller of the embedded cluster."""

from haulout.embedded import DAEMON_SETS, NODES, PODS
from tests.build.workloads import World, daemon_set, node, template

QUICK = template("agent", notes={"stops-after": "1s"})


def counts(world: World) -> tuple[int, ...]:
    status = world.status(DAEMON_SETS, "agent")
    names = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "numberMisscheduled")
    return tuple(status.get(name, 0) for name in names)


def test_a_new_node_gets_its_pod() -> None:
    world = World(nodes=2).make(daemon_set("agent", QUICK)).run()
    assert world.places() == ["n0", "n1"]
    assert world.make(node("n2")).run().places() == ["n0", "n1", "n2"]
    assert counts(world) == (3, 3, 3, 0)


def test_a_cordon_neither_removes_nor_keeps_out() -> None:
    world = World(nodes=1).make(daemon_set("agent", QUICK)).run()
    world.change(NODES, "n0", {"spec": {"unschedulable": True}})
    world.run()
    assert world.taints("n0") == ["unschedulable:NoSchedule"]
    (name,) = world.names()
    world.objects.delete(PODS, "default", name)
    assert world.run().places() == ["n0"]
    assert world.names() != [name]


def test_nodes_that_do_not_match_any_more_lose_theirs() -> None:
    world = World().make(node("a", disk="fast"), node("b", disk="fast"), node("c"))
    world.make(daemon_set("agent", template("agent", nodeSelector={"disk": "fast"}))).run()
    assert world.places() == ["a", "b"]
    world.change(NODES, "b", {"metadata": {"labels": {"disk": None}}})
    assert world.run().places() == ["a"]
    assert counts(world) == (1, 1, 1, 0)


def test_a_taint_keeps_new_pods_out_but_lets_old_ones_stay() -> None:
    world = World(nodes=1).make(daemon_set("agent", QUICK)).run()
    taint = {"spec": {"taints": [{"key": "odd", "effect": "NoSchedule"}]}}
    world.change(NODES, "n0", taint)
    assert world.make(node("n1")).run().places() == ["n0", "n1"]
    assert counts(world) == (1, 1, 1, 1)


def test_it_rolls_node_by_node() -> None:
    world = World(nodes=4).make(daemon_set("agent", QUICK)).run()
    world.change(DAEMON_SETS, "agent", {"spec": {"template": {"spec": {"priority": 5}}}})
    fewest = min(world.run(0.5).ready() for _ in range(80))
    assert fewest == 3
    assert world.status(DAEMON_SETS, "agent")["updatedNumberScheduled"] == 4


def test_with_surge_the_new_pod_comes_first() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    world = World(nodes=3).make(daemon_set("agent", QUICK, updateStrategy=strategy)).run()
    world.change(DAEMON_SETS, "agent", {"spec": {"template": {"spec": {"priority": 5}}}})
    fewest = min(world.run(0.5).ready() for _ in range(80))
    assert fewest == 3
    assert world.status(DAEMON_SETS, "agent")["updatedNumberScheduled"] == 3


def test_a_failed_pod_is_replaced() -> None:
    world = World(nodes=1).make(daemon_set("agent", QUICK)).run()
    (name,) = world.names()
    world.objects.patch(PODS, "default", name, {"status": {"phase": "Failed"}}, subresource="status")
    assert world.run().names() != [name]
    assert counts(world) == (1, 1, 1, 0)
