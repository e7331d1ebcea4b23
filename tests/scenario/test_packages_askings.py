"""Which nodes a change of a Skyhook concerns: those that it selects and those that carry its marks, however many there are."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from haulout.kernel.rooms import Subject
from haulout.surfaces.packages.node import names
from haulout.surfaces.packages.node.prefixes import units_on
from haulout.surfaces.packages.skyhook.hearing import NODE_DECISION
from tests.build.rows import node
from tests.build.skyhooks import SKYHOOKS, P, Skyhooks, pkg

FLEET, SELECTED = 60, 10
OURS = frozenset(f"n{number}" for number in range(SELECTED))
SELECTOR = {"matchLabels": {"group": "ours"}}
Change = Callable[[Skyhooks], Skyhooks]


def fleet() -> Skyhooks:
    """Return a world of many nodes at rest. A Skyhook selects a few of them, and is complete."""
    ops = Skyhooks(nodes=FLEET)
    for name in OURS:
        ops.change_node(name, {"metadata": {"labels": {"group": "ours"}}})
    ops.make("demo", {"base": pkg()}, nodeSelectors=SELECTOR, interruptionBudget={"percent": 30}).run(120)
    assert ops.phase("demo") == "complete"
    return ops


def asked_by(ops: Skyhooks, change: Change) -> set[str]:
    """Return the nodes whose decision runs between a change and the rest that follows."""
    found: set[str] = set()

    def note(subject: Subject) -> None:
        if subject.decider == NODE_DECISION:
            found.add(subject.key.name)

    ops.kernel.loop.on_due = note
    change(ops).run(120)
    return found


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda ops: ops.packages("demo", {"base": pkg("1.1.0")}), id="another version"),
        pytest.param(lambda ops: ops.packages("demo", {"base": pkg(configMap={"a": "b"})}), id="a configuration"),
        pytest.param(lambda ops: ops.packages("demo", {"more": pkg()}), id="another package"),
        pytest.param(lambda ops: ops.edit("demo", {"spec": {"priority": 7}}), id="another priority"),
        pytest.param(lambda ops: ops.edit("demo", {"spec": {"pause": True}}), id="a pause"),
        pytest.param(lambda ops: ops.edit("demo", {"spec": {"runtimeRequired": True}}), id="a required taint"),
    ],
)
def test_a_change_asks_only_the_nodes_that_the_skyhook_selects(change: Change) -> None:
    assert asked_by(fleet(), change) == OURS


def test_a_rollout_that_others_wait_for_asks_only_the_nodes_that_have_a_skyhook() -> None:
    """The rollout begins, and later it ends: that is all that the nodes of other Skyhooks are asked for."""
    ops = fleet()
    ops.change_node("n59", {"metadata": {"labels": {"group": "theirs"}}})
    ops.make("other", {"base": pkg()}, priority=300, nodeSelectors={"matchLabels": {"group": "theirs"}}).run(60)
    begin = {"spec": {"sequencing": "all", "packages": {"base": pkg("1.1.0")}}}
    assert asked_by(ops, lambda ops: ops.edit("demo", begin)) == {*OURS, "n59"}
    assert (ops.phase("demo"), ops.phase("other")) == ("complete", "complete")


def test_a_node_that_was_left_is_asked_until_the_skyhook_is_gone() -> None:
    ops = fleet()
    ops.change_node("n0", {"metadata": {"labels": {"group": None}}}).run(60)
    assert ops.annotation("n0", "version_demo") is not None
    assert asked_by(ops, lambda ops: ops.edit("demo", {"spec": {"pause": True}})) == OURS
    ops.edit("demo", {"spec": {"pause": False}}).delete("demo").run(60)
    assert ops.world.objects.list(SKYHOOKS, "") == []
    assert [name for name in sorted(OURS) if ops.annotation(name, "version_demo")] == []


def test_another_selector_releases_the_nodes_that_it_leaves() -> None:
    ops = fleet()
    ops.change_node("n59", {"metadata": {"labels": {"group": "theirs"}}})
    ops.edit("demo", {"spec": {"nodeSelectors": {"matchLabels": {"group": "theirs"}}}}).run(60)
    assert ops.shows("demo", "n59", *sorted(OURS)) == ["complete", *[None] * SELECTED]
    conditions = [each["type"] for each in ops.node("n0")["status"]["conditions"]]
    assert [each for each in conditions if each.startswith(P)] == []


@pytest.mark.parametrize("name", sorted({*names.all_of("my.demo"), f"{P}status_my.demo"}))
def test_each_annotation_and_label_names_its_skyhook(name: str) -> None:
    assert units_on(node("n0", annotations={name: ""})) == {"my.demo"}
    assert units_on(node("n0", labels={name: ""})) == {"my.demo"}


@pytest.mark.parametrize("kind", [names.not_ready("my.demo"), names.erroring("my.demo"), f"{P}my.demo/Other"])
def test_each_condition_names_its_skyhook(kind: str) -> None:
    assert units_on(msgspec.structs.replace(node("n0"), conditions=((kind, "True"),))) == {"my.demo"}


def test_marks_of_others_name_no_skyhook() -> None:
    foreign = {"kubernetes.io/hostname": "n0", "other_demo": "", f"{P}ignore": "true"}
    assert units_on(node("n0", labels=foreign, annotations=foreign)) == set()
