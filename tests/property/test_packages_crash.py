"""The packages operator, killed around every single write: the next one reaches the same end."""

from __future__ import annotations

import pytest

from haulout.kernel.requests import Answer, Body, Look
from tests.build.examples import FULL
from tests.build.skyhooks import Counting, Skyhooks, pkg

STAGES = ["apply", "config", "interrupt", "post-interrupt"]


class Killed(Exception):
    """The operator is killed at this write."""


class Killing(Counting):
    """Kills the operator at the write of this number, before it is carried out or before its answer arrives."""

    at: int = -1
    before_it: bool = True

    def _carried_out(self, body: Body) -> Answer:
        if isinstance(body, Look) or self.at < 0:
            return super()._carried_out(body)
        self.at -= 1
        if self.at >= 0:
            return super()._carried_out(body)
        if not self.before_it:
            super()._carried_out(body)
        raise Killed


class Mortal(Skyhooks):
    """A world whose operators die at a given write."""

    driver_type = Killing


def _world() -> Mortal:
    ops = Mortal(nodes=1)
    package = pkg(interrupt={"type": "noop"}, configMap={"a": "1"})
    return ops.make("demo", {"base": package})


def _writes() -> int:
    ops = _world()
    ops.run(60)
    assert ops.phase("demo") == "complete"
    return len(ops.writes)


@pytest.mark.parametrize("before_it", [True, False], ids=["before", "after"])
def test_an_operator_that_is_killed_at_any_write_is_replaced(before_it: bool) -> None:
    for number in range(0, _writes(), 1 if FULL else 4):
        ops = _world()
        assert isinstance(ops.driver, Killing)
        ops.driver.at, ops.driver.before_it = number, before_it
        with pytest.raises(Killed):
            ops.run(60)
        ops.begin().run(90)
        assert ops.failures == [], number
        assert (ops.phase("demo"), ops.state("n0", "demo")) == ("complete", {"base|1.0.0": "post-interrupt/complete"})
        assert [each.stage for each in ops.made] == STAGES, number
        assert not ops.node("n0")["spec"].get("unschedulable")
