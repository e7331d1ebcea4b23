"""Random changes around packages: the budget holds at every write, and in the end all packages are complete."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.embedded import NODES, PODS
from tests.build.examples import examples
from tests.build.skyhooks import P, Skyhooks, pkg

NAMES = ("n0", "n1", "n2")
NOOP = {"type": "noop"}


class Walk:
    """Three nodes of which one may change at a time, and everything that people and hosts may do meanwhile."""

    def __init__(self) -> None:
        self.version, self.text = 1, 1
        self.most = 0
        self.ops = Skyhooks(nodes=3)
        self.ops.before = self._look
        self.ops.make("demo", self._packages(), interruptionBudget={"count": 1})

    def _packages(self) -> dict[str, Any]:
        own = pkg(f"1.{self.version}.0", interrupt=NOOP, configMap={"a.conf": str(self.text)})
        own["configInterrupts"] = {"*.conf": {"type": "service", "services": ["x"]}}
        return {"base": own, "top": pkg()}

    def _look(self, body: object) -> None:
        nodes = self.ops.world.objects.list(NODES, "")
        busy = {each.node for each in self.ops.pods()}
        busy |= {node["metadata"]["name"] for node in nodes if node["spec"].get("unschedulable")}
        self.most = max(self.most, len(busy))

    def _annotate(self, name: str, value: str | None) -> None:
        self.ops.edit("demo", {"metadata": {"annotations": {f"{P}{name}": value}}})

    def upgrade(self) -> None:
        self.version += 1
        self.ops.packages("demo", self._packages())

    def downgrade(self) -> None:
        self.version = max(1, self.version - 1)
        self.ops.packages("demo", self._packages())

    def configure(self) -> None:
        self.text += 1
        self.ops.packages("demo", self._packages())

    def pause(self) -> None:
        self._annotate("pause", "true")

    def resume(self) -> None:
        self._annotate("pause", None)

    def taint(self) -> None:
        self.ops.change_node("n0", {"spec": {"taints": [{"key": "down", "effect": "NoExecute"}]}})

    def untaint(self) -> None:
        self.ops.change_node("n0", {"spec": {"taints": None}})

    def lose_pods(self) -> None:
        for about in self.ops.pods():
            meta = about.pod["metadata"]
            self.ops.world.objects.delete(PODS, meta["namespace"], meta["name"], grace=0)

    def restart(self) -> None:
        self.ops.begin()

    def forget(self) -> None:
        self.ops.change_node("n1", {"metadata": {"annotations": {f"{P}nodeState_demo": None}}})

    def edit(self) -> None:
        self.ops.edit("demo", {"spec": {"priority": 100 + self.version + self.text}})

    def finish(self) -> None:
        self.resume()
        self.untaint()
        self.ops.run(400)


MOVES: tuple[Callable[[Walk], None], ...] = (
    Walk.upgrade,
    Walk.downgrade,
    Walk.configure,
    Walk.pause,
    Walk.resume,
    Walk.taint,
    Walk.untaint,
    Walk.lose_pods,
    Walk.restart,
    Walk.forget,
    Walk.edit,
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.sampled_from([0.3, 1.5, 4.0, 15.0])), max_size=12))
def test_the_budget_holds_and_every_roll_ends(tape: list[tuple[Callable[[Walk], None], float]]) -> None:
    walk = Walk()
    for move, seconds in tape:
        walk.ops.run(seconds)
        move(walk)
    walk.finish()
    ops = walk.ops
    assert ops.failures == []
    assert ops.phase("demo") == "complete"
    done = {f"base|1.{walk.version}.0", "top|1.0.0"}
    assert [set(ops.state(name, "demo")) for name in NAMES] == [done] * 3
    assert not any(ops.node(name)["spec"].get("unschedulable") for name in NAMES)
    assert walk.most <= 1
