"""Random changes around gates: the budget holds in both directions, and a halted roll picks no node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.embedded import PODS
from tests.build.examples import examples
from tests.build.gated import PROMETHEUS, Gated
from tests.build.skyhooks import SKYHOOKS, P, pkg

NODES = 4
CEILING = 2
NOOP = {"type": "noop"}


class Watched(Gated):
    """Remembers nodes that were picked although the roll was halted."""

    def __init__(self) -> None:
        self.picked_in_spite: list[str] = []
        self._picked: set[str] = set()
        self._is_halted = False
        super().__init__(nodes=NODES)

    def _look(self, body: object) -> None:
        super()._look(body)
        found = self.get("demo")
        status = found.get("status", {})
        picked = set(status.get("nodePriority") or {})
        halt = status.get("halt") or {}
        stands = halt.get("generation") == found["metadata"]["generation"]
        is_halted = stands and halt["rollback"] in ("", "pending")
        self.picked_in_spite += sorted(picked - self._picked) if is_halted and self._is_halted else []
        self._picked, self._is_halted = picked, is_halted


class Walk:
    """Four nodes of which two may change at a time, behind a gate, and what people, hosts and Prometheus may do."""

    def __init__(self) -> None:
        self.version = 1
        self.ops = Watched()
        self.ops.gated(size=3, count=CEILING, soak="5s", errorThreshold=0, rollback=True, prometheus=PROMETHEUS)
        self.ops.make("demo", self._packages(), deploymentPolicy="p")

    def _packages(self) -> dict[str, Any]:
        return {"base": pkg(f"1.{self.version}.0", interrupt=NOOP)}

    def upgrade(self) -> None:
        self.version += 1
        self.ops.packages("demo", self._packages())

    def downgrade(self) -> None:
        self.version = max(1, self.version - 1)
        self.ops.packages("demo", self._packages())

    def alarm(self) -> None:
        self.ops.answer = lambda question: 9.0

    def calm(self) -> None:
        self.ops.answer = lambda question: 0.0

    def lose_prometheus(self) -> None:
        self.ops.answer = lambda question: "no answer"

    def fail(self) -> None:
        self.ops.fate = lambda about: "fail" if about.node == "n1" else "ok"

    def heal(self) -> None:
        self.ops.fate = lambda about: "ok"
        for about in self.ops.pods():
            self.ops.finish(about)

    def pause(self) -> None:
        self.ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": "true"}}})

    def resume(self) -> None:
        self.ops.edit("demo", {"metadata": {"annotations": {f"{P}pause": None}}})

    def restart(self) -> None:
        self.ops.begin()

    def lose_pods(self) -> None:
        for about in self.ops.pods():
            meta = about.pod["metadata"]
            self.ops.world.objects.delete(PODS, meta["namespace"], meta["name"], grace=0)

    def reset(self) -> None:
        gates = {key: {"batchState": {"currentBatch": 1}, "gate": None} for key in self.ops.compartments()}
        body = {"status": {"halt": None, "compartmentStatuses": gates}}
        self.ops.world.objects.patch(SKYHOOKS, "", "demo", body, subresource="status")

    def finish(self) -> None:
        self.calm()
        self.resume()
        self.heal()
        self.ops.run(30)
        self.heal()
        self.ops.run(5)
        self.reset()
        self.ops.run(300)


Move = Callable[[Walk], None]
MOVES: tuple[Move, ...] = (
    Walk.upgrade,
    Walk.downgrade,
    Walk.alarm,
    Walk.calm,
    Walk.lose_prometheus,
    Walk.fail,
    Walk.heal,
    Walk.pause,
    Walk.resume,
    Walk.restart,
    Walk.lose_pods,
    Walk.reset,
)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.sampled_from([1, 3, 12, 60])), max_size=12))
def test_the_budget_holds_in_both_directions_and_a_halted_roll_picks_no_node(tape: list[tuple[Move, int]]) -> None:
    walk = Walk()
    for move, seconds in tape:
        walk.ops.run(seconds)
        move(walk)
    walk.finish()
    ops = walk.ops
    assert ops.failures == []
    assert ops.picked_in_spite == []
    assert ops.most_busy <= CEILING
    assert ops.phase("demo") == "complete"
    assert ops.versions() == [f"1.{walk.version}.0"] * NODES
    assert not any(ops.node(f"n{number}")["spec"].get("unschedulable") for number in range(NODES))
