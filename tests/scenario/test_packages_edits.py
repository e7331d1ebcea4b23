"""Edits of a Skyhook that is complete: which of them run something again, and what."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import NODES
from tests.build.skyhooks import CONFIG_MAPS, Skyhooks, pkg

NOOP = {"type": "noop"}
SERVICE = {"type": "service", "services": ["x"]}
CONFIGURED = pkg(interrupt=NOOP, configMap={"a": "1", "b": "2"}, configInterrupts={"a": SERVICE})
INTERRUPTED = ["base/interrupt", "base/post-interrupt"]


def is_complete(ops: Skyhooks) -> bool:
    """Whether the Skyhook says of its present spec that it is complete."""
    found = ops.get("demo")
    return bool(
        ops.phase("demo") == "complete" and found["status"]["observedGeneration"] == found["metadata"]["generation"]
    )


def rerun(before: dict[str, Any], *changes: dict[str, Any]) -> list[str]:
    """Return what runs after a complete package was changed, one edit after another."""
    ops = Skyhooks(nodes=1)
    ops.make("demo", {"base": before}).run(60)
    assert is_complete(ops)
    made = len(ops.made)
    for change in changes:
        ops.packages("demo", {"base": change}).run(60)
        assert is_complete(ops)
    assert ops.failures == []
    return ops.trail()[made:]


@pytest.mark.parametrize(
    "change",
    [
        {"image": "reg.test/other"},
        {"containerSHA": f"sha256:{'a' * 64}"},
        {"env": [{"name": "A", "value": "1"}]},
        {"gracefulShutdown": "9s"},
        {"agentImageOverride": "reg.test/agent:9"},
        {"configMap": {"a": "1"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_only_a_version_or_another_configuration_runs_a_package_again(change: dict[str, Any]) -> None:
    assert rerun(pkg(), change) == []


def test_an_interrupt_that_is_taken_away_runs_nothing_again() -> None:
    assert rerun(pkg(interrupt=NOOP), {"interrupt": None}) == []


def test_a_configuration_that_is_taken_away_stays_in_the_cluster() -> None:
    ops = Skyhooks(nodes=1)
    ops.make("demo", {"base": CONFIGURED}).run(60)
    made = len(ops.made)
    ops.packages("demo", {"base": {"configMap": None, "configInterrupts": None}}).run(60)
    live = ops.world.objects.get(CONFIG_MAPS, "skyhook", "demo-base-1.0.0")
    assert live is not None
    assert (live["data"], len(ops.made), is_complete(ops)) == ({"a": "1", "b": "2"}, made, True)


@pytest.mark.parametrize(
    "changes, expected",
    [
        ([{"configMap": {"a": "9"}}], ["base/config", *INTERRUPTED]),
        ([{"configMap": {"b": "9"}}], ["base/config"]),
        ([{"configMap": {"b": None}}], ["base/config", *INTERRUPTED]),
        ([{"configMap": {"b": "9"}}, {"configInterrupts": {"b": NOOP}}], ["base/config", *INTERRUPTED]),
        ([{"version": "1.1.0", "configMap": {"b": "9"}}], ["base/upgrade", "base/config", *INTERRUPTED]),
    ],
    ids=[
        "a key with an interrupt",
        "a key without one",
        "a key that is deleted counts as the package's own interrupt",
        "an interrupt for the key that changed last",
        "the version counts before the configuration",
    ],
)
def test_a_change_of_the_configuration(changes: list[dict[str, Any]], expected: list[str]) -> None:
    assert rerun(CONFIGURED, *changes) == expected


def test_of_two_configurations_in_quick_succession_the_last_is_the_one_that_counts() -> None:
    ops = Skyhooks(nodes=1)
    ops.make("demo", {"base": CONFIGURED}).run(60)
    made = len(ops.made)
    ops.packages("demo", {"base": {"configMap": {"a": "8"}}})
    ops.packages("demo", {"base": {"configMap": {"a": "9"}}}).run(60)
    live = ops.world.objects.get(CONFIG_MAPS, "skyhook", "demo-base-1.0.0") or {}
    assert (live["data"]["a"], ops.trail()[made:]) == ("9", ["base/config", *INTERRUPTED])
    assert is_complete(ops)


def test_a_node_that_goes_while_it_is_worked_on_gives_its_place_to_the_next() -> None:
    ops = Skyhooks(nodes=2)
    ops.fate = lambda about: "hang"
    ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(5)
    assert len(ops.made) == 1
    ops.world.objects.delete(NODES, "", ops.made[0].node)
    ops.run(20)
    assert len({about.node for about in ops.made}) == 2


def test_an_upgrade_of_a_failed_package_takes_its_nodes_place_under_the_budget() -> None:
    ops = Skyhooks(nodes=3)
    ops.fate = lambda about: "fail" if about.node == "n0" and about.version == "1.0.0" else "ok"
    ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(60)
    assert ops.shows("demo", "n0", "n1", "n2") == ["erroring", "complete", "complete"]
    ops.fate = lambda about: "hang"
    ops.packages("demo", {"base": pkg("1.1.0")}).run(20)
    assert ops.shows("demo", "n0", "n1", "n2") == ["in_progress", "waiting", "waiting"]
    assert {pod.node for pod in ops.pods()} == {"n0"}
    assert ops.phase("demo") == "in_progress"
