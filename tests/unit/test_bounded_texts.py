"""A text, list or map that is too large is cut, and a decision that reads it says so or refuses; no other object is meant."""

from __future__ import annotations

import pytest

from haulout.base.bounds import LEFT_OUT, ORDINARY, TreeBounds, is_within, text, trim
from haulout.cluster.key import node_key
from haulout.cluster.project import MOST_FINALIZERS, RESOURCES, Keep, Projector
from haulout.core.holds import HOLDS_OF_NODE, Grant, Hold, grant_key
from haulout.embedded import NODES
from haulout.kube.errors import Invalid
from haulout.model.meta import Condition, ObjectMeta
from haulout.model.node import Node, NodeMeta
from haulout.model.pod import Pod
from haulout.surfaces.packages.wire import PREFIX
from tests.build.all_surfaces import CRDS, DEMO, NODE_BUDGETS, AllSurfaces
from tests.build.large_texts import accept_everything
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES
from tests.build.skyhooks import SKYHOOKS, pkg

LONG_NAME = "n" * 252
MANY_LABELS = {f"example.com/label-{number}": "v" for number in range(3000)}


def world(count: int = 2) -> AllSurfaces:
    """Return a cluster whose definitions have no bounds, as those of an original."""
    ops = AllSurfaces(count)
    accept_everything(ops.world.objects, CRDS)
    ops.begin()
    return ops


def reasons(ops: AllSurfaces, node: str) -> set[str]:
    """Return the codes of the reasons why claims on a node are refused."""
    store = ops.kernel.store
    holds = [row for row in store.bucket(HOLDS_OF_NODE, "", node_key(node)) if isinstance(row, Hold)]
    grants = [store.row(grant_key(hold.key)) for hold in holds]
    return {reason.code for grant in grants if isinstance(grant, Grant) for reason in grant.reasons}


def test_a_text_that_is_cut_ends_with_an_ellipsis() -> None:
    assert text("abc", 3) == "abc"
    assert text("abcd", 3) == f"ab{LEFT_OUT}"


def test_a_tree_within_its_bounds_stays_the_same_object() -> None:
    tree = {"a": ["b", ("c",)], "d": Condition("e")}
    assert trim(tree) is tree


@pytest.mark.parametrize(
    ("tree", "kept"),
    [
        ("abcdef", f"abc{LEFT_OUT}"),
        ({"abcdef": 1}, {f"abc{LEFT_OUT}": 1}),
        (["a"] * 9, ["a"] * 5),
        ({f"k{number}": 1 for number in range(9)}, {f"k{number}": 1 for number in range(5)}),
        ((Condition("abcdef"),), (Condition(f"abc{LEFT_OUT}"),)),
    ],
    ids=["text", "key", "list", "map", "struct"],
)
def test_a_tree_is_cut_to_its_bounds(tree: object, kept: object) -> None:
    bounds = TreeBounds(longest=4, most=5)
    assert trim(tree, bounds) == kept
    assert is_within(kept, bounds)


def test_a_tree_with_too_many_values_in_all_is_cut() -> None:
    tree = [[["a" * 100] * 100] * 100] * 100
    assert not is_within(tree, ORDINARY)
    assert is_within(trim(tree), TreeBounds(values=2 * ORDINARY.values, characters=2 * ORDINARY.characters))


def test_the_definition_refuses_a_name_that_no_node_has() -> None:
    ops = AllSurfaces(1)
    with pytest.raises(Invalid, match="Too long"):
        ops._create(MAINTENANCES, "NodeMaintenance", {"name": "long"}, {"nodeName": "n" * 300})


def test_a_name_that_is_too_long_means_no_other_node() -> None:
    ops = world()
    ops.world.change(NODES, "n0", {})
    for name in (LONG_NAME, f"{LONG_NAME}n"):
        ops.world.objects.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    ops._create(MAINTENANCES, "NodeMaintenance", {"name": "long"}, {"nodeName": LONG_NAME + "n" * 100})
    spec = {"nodeObject": LONG_NAME + "n" * 100, "maintenanceID": "x", "maintenanceType": "planned"}
    ops._create(NOTICES, "NotifyMaintenance", {"name": "long", "namespace": HOME}, spec)
    ops.run(60)
    assert [ops.node(name)["spec"].get("unschedulable") for name in (LONG_NAME, f"{LONG_NAME}n")] == [None, None]
    status = ops.world.get(MAINTENANCES, "long")["status"]
    assert status["phase"] == "Failed"
    assert LEFT_OUT in status["lastError"]


