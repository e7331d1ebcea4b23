"""The StatefulSet controller of the embedded cluster."""

from haulout.embedded import PODS, STATEFUL_SETS, ActorOptions
from tests.build.workloads import World, is_leaving, stateful_set, template

QUICK = template("db", notes={"stops-after": "1s"})
NEW = {"spec": {"template": {"metadata": {"annotations": {"simulate.haulout.dev/stops-after": "2s"}}}}}


def test_pods_come_one_after_another() -> None:
    world = World(nodes=3).run(5).make(stateful_set("db", 3, QUICK))
    assert world.run(1).names() == ["db-0"]
    assert world.run(2).names() == ["db-0", "db-1"]
    assert world.run(10).ready() == 3
    labels = world.get(PODS, "db-1")["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "db-1"
    assert labels["controller-revision-hash"] == world.status(STATEFUL_SETS, "db")["currentRevision"]
    assert world.get(PODS, "db-1")["spec"]["hostname"] == "db-1"


def test_in_parallel_they_come_at_once() -> None:
    world = World(nodes=3).run(5).make(stateful_set("db", 3, QUICK, podManagementPolicy="Parallel"))
    assert world.run(0).names() == ["db-0", "db-1", "db-2"]


def test_the_same_name_comes_back_only_when_the_old_pod_is_gone() -> None:
    world = World(nodes=2).make(stateful_set("db", 2)).run()
    uid = world.get(PODS, "db-0")["metadata"]["uid"]
    world.objects.evict("default", "db-0")
    assert world.run(29).get(PODS, "db-0")["metadata"]["uid"] == uid
    assert world.run(5).get(PODS, "db-0")["metadata"]["uid"] != uid
    assert world.ready() == 2


def test_it_shrinks_from_the_end() -> None:
    world = World(nodes=2).make(stateful_set("db", 3, QUICK)).run()
    world.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    world.run(0.5)
    assert [name for name in world.names() if is_leaving(world.get(PODS, name))] == ["db-2"]
    assert world.run().names() == ["db-0"]


def test_an_update_rolls_from_the_end_down_to_the_partition() -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    world = World(nodes=2).make(stateful_set("db", 3, QUICK, updateStrategy=strategy)).run()
    world.change(STATEFUL_SETS, "db", NEW)
    world.run(0.5)
    assert [name for name in world.names() if is_leaving(world.get(PODS, name))] == ["db-2"]
    status = world.run().status(STATEFUL_SETS, "db")
    assert (status["currentReplicas"], status["updatedReplicas"]) == (1, 2)
    assert status["currentRevision"] != status["updateRevision"]
    world.change(STATEFUL_SETS, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    status = world.run().status(STATEFUL_SETS, "db")
    assert (status["updatedReplicas"], status["readyReplicas"]) == (3, 3)
    assert status["currentRevision"] == status["updateRevision"]


def test_on_delete_waits_for_somebody_to_delete() -> None:
    world = World(nodes=2).make(stateful_set("db", 2, QUICK, updateStrategy={"type": "OnDelete"})).run()
    world.change(STATEFUL_SETS, "db", NEW)
    assert world.run().status(STATEFUL_SETS, "db").get("updatedReplicas", 0) == 0
    world.objects.delete(PODS, "default", "db-0")
    assert world.run().status(STATEFUL_SETS, "db")["updatedReplicas"] == 1


def test_a_pod_that_is_ready_since_nobody_knows_when_is_enough_unless_it_must_last() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": None}
    status = {"status": {"phase": "Running", "conditions": [ready]}}
    alone = ActorOptions(actors=("statefulset",))
    for patience, pods in ((0, ["db-0", "db-1"]), (5, ["db-0"])):
        world = World(alone).make(stateful_set("db", 2, QUICK, minReadySeconds=patience)).run(1)
        world.objects.patch(PODS, "default", "db-0", status, subresource="status")
        assert world.run(60).names() == pods
