"""A roll that fails its gate and is rolled back, with the operator killed at each of its writes: it ends the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Self

import pytest

from haulout.kernel.requests import Answer, Body
from tests.build.gated import PROMETHEUS, Gated
from tests.build.package_life import OperatorKilled
from tests.build.skyhooks import pkg

CarryOut = Callable[[], Answer]
# One write in so many is disturbed in a life; as many lives disturb each write once.
STRIDE = 5
NOOP = {"type": "noop"}


class Life(Gated):
    """Version 1.0.0 is installed on three nodes; 2.0.0 fails the gate after its second wave."""

    def __init__(self) -> None:
        super().__init__(nodes=3)
        self.number = 0
        self.kill: Callable[[int, CarryOut], Answer] = lambda number, carry_out: carry_out()
        self.way = self._pass

    def _pass(self, body: Body, carry_out: CarryOut) -> Answer:
        self.number += 1
        return self.kill(self.number, carry_out)

    def live(self) -> Self:
        self.gated(size=1, count=1, soak="20s", prometheus=PROMETHEUS, rollback=True)
        self.make("demo", {"base": pkg(interrupt=NOOP)}, deploymentPolicy="p").run(150)
        self.answer = lambda question: 9.0 if self.versions().count("2.0.0") > 1 else 0.0
        self.packages("demo", {"base": pkg("2.0.0", interrupt=NOOP)}).run(200)
        return self

    def run(self, seconds: float = 60) -> Self:
        for _ in range(round(seconds)):
            try:
                super().run(1)
            except OperatorKilled:
                self.begin()
        return self

    @property
    def stages(self) -> list[tuple[str, str, str]]:
        return [(about.node, about.version, about.stage) for about in self.made]


@cache
def undisturbed() -> Life:
    return Life().live()


def before(carry_out: CarryOut) -> Answer:
    raise OperatorKilled


def after(carry_out: CarryOut) -> Answer:
    carry_out()
    raise OperatorKilled


def test_undisturbed_two_nodes_change_and_are_restored() -> None:
    life = undisturbed()
    assert life.halt()["rollback"] == "done"
    changed = [node for node, version, stage in life.stages if (version, stage) == ("2.0.0", "upgrade")]
    restored = [node for node, version, stage in life.stages if (version, stage) == ("2.0.0", "uninstall")]
    assert (changed, restored) == (["n0", "n1"], ["n1", "n0"])


@pytest.mark.parametrize("first", range(STRIDE))
@pytest.mark.parametrize("how", [before, after])
def test_killed_at_any_write_it_ends_the_same(how: Callable[[CarryOut], Answer], first: int) -> None:
    plain, life = undisturbed(), Life()
    life.kill = lambda number, carry_out: how(carry_out) if number % STRIDE == first else carry_out()
    life.live()
    assert life.failures == []
    assert life.stages == plain.stages
    assert (life.versions(), life.most_busy) == (["1.0.0"] * 3, 1)
    assert {**life.halt(), "at": ""} == {**plain.halt(), "at": ""}
    assert life.condition("demo", "Halted") == plain.condition("demo", "Halted")
