"""People cordon and uncordon the nodes of four surfaces at any time: in the end each node is as the last person left it."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.embedded import Resource
from haulout.kube.errors import NotFound
from tests.build.all_surfaces import DEMO, AllSurfaces
from tests.build.examples import examples
from tests.build.maintenances import MAINTENANCES
from tests.build.notices import HOME, NOTICES
from tests.build.skyhooks import SKYHOOKS
from tests.build.walk import Move, Walk

PAUSES = (0.0, 0.3, 2.0, 9.0, 40.0)


class People(Walk):
    """A walk in which surfaces come and go on two nodes, people change cordons, and operators die.

    `wanted`: the nodes as the last person left them; True: cordoned.
    """

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.all = AllSurfaces(count=2)
        self.wanted = dict.fromkeys(self.all.names, False)
        self.asked: set[str] = set()

    def moves(self) -> Sequence[Move]:
        asks = [self.maintain, self.notice, self.profile, self.roll]
        people = [self.cordon, self.uncordon, self.uncordon_and_cordon, self.uncordon_and_cordon_between_operators]
        return [*asks, *people, self.vanish, self.crash, self.run, self.run]

    def node(self) -> str:
        return self.tape.pick(self.all.names)

    def maintain(self) -> None:
        self._once("maintain", self.all.maintain)

    def notice(self) -> None:
        self._once("notice", self.all.notice)

    def profile(self) -> None:
        self._once("profile", self.all.want_profile)

    def roll(self) -> None:
        if "roll" not in self.asked:
            self.asked.add("roll")
            self.all.roll()

    def _once(self, name: str, ask: object) -> None:
        node = self.node()
        if f"{name} {node}" not in self.asked:
            self.asked.add(f"{name} {node}")
            assert callable(ask)
            ask(node)

    def cordon(self) -> None:
        self._cordon(self.node())

    def _cordon(self, node: str) -> None:
        # Where the node is cordoned already, the request changes nothing, and leaves no trace.
        if node not in self.all.cordoned():
            self.wanted[node] = True
            self.all.cordon(node)

    def uncordon(self) -> None:
        self._uncordon(self.node())

    def _uncordon(self, node: str) -> None:
        self.wanted[node] = False
        self.all.cordon(node, cordoned=False)

    def uncordon_and_cordon(self) -> None:
        node = self.node()
        self._uncordon(node)
        self.all.run(self.tape.pick(PAUSES))
        self._cordon(node)

    def uncordon_and_cordon_between_operators(self) -> None:
        """Act while no operator is running: the next one sees the node as cordoned as before."""
        node = self.node()
        self._uncordon(node)
        self._cordon(node)
        self.all.begin()

    def vanish(self) -> None:
        """Let an object vanish without its finalizer, as by the restore of a backup."""
        node = self.node()
        places: list[tuple[Resource, str, str]] = [
            (MAINTENANCES, "", node),
            (NOTICES, HOME, node),
            (SKYHOOKS, "", DEMO),
        ]
        resource, namespace, name = self.tape.pick(places)
        with contextlib.suppress(NotFound):
            objects = self.all.world.objects
            objects.patch(resource, namespace, name, {"metadata": {"finalizers": None}})
            objects.delete(resource, namespace, name)

    def crash(self) -> None:
        self.all.crash_at(self.tape.pick(range(1, 12)), after=self.tape.pick((False, True)))

    def run(self) -> None:
        self.all.run(self.tape.pick(PAUSES))

    def check(self) -> None:
        assert self.all.failures == []

    def finish(self) -> None:
        for _ in range(8):
            self.all.run(100)
            self._tidy_up()
        self.all.crash_at(0, after=False)
        self.all.run(400)
        assert self.all.failures == []
        assert dict.fromkeys(self.all.names, False) | dict.fromkeys(self.all.cordoned(), True) == self.wanted
        # The labels of a notice that has vanished stay, because other programs may have set them.
        assert [
            mark for marks in self.all.marks().values() for mark in marks if "cordon" in mark or "drain" in mark
        ] == []

    def _tidy_up(self) -> None:
        """Do what `explain` asks of people for objects that have vanished."""
        for name in self.all.names:
            asked = self.all.advice(name)
            if any(f"haulout let-go node/{name}" in act for act in asked):
                # It gives the node back as the last person left it, like the end of the maintenance.
                self.all.let_go(name)
            elif any(f"haulout uncordon {name}" in act for act in asked):
                self._uncordon(name)


@settings(max_examples=examples(60), deadline=None, derandomize=True)
@given(st.binary(min_size=30, max_size=160))
def test_in_the_end_each_node_is_as_the_last_person_left_it(tape: bytes) -> None:
    People(tape).go()
