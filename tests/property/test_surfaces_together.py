"""Four surfaces want the same ten nodes under one budget of two: all finish, in any order and through any crash."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.core.holds import PRIORITY_ANNOTATION
from haulout.embedded import NODES
from haulout.kernel.requests import Refused
from tests.build.all_surfaces import MOST, AllSurfaces
from tests.build.examples import examples
from tests.build.walk import Tape

PAUSES = (0.0, 0.0, 0.0, 0.3, 2.0, 9.0)
CODES = (409, 500, 429)


class Course:
    """The wishes of all people in some order, with crashes and refusals in between."""

    def __init__(self, tape: bytes) -> None:
        self.tape = Tape(tape)
        self.all = AllSurfaces()
        # At most one node, so that the budget has a place for the others.
        self.by_hand = self.tape.pick(self.all.names) if self.tape.pick((False, True)) else None

    def go(self) -> None:
        everything = self.all
        if self.by_hand is not None:
            everything.cordon(self.by_hand)
        wishes = self._wishes()
        while wishes:
            wishes.pop(self.tape.pick(range(len(wishes))))()
            self._disturb()
            if pause := self.tape.pick(PAUSES):
                everything.run(pause)
        for _ in range(12):
            everything.crash_at(self.tape.pick((0, 0, *range(1, 40))), after=self.tape.pick((False, True)))
            everything.run(60)
        everything.crash_at(0, after=False)
        self._finish()

    def _wishes(self) -> list[Callable[[], None]]:
        everything = self.all
        acts = (everything.maintain, everything.notice, everything.want_profile)
        wishes: list[Callable[[], None]] = [partial(act, name) for name in everything.names for act in acts]
        return [everything.roll, *wishes]

    def _disturb(self) -> None:
        everything, choice = self.all, self.tape.pick(range(12))
        if choice == 1:
            everything.crash_at(self.tape.pick(range(1, 30)), after=self.tape.pick((False, True)))
        elif choice == 2:
            everything.refusals = [Refused(self.tape.pick(CODES), "not now")] * self.tape.pick((1, 3))
        elif choice == 3:
            body = {"metadata": {"annotations": {PRIORITY_ANNOTATION: str(self.tape.pick((-5, 1, 100)))}}}
            everything.world.change(NODES, self.tape.pick(everything.names), body)

    def _finish(self) -> None:
        everything = self.all
        by_hand = [self.by_hand] if self.by_hand is not None else []
        assert (everything.faults[:3], everything.failures, everything.cordoned()) == ([], [], by_hand)
        # A notice leaves a node alone that a person has cordoned, until the person uncordons it.
        assert not any(everything.unfinished(without=by_hand).values()), everything.unfinished(without=by_hand)
        for name in by_hand:
            everything.cordon(name, cordoned=False)
        everything.run(200)
        assert not any(everything.unfinished().values()), everything.unfinished()
        assert (everything.faults, everything.cordoned(), everything.marks()) == ([], [], {})
        assert everything.most == MOST


@settings(max_examples=examples(40), deadline=None)
@given(st.binary(min_size=60, max_size=260))
def test_all_finish_and_never_are_three_nodes_out(tape: bytes) -> None:
    Course(tape).go()
