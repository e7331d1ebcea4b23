"""K21: surfaces wish, and only the kernel writes a cordon and its ledger, so that no surface can leave one behind."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import Action, Annotate, Cordon, KeepCordoned, Label, Patch, Release
from haulout.core.cordon import ANNOTATION
from haulout.core.decision import NOTHING, Decide, Decider, Decision
from haulout.core.declaration import Enabled
from haulout.core.holds import Claim, Want, is_granted
from haulout.embedded import NODES
from haulout.kernel.assemble import assemble
from haulout.kernel.cordons import BareCordon
from haulout.kernel.rooms import Subject
from haulout.plan.virtual import VirtualDriver
from tests.build.drains import QUICK, declared
from tests.build.workloads import World

N = node_key("n0")
WORKS, DONE = "works", "done"
BARE: dict[str, Action] = {
    "cordon": Cordon(N, unschedulable=True),
    "uncordon": Cordon(N, unschedulable=False),
    "ledger": Annotate(N, ANNOTATION, None),
    "patch": Patch(N, {"spec": {"unschedulable": True}}),
    "patch of the ledger": Patch(N, {"metadata": {"annotations": {ANNOTATION: "{}"}}}),
    "no claim": KeepCordoned(N, "toy-two"),
}


class Toys:
    """Two surfaces that cordon each node with their label while its value is `works`. `extra`: an action of the second."""

    def __init__(self) -> None:
        self.world = World(QUICK, nodes=1)
        self.extra: tuple[Action, ...] = ()
        self.failures: list[Exception] = []
        self.start()

    def start(self) -> Toys:
        """Start the operator, or another one in its place."""
        names = ("toy-one", "toy-two")
        surfaces = [Enabled(declared(Decider(name, "Node", self._decide(name)))) for name in names]
        assembly = assemble(surfaces, together=True, on_failure=lambda subject, error: self.failures.append(error))
        kinds, self.kernel = Kinds(assembly.kinds), assembly.kernel
        self.driver = VirtualDriver(self.kernel, self.world.objects, self.world.time, kinds=kinds)
        for kind in ("Node", "NodeDisruptionBudget", "Pod", "PodDisruptionBudget"):
            self.driver.watch(kind, Keep(frozenset({ANNOTATION})))
        return self

    def _decide(self, surface: str) -> Decide:
        def decide(key: Key, view: View, now: datetime) -> Decision:
            node = view.get(key, NodeRow)
            state = node.labels.get(surface) if node is not None else None
            if node is None or state not in (WORKS, "begun", DONE):
                return Decision(actions=(self.extra,)) if self.extra and surface == "toy-two" else NOTHING
            claim = Claim(key, key, frozenset({Want.CORDON}), begun=state in ("begun", DONE), ending=state == DONE)
            if state == DONE:
                return Decision(((Label(key, surface, None), Release(key, surface)),), claims=(claim,))
            if state == WORKS and not is_granted(view, surface, claim):
                return Decision(claims=(claim,))
            keep = KeepCordoned(key, surface, is_visible=True)
            return Decision(((Label(key, surface, "begun"), keep),), claims=(claim,))

        return decide

    def label(self, surface: str, value: str) -> Toys:
        self.world.change(NODES, "n0", {"metadata": {"labels": {surface: value}}})
        return self.run()

    def person(self, *, cordons: bool) -> Toys:
        self.world.change(NODES, "n0", {"spec": {"unschedulable": cordons or None}})
        return self.run()

    def run(self) -> Toys:
        self.driver.run(self.world.time.now() + timedelta(seconds=100))
        return self

    @property
    def node(self) -> tuple[bool, bool]:
        """Whether the node is cordoned, and whether it has a ledger."""
        found = self.world.get(NODES, "n0")
        annotations = found["metadata"].get("annotations") or {}
        return bool(found["spec"].get("unschedulable")), ANNOTATION in annotations


@pytest.mark.parametrize("extra", BARE.values(), ids=BARE.keys())
def test_a_decision_that_writes_a_cordon_itself_fails_and_sends_nothing(extra: Action) -> None:
    toys = Toys()
    toys.extra = (extra, Label(N, "sent", "yes"))
    toys.run()
    assert [type(error) for error in toys.failures] == [BareCordon] * len(toys.failures) != []
    assert toys.node == (False, False)
    with pytest.raises(BareCordon):
        toys.kernel.loop.explain(Subject("toy-two", N), toys.world.time.now())
    assert "sent" not in (toys.world.get(NODES, "n0")["metadata"].get("labels") or {})


def test_a_wish_under_a_claim_is_cordon_and_ledger_and_its_end_restores_the_node() -> None:
    toys = Toys().label("toy-one", WORKS)
    assert toys.node == (True, True)
    assert toys.label("toy-one", DONE).node == (False, False)
    assert toys.failures == []


@pytest.mark.parametrize("restarted", [False, True])
def test_the_node_stays_cordoned_until_the_last_surface_releases_it(restarted: bool) -> None:
    toys = Toys().label("toy-one", WORKS).label("toy-two", WORKS)
    if restarted:
        toys.start()
    assert toys.label("toy-one", DONE).node == (True, True)
    assert toys.label("toy-two", DONE).node == (False, False)


def test_the_cordon_of_a_person_stays_after_the_last_claim() -> None:
    toys = Toys().person(cordons=True).label("toy-one", WORKS).label("toy-two", WORKS)
    assert toys.label("toy-two", DONE).label("toy-one", DONE).node == (True, False)


def test_a_node_that_a_person_uncordons_under_a_claim_is_free_afterwards() -> None:
    toys = Toys().label("toy-one", WORKS).person(cordons=False)
    assert toys.label("toy-one", DONE).node == (False, False)
