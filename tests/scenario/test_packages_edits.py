"""Edits of a Skyhook that is complete: which of them run something again, and what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from haulout.embedded import NODES, Json
from tests.build.skyhooks import CONFIG_MAPS, About, Skyhooks, pkg

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


class Crowd:
    """Counts how many nodes have a pod that the Skyhook wants at once: `most` is the highest number."""

    def __init__(self, ops: Skyhooks, is_wanted: Callable[[About], bool]) -> None:
        self.most = 0
        self._ops, self._is_wanted = ops, is_wanted
        ops.before = self._look

    def _look(self, body: object) -> None:
        self.most = max(self.most, len({pod.node for pod in self._ops.pods() if self._is_wanted(pod)}))


@pytest.mark.parametrize(
    ("before", "after", "is_wanted"),
    [
        pytest.param({"base": pkg()}, {"base": pkg("1.1.0")}, lambda pod: pod.version == "1.1.0", id="upgrade"),
        pytest.param({"base": pkg("1.1.0")}, {"base": pkg()}, lambda pod: pod.stage == "uninstall", id="downgrade"),
        pytest.param(
            {"base": pkg(), "more": pkg()},
            {"base": None, "more": pkg()},
            lambda pod: pod.stage == "uninstall",
            id="removal",
        ),
    ],
)
@pytest.mark.parametrize("gate", [None, {"rollback": True, "soak": "1s"}], ids=["plain", "behind a gate"])
def test_nodes_that_have_failed_are_picked_again_for_another_version(
    before: dict[str, Json],
    after: dict[str, Json | None],
    is_wanted: Callable[[About], bool],
    gate: Json | None,
) -> None:
    ops = Skyhooks(nodes=4)
    if gate is not None:
        default = {"budget": {"count": 1}, "strategy": {"fixed": {"initialBatch": 1, "failureThreshold": None}}}
        ops.policy("p", default=default, gate=gate)
    budget: Json = {"deploymentPolicy": "p"} if gate is not None else {"interruptionBudget": {"count": 1}}
    ops.fate = lambda about: "fail" if about.node != "n3" and about.name == "base/apply" else "ok"
    ops.make("demo", before, **budget).run(200)
    assert ops.shows("demo", "n0", "n1", "n2", "n3") == ["erroring", "erroring", "erroring", "complete"]
    ops.fate = lambda about: "ok"
    # The pods of before are still there.
    old = {pod.pod["metadata"]["uid"] for pod in ops.pods()}
    crowd = Crowd(ops, lambda pod: is_wanted(pod) and pod.pod["metadata"]["uid"] not in old)
    ops.packages("demo", after).run(400)
    assert (ops.phase("demo"), crowd.most) == ("complete", 1)
    assert ops.shows("demo", "n0", "n1", "n2", "n3") == ["complete"] * 4


def test_another_configuration_mends_nodes_beside_the_one_that_is_worked_on() -> None:
    ops = Skyhooks(nodes=2)
    ops.fate = lambda about: "hang" if about.node == "n1" else "fail" if about.stage == "config" else "ok"
    ops.make("demo", {"base": pkg(configMap={"a": "1"})}, interruptionBudget={"count": 1}).run(60)
    assert ops.shows("demo", "n0", "n1") == ["erroring", "in_progress"]
    ops.fate = lambda about: "hang"
    failed = {pod.pod["metadata"]["uid"] for pod in ops.pods() if pod.node == "n0"}
    ops.packages("demo", {"base": pkg(configMap={"a": "2"})}).run(20)
    pods = {(pod.node, pod.stage) for pod in ops.pods() if pod.pod["metadata"]["uid"] not in failed}
    assert pods == {("n0", "config"), ("n1", "apply")}
    assert ops.shows("demo", "n0", "n1") == ["in_progress", "in_progress"]
