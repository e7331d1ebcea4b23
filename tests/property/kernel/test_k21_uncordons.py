"""K21: no node is uncordoned while a claim on it may stand that is not known."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from haulout.cluster.key import Key, node_key
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow, PodRow
from haulout.cluster.store import Store
from haulout.cluster.view import View
from haulout.core.action import Release
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.declaration import Enabled
from haulout.core.holds import DISRUPTIVE, Claim, is_kept_by_others
from haulout.embedded import NODES, PODS
from haulout.kernel.assemble import assemble
from haulout.plan.virtual import VirtualDriver
from tests.build.drains import QUICK, declared
from tests.build.workloads import World, pod


class Two:
    """Two surfaces: one releases every node, one keeps the nodes of pods. `fails`: the second raises."""

    def __init__(self) -> None:
        self.world = World(QUICK, nodes=1)
        self.world.make(pod("keeper", nodeName="n0"))
        self.world.change(NODES, "n0", {"spec": {"unschedulable": True}})
        self.fails = False
        surfaces = [
            Enabled(declared(Decider("lets-go", "Node", self._let_go))),
            Enabled(declared(Decider("keeps", "Pod", self._keep, nodes=self._nodes))),
        ]
        assembly = assemble(surfaces, together=True)
        kinds = Kinds(assembly.kinds)
        self.driver = VirtualDriver(assembly.kernel, self.world.objects, self.world.time, kinds=kinds)

    def _let_go(self, key: Key, view: View, now: datetime) -> Decision:
        node = view.get(key, NodeRow)
        if node is None or not node.unschedulable or is_kept_by_others(view, key, "lets-go"):
            return NOTHING
        return Decision(actions=((Release(key, "lets-go", restore=False),),))

    def _keep(self, key: Key, view: View, now: datetime) -> Decision:
        row = view.get(key, PodRow)
        if self.fails:
            raise ValueError
        if row is None or not row.node:
            return NOTHING
        return Decision(claims=(Claim(node_key(row.node), key, DISRUPTIVE, begun=True),))

    def _nodes(self, key: Key, store: Store) -> tuple[Key, ...]:
        row = store.row(key)
        return (node_key(row.node),) if isinstance(row, PodRow) and row.node else ()

    def list(self, *kinds: str) -> Two:
        for kind in kinds:
            self.driver.watch(kind, Keep())
        return self

    def run(self, seconds: float = 100) -> Two:
        self.driver.run(self.world.time.now() + timedelta(seconds=seconds))
        return self

    @property
    def is_cordoned(self) -> bool:
        return bool(self.world.get(NODES, "n0")["spec"].get("unschedulable"))


@pytest.mark.parametrize("kinds", [("Node", "Pod"), ("Pod", "Node")], ids=["nodes first", "pods first"])
@pytest.mark.parametrize("gap", [0, 1, 100])
def test_claims_that_are_known_late_keep_the_cordon(kinds: tuple[str, str], gap: float) -> None:
    two = Two().list("NodeDisruptionBudget", kinds[0]).run(gap).list(kinds[1]).run()
    assert two.is_cordoned


def test_a_decision_that_fails_may_claim_the_node() -> None:
    two = Two()
    two.fails = True
    assert two.list("NodeDisruptionBudget", "Node", "Pod").run().is_cordoned


def test_the_node_is_let_go_once_it_is_known_that_no_claim_stands() -> None:
    two = Two()
    two.world.objects.delete(PODS, "default", "keeper", grace=0)
    assert two.list("NodeDisruptionBudget", "Node").run().is_cordoned
    assert not two.list("Pod").run().is_cordoned
