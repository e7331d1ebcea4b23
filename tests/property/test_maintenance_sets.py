"""Rolling sets under kills at every write, and under random changes: never two maintenances for a node, never too many."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import pytest
from hypothesis import given, settings

from tests.build.examples import examples
from tests.build.maintenance_sets import SETS, MaintenanceSets
from tests.build.walk import Move, Walk, tapes
from tests.build.workloads import budget, pod

NODES = ("n0", "n1", "n2")


def rolled(dies_at: tuple[int, bool] = (0, False)) -> MaintenanceSets:
    """Return a world after a roll over three nodes, one of which cannot be drained."""
    ops = MaintenanceSets(nodes=3)
    ops.world.make(budget("stuck", maxUnavailable=0), pod("stuck", nodeName="n1"))
    ops.run(5)
    ops.dies_at_write = dies_at
    return ops.roll("r", *NODES, most=2, setAsideAfter="1m").go(20, 10)


WRITES = rolled().writes


def is_right(ops: MaintenanceSets) -> None:
    assert ops.set_status("r")["nodes"] == {"n0": "Done", "n1": "SetAside", "n2": "Done"}
    assert ops.set_status("r")["phase"] == "Completed"
    assert (sorted(ops.made), ops.twice, ops.at_work()) == (sorted(NODES), set(), [])
    assert ops.most_at_once <= 2
    assert [ops.marks(name)[0] for name in NODES] == [False] * 3


def test_the_roll_without_a_kill_is_right() -> None:
    is_right(rolled())


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(1, WRITES + 1))
def test_a_kill_at_any_write_changes_nothing(number: int, is_after: bool) -> None:
    is_right(rolled((number, is_after)))


class Rolling(Walk):
    """A walk of people and the operator over two sets with the same nodes."""

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.ops = MaintenanceSets(nodes=3)
        self.most = 1
        for name in ("r", "s"):
            self.ops.roll(name, *NODES, most=1)

    def moves(self) -> Sequence[Move]:
        ops, name = self.ops, self.tape.pick(("r", "s"))
        moves: list[Move] = [self.time_passes, self.operator_works, self.people_work, self.restart]
        moves += [partial(ops.change, name, paused=paused) for paused in (True, False)] if ops.set(name) else []
        if ops.set(name) is not None:
            moves += [partial(self.remove, name)]
        else:
            moves += [partial(self.roll, name)] * 2
        return moves

    def time_passes(self) -> None:
        self.ops.go(1, 5)

    def operator_works(self) -> None:
        self.ops.run(1)

    def people_work(self) -> None:
        self.ops.finish()

    def restart(self) -> None:
        self.ops.begin()

    def roll(self, name: str) -> None:
        self.ops.roll(name, *NODES, most=1)

    def remove(self, name: str) -> None:
        self.ops.world.objects.delete(SETS, "", name)

    def check(self) -> None:
        assert self.ops.twice == set()
        assert self.ops.most_at_once <= 4  # two sets, and what a deleted set of each name has left to end

    def finish(self) -> None:
        for name in ("r", "s"):
            if self.ops.set(name) is not None:
                self.ops.change(name, paused=False)
        self.ops.go(30, 10)
        for name in ("r", "s"):
            if self.ops.set(name) is not None:
                assert self.ops.set_status(name)["nodes"] == dict.fromkeys(NODES, "Done")
        assert self.ops.at_work() == []


@settings(max_examples=examples(15))
@given(tapes(10, 40))
def test_random_changes(tape: bytes) -> None:
    Rolling(tape).go()
