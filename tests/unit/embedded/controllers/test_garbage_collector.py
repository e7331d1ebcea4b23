"""The garbage collector of the embedded cluster."""

from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS, Json, Resource
from tests.build.workloads import World, deployment, is_leaving, pod, template

QUICK = template("web", notes={"stops-after": "5s"})


def owner(kind: str, api_version: str, obj: Json, *, block: bool = False) -> Json:
    meta = obj["metadata"]
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": meta["name"],
        "uid": meta["uid"],
        "blockOwnerDeletion": block,
    }


def kinds_left(world: World) -> tuple[int, int, int]:
    return tuple(len(world.objects.list(one)) for one in (DEPLOYMENTS, REPLICA_SETS, PODS))  # type: ignore[return-value]


def test_in_the_background_the_owner_goes_first() -> None:
    world = World(nodes=1).make(deployment("web", 2, QUICK)).run()
    world.objects.delete(DEPLOYMENTS, "default", "web", propagation="Background")
    assert kinds_left(world.run(1)) == (0, 0, 2)
    assert all(is_leaving(one) for one in world.pods())
    assert kinds_left(world.run()) == (0, 0, 0)


def test_in_the_foreground_the_owner_goes_last() -> None:
    world = World(nodes=1).make(deployment("web", 2, QUICK)).run()
    world.objects.delete(DEPLOYMENTS, "default", "web", propagation="Foreground")
    assert kinds_left(world.run(1)) == (1, 1, 2)
    leaving = world.objects.list(REPLICA_SETS)[0]["metadata"]
    assert leaving["finalizers"] == ["foregroundDeletion"]
    assert "deletionTimestamp" in leaving
    assert kinds_left(world.run()) == (0, 0, 0)


def test_orphans_stay_and_are_adopted_again() -> None:
    world = World(nodes=1).make(deployment("web", 2, QUICK)).run()
    world.objects.delete(DEPLOYMENTS, "default", "web", propagation="Orphan")
    assert kinds_left(world.run()) == (0, 1, 2)
    assert "ownerReferences" not in world.objects.list(REPLICA_SETS)[0]["metadata"]
    names = world.names()
    world.make(deployment("web", 2, QUICK)).run()
    assert kinds_left(world) == (1, 1, 2)
    assert world.names() == names


def test_owners_of_unknown_kinds_are_taken_for_present() -> None:
    child = pod("child")
    child["metadata"]["ownerReferences"] = [{"apiVersion": "odd/v1", "kind": "Odd", "name": "x", "uid": "u"}]
    assert World(nodes=1).make(child).run().names() == ["child"]


def test_the_pods_of_a_deleted_node_are_removed() -> None:
    world = World(nodes=2).make(deployment("web", 2)).run()
    world.objects.delete(NODES, "", "n0")
    assert world.run(30).places() == ["n0", "n1"]
    assert world.run(30).places() == ["n1", "n1"]
    assert world.ready() == 2


WIDGETS = Resource("example.test", "v1", "widgets")


def definition() -> Json:
    schema = {"openAPIV3Schema": {"type": "object"}}
    return {
        "metadata": {"name": "widgets.example.test"},
        "spec": {
            "group": "example.test",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


def widget(name: str, *owners: Json) -> Json:
    meta = {"name": name, "namespace": "default", "ownerReferences": list(owners)}
    return {"apiVersion": "example.test/v1", "kind": "Widget", "metadata": meta}


def test_kinds_that_are_defined_later_own_and_are_owned() -> None:
    world = World(nodes=1)
    world.objects.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
    first = world.run().objects.create(WIDGETS, widget("first"))
    world.objects.create(WIDGETS, widget("second", owner("Widget", "example.test/v1", first)))
    world.run().objects.delete(WIDGETS, "default", "first")
    assert world.run().objects.list(WIDGETS) == []


def test_a_definition_may_come_and_go() -> None:
    world = World(nodes=1)
    for _ in range(2):
        world.objects.create(CUSTOM_RESOURCE_DEFINITIONS, definition())
        first = world.run().objects.create(WIDGETS, widget("first"))
        world.objects.create(WIDGETS, widget("second", owner("Widget", "example.test/v1", first)))
        world.run().objects.delete(WIDGETS, "default", "first")
        assert world.run().objects.list(WIDGETS) == []
        world.objects.delete(CUSTOM_RESOURCE_DEFINITIONS, "", "widgets.example.test")
        world.run()
