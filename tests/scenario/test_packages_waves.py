"""Packages in waves: compartments, ceilings, strategies and what a failing batch does, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from haulout.embedded import NODES
from haulout.surfaces.packages.options import Options
from tests.build.skyhooks import POLICIES, SKYHOOKS, Skyhooks, pkg

NOOP = {"type": "noop"}


class Watched(Skyhooks):
    """Remembers every batch that the status of `demo` has shown, and the most nodes with a pod or a cordon at once."""

    def __init__(self, options: Options | None = None, *, nodes: int) -> None:
        self.batches: list[list[str]] = []
        self.most_pods = self.most_cordoned = 0
        super().__init__(options, nodes=nodes)
        self.before = self._look

    def _look(self, body: object) -> None:
        pods = {each.node for each in self.pods()}
        self.most_pods = max(self.most_pods, len(pods))
        names = [node["metadata"]["name"] for node in self._nodes() if node["spec"].get("unschedulable")]
        self.most_cordoned = max(self.most_cordoned, len(names))
        if self.world.objects.list(SKYHOOKS, ""):
            for status in self.status("demo").get("compartmentStatuses", {}).values():
                names = status.get("batchNodes") or []
                if names and (not self.batches or self.batches[-1] != names):
                    self.batches.append(names)

    def _nodes(self) -> list[Any]:
        return self.world.objects.list(NODES, "")


def policy(strategy: dict[str, Any], **budget: int) -> dict[str, Any]:
    return {"default": {"budget": budget or {"percent": 100}, "strategy": strategy}}


def batch_state(ops: Skyhooks, compartment: str = "__default__") -> dict[str, Any]:
    state: dict[str, Any] = ops.status("demo")["compartmentStatuses"][compartment]["batchState"]
    return state


class TestStrategies:
    def test_linear_waves_grow_and_the_last_is_not_evaluated(self) -> None:
        ops = Watched(nodes=8)
        ops.policy("p", **policy({"linear": {"initialBatch": 1, "delta": 1}}), resetBatchStateOnCompletion=False)
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p").run(120)
        assert ops.phase("demo") == "complete"
        assert [len(names) for names in ops.batches] == [1, 2, 3, 2]
        assert batch_state(ops)["currentBatch"] == 4

    def test_exponential_waves_stay_below_the_ceiling(self) -> None:
        ops = Watched(nodes=10)
        ops.policy("p", **policy({"exponential": {"initialBatch": 1}}, percent=30))
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p").run(200)
        assert [len(names) for names in ops.batches] == [1, 2, 3, 3, 1]
        assert (ops.most_pods, batch_state(ops)) == (3, {"currentBatch": 1})

    def test_a_compartment_without_a_strategy_completes(self) -> None:
        ops = Watched(nodes=4)
        for name in ("n0", "n1"):
            ops.change_node(name, {"metadata": {"labels": {"pool": "gpu"}}})
        gpu = {"name": "gpu", "selector": {"matchLabels": {"pool": "gpu"}}, "budget": {"count": 1}}
        ops.policy("p", **policy({"fixed": {"initialBatch": 2}}), compartments=[gpu])
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p").run(120)
        assert ops.phase("demo") == "complete"
        assert ops.status("demo")["compartmentStatuses"]["gpu"]["matched"] == 2

    def test_failing_batches_stop_the_rollout_until_it_is_reset(self) -> None:
        ops = Watched(nodes=6)
        ops.fate = lambda about: "fail"
        ops.policy("p", **policy({"fixed": {"initialBatch": 1, "failureThreshold": 2, "safetyLimit": 100}}))
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p").run(60)
        assert len({each.node for each in ops.made}) == 2
        assert batch_state(ops) == {
            "currentBatch": 3,
            "consecutiveFailures": 2,
            "failedNodes": 2,
            "shouldStop": True,
            "lastBatchSize": 1,
            "lastBatchFailed": True,
        }

    def test_a_policy_that_is_edited_acts_at_once(self) -> None:
        ops = Watched(nodes=4)
        ops.fate = lambda about: "hang"
        ops.policy("p", **policy({"fixed": {"initialBatch": 1}}, count=1))
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p").run(10)
        assert ops.most_pods == 1
        ops.world.objects.patch(POLICIES, "", "p", {"spec": policy({"fixed": {"initialBatch": 4}}, count=4)})
        ops.fate = lambda about: "ok"
        for about in ops.pods():
            ops.finish(about)
        ops.run(20)
        assert (ops.phase("demo"), ops.most_pods) == ("complete", 3)


class TestBudgets:
    @pytest.mark.parametrize(
        ("compartments", "problem"),
        [
            pytest.param(
                [{"name": "few", "selector": {"matchLabels": {"-": "x"}}, "budget": {"count": 1}}],
                'compartment "few" has invalid selector',
                id="selector",
            ),
            pytest.param(
                [
                    {"name": f"c{number}", "selector": {"matchLabels": {"a": str(number)}}, "budget": {"count": 1}}
                    for number in range(101)
                ],
                "the policy has 101 compartments, and may have at most 100",
                id="size",
            ),
        ],
    )
    def test_under_a_policy_that_cannot_be_read_no_node_begins(
        self, compartments: list[dict[str, Any]], problem: str
    ) -> None:
        ops = Watched(nodes=3)
        ops.policy("p", **policy({"fixed": {"initialBatch": 3}}), compartments=compartments)
        ops.make("demo", {"base": pkg()}, deploymentPolicy="p").run(60)
        assert (ops.failures, ops.made) == ([], [])
        told = " ".join(each["message"] for each in ops.status("demo")["conditions"])
        assert f'DeploymentPolicy "p": {problem}' in told
        ops.world.objects.patch(POLICIES, "", "p", {"spec": {"compartments": []}})
        assert ops.run(60).phase("demo") == "complete"

    def test_a_node_that_reboots_keeps_its_place(self) -> None:
        ops = Watched(nodes=3)
        ops.fate = lambda about: "hang"
        ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(10)
        taint = {"key": "down", "effect": "NoExecute"}
        ops.change_node("n0", {"spec": {"taints": [taint]}}).run(10)
        assert ops.shows("demo", "n0", "n1") == ["blocked", "waiting"]
        assert {each.node for each in ops.made} == {"n0"}

    def test_an_ineligible_node_takes_no_place(self) -> None:
        ops = Watched(nodes=2)
        ops.change_node("n0", {"spec": {"taints": [{"key": "gone", "effect": "NoSchedule"}]}})
        ops.make("demo", {"base": pkg()}, interruptionBudget={"count": 1}).run(30)
        assert ops.shows("demo", "n0", "n1") == ["blocked", "complete"]
        assert ops.condition("demo", "TaintNotTolerable") == (
            "True",
            "TaintNotTolerable",
            "Node [n0] has taints that are not tolerable. Skipping.",
        )

    def test_all_skyhooks_together_stay_below_the_limit_on_cordons(self) -> None:
        ops = Watched(Options(max_unavailable_nodes="1"), nodes=4)
        for name, group in (("n0", "a"), ("n1", "a"), ("n2", "b"), ("n3", "b")):
            ops.change_node(name, {"metadata": {"labels": {"g": group}}})
        for name, group in (("demo", "a"), ("other", "b")):
            ops.make(name, {"base": pkg(interrupt=NOOP)}, nodeSelectors={"matchLabels": {"g": group}})
        ops.run(200)
        assert (ops.phase("demo"), ops.phase("other"), ops.most_cordoned) == ("complete", "complete", 1)

    def test_a_stage_costs_few_writes(self) -> None:
        ops = Skyhooks(nodes=1).make("demo", {"base": pkg()}).run(30)
        writes = [place for _, place in ops.writes]
        assert writes.count("Node") <= 6
        assert writes.count("Node/status") == 2
        assert writes.count("NodeMetadataConfigMap") == 2
        assert writes.count("Skyhook/status") <= 6