def test_nothing_begins_on_a_node_whose_labels_are_not_all_known() -> None:
    ops = world()
    ops.world.change(NODES, "n0", {"metadata": {"labels": MANY_LABELS}})
    ops.maintain("n0")
    ops.maintain("n1")
    ops.run(60)
    assert reasons(ops, "n0") == {"labels-left-out"}
    assert not ops.node("n0")["spec"].get("unschedulable")
    assert ops.world.get(MAINTENANCES, "n0")["status"].get("phase") != "Succeeded"
    ops.world.change(NODES, "n0", {"metadata": {"labels": dict.fromkeys(MANY_LABELS)}})
    ops.run(60)
    assert not ops.unfinished()["nodemaintenance"]


def test_a_budget_that_is_too_large_lets_nothing_begin() -> None:
    ops = world()
    values = [f"v{number}" for number in range(30_000)]
    selector = {"matchExpressions": [{"key": "zone", "operator": "In", "values": values}]}
    ops._create(NODE_BUDGETS, "NodeDisruptionBudget", {"name": "large"}, {"selector": selector})
    ops.maintain("n0")
    ops.run(60)
    assert reasons(ops, "n0") == {"budget-invalid"}
    condition = ops.world.get(NODE_BUDGETS, "large")["status"]["conditions"][0]
    assert "too large" in condition["message"]


def test_a_skyhook_that_is_too_large_changes_nothing_and_says_so() -> None:
    ops = world()
    ops.roll()
    ops.run(60)
    before = {name: ops.node(name)["metadata"]["annotations"] for name in ops.names}
    assert all(f"{PREFIX}nodeState_{DEMO}" in each for each in before.values())
    env = [{"name": f"v{number}", "value": "x"} for number in range(30_000)]
    ops.world.change(SKYHOOKS, DEMO, {"spec": {"packages": {"base": pkg(env=env)}}})
    ops.run(60)
    conditions = ops.world.get(SKYHOOKS, DEMO)["status"]["conditions"]
    assert any("is too large" in each["message"] for each in conditions)
    states = {name: ops.node(name)["metadata"]["annotations"][f"{PREFIX}nodeState_{DEMO}"] for name in ops.names}
    assert states == {name: each[f"{PREFIX}nodeState_{DEMO}"] for name, each in before.items()}


def projected(metadata: NodeMeta, keep: Keep) -> tuple[Projector, dict[str, str]]:
    projector = Projector(RESOURCES["Node"], "", keep)
    return projector, dict(projector.row(Node(metadata)).annotations)


def test_an_annotation_that_is_too_long_is_known_to_be_there() -> None:
    notes = {"a": "short", "b": "x" * 100_000, "c": "short"}
    projector, found = projected(NodeMeta(name="n", annotations=notes), Keep(frozenset(notes)))
    assert found == {"a": "short", "b": LEFT_OUT, "c": "short"}
    assert projector.left_out.endswith("left out: b")


def test_what_is_left_out_is_told_of_the_last_object_alone() -> None:
    projector, _ = projected(NodeMeta(name="n", labels=MANY_LABELS), Keep())
    assert "3000 labels" in projector.left_out
    projector.row(Node(NodeMeta(name="m")))
    assert projector.left_out == ""


def test_annotations_that_no_decision_reads_do_not_count() -> None:
    notes = {"a": "short", "b": "x" * 100_000}
    projector, found = projected(NodeMeta(name="n", annotations=notes), Keep(frozenset("a")))
    assert (found, projector.left_out) == ({"a": "short"}, "")


def test_a_list_of_finalizers_that_is_cut_cannot_be_written_back() -> None:
    """The API server refuses it, because the mark is no name of a finalizer. So none of the others is lost."""
    names = tuple(f"example.com/f{number}" for number in range(100))
    row = Projector(RESOURCES["Pod"], "", Keep()).row(Pod(ObjectMeta(name="p", finalizers=names)))
    assert len(row.finalizers) == MOST_FINALIZERS
    assert row.finalizers[-1] == LEFT_OUT
