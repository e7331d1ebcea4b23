"""Random changes to NodeMaintenances of one node, by any client: once they are deleted, the node is as it was before."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from haulout.core.action import Create, Delete, Evict
from haulout.embedded import DISRUPTION_BUDGETS, NODES, Json, Resource
from haulout.kernel.requests import Change, Refused
from haulout.surfaces.nodemaintenance.options import Options
from tests.build.examples import examples
from tests.build.maintenances import LEASES, MAINTENANCES, Maintenances
from tests.build.walk import Move, Walk, tapes
from tests.build.workloads import budget, pod

NODE, NAMES = "n0", ("a", "b")
LABEL = "remediation.medik8s.io/exclude-from-remediation"
ALONE, RESTORING = Options(), Options(restore_node_state=True)
RUN, RUN_PLAIN = Options(alone=False, restore_node_state=True), Options(alone=False)
WISHES: tuple[Json, ...] = (
    {},
    {"deadlineSeconds": 20},
    {"deadlineSeconds": 20, "deadlineAction": "ForceDelete"},
    {"dryRun": True},
    {"podSelector": "((("},
    {"restoreNodeState": True},
    {"restoreNodeState": False},
)
WRITES: tuple[tuple[type, str], ...] = (
    (Change, "Node"),
    (Change, "NodeMaintenance"),
    (Change, "NodeMaintenance/status"),
    (Change, "Lease"),
    (Create, "Lease"),
    (Delete, "Lease"),
    (Evict, "Pod"),
)


class Turmoil(Walk):
    """A walk with the moves of all clients. Subclasses add moves after which less can be asserted in the end."""

    modes: tuple[Options, ...] = (ALONE, RESTORING, RUN, RUN_PLAIN)
    wishes = WISHES

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.ops = Maintenances(options=self.tape.pick(self.modes))
        self.pods = 0

    def moves(self) -> Sequence[Move]:
        ops, name = self.ops, self.tape.pick(NAMES)
        is_there = ops.found(name) is not None
        moves: list[Move] = [self.time_passes, self.time_passes, ops.refuses.clear, self.refuse, self.restart]
        moves += [partial(ops.put_lease, NODE, holder) for holder in ("other", "node-maintenance")]
        moves += [partial(ops.put_lease, NODE, "other", renewed_ago=100, seconds=10)]
        moves += [partial(self.remove, LEASES, "medik8s-leases", f"node-{NODE}")]
        moves += [self.pod_comes, self.budget_comes, partial(self.remove, DISRUPTION_BUDGETS, "default", "p")]
        if is_there:
            moves += [
                partial(self.remove, MAINTENANCES, "", name),
                partial(self.rewrite, name),
                partial(self.forget, name),
            ]
            moves += [partial(self.patch, name, {"metadata": {"annotations": {"kick": str(ops.now)}}})]
        else:
            moves += [partial(self.make, name)] * 4
        return moves

    def make(self, name: str) -> None:
        self.ops.make(name, NODE, **self.tape.pick(self.wishes))

    def rewrite(self, name: str) -> None:
        wish = dict.fromkeys(("dryRun", "podSelector", "deadlineSeconds", "restoreNodeState")) | self.tape.pick(
            self.wishes
        )
        self.patch(name, {"spec": {"drain": wish}})

    def forget(self, name: str) -> None:
        self.ops.world.objects.patch(MAINTENANCES, "", name, {"status": None}, subresource="status")

    def patch(self, name: str, body: Json) -> None:
        self.ops.world.objects.patch(MAINTENANCES, "", name, body)

    def remove(self, resource: Resource, namespace: str, name: str) -> None:
        if self.ops.world.objects.get(resource, namespace, name) is not None:
            self.ops.world.objects.delete(resource, namespace, name)

    def restart(self) -> None:
        self.ops.options = self.tape.pick((self.ops.options, *self.modes))
        self.ops.begin()

    def pod_comes(self) -> None:
        self.pods += 1
        self.ops.world.make(pod(f"p{self.pods}", app="p", nodeName=NODE))

    def budget_comes(self) -> None:
        if self.ops.world.objects.get(DISRUPTION_BUDGETS, "default", "p") is None:
            self.ops.world.make(budget("p", minAvailable=9))

    def refuse(self) -> None:
        self.ops.refuses[self.tape.pick(WRITES)] = Refused(self.tape.pick((403, 409, 500)), "not now")

    def time_passes(self) -> None:
        self.ops.run(self.tape.pick((0.05, 0.5, 2.0, 7.0, 40.0)))

    def check(self) -> None:
        for name in NAMES:
            found = self.ops.found(name) or {}
            status: Json = found.get("status", {})
            phase, done = status.get("phase", ""), status.get("drainProgress", 0) == 100
            assert phase in ("Succeeded", "Failed") if done else phase != "Succeeded" or status["lastError"], status

    def finish(self) -> None:
        ops = self.ops
        ops.refuses.clear()
        self.remove(LEASES, "medik8s-leases", f"node-{NODE}")
        self.remove(DISRUPTION_BUDGETS, "default", "p")
        ops.run(5)
        for name in NAMES:
            self.remove(MAINTENANCES, "", name)
        ops.run(120)
        assert [name for name in NAMES if ops.found(name)] == []
        assert ops.lease(NODE) is None
        self.judge(ops.marks(NODE), ops.node(NODE)["metadata"].get("annotations", {}))
        tried = len(ops.tried)
        ops.run(1200)
        assert len(ops.tried) == tried, "at rest, and still it writes"

    def judge(self, marks: tuple[bool, list[str], str | None], notes: dict[str, Any]) -> None:
        assert (marks, notes) == ((False, [], None), {})


class AlsoOfTheNode(Turmoil):
    """A walk in which people also undo by hand what a maintenance has done to the node.

    Without its mark it is not ours.
    """

    wishes = WISHES[:3]

    def restart(self) -> None:
        self.ops.begin()

    def moves(self) -> Sequence[Move]:
        undone: tuple[Json, ...] = (
            {"spec": {"unschedulable": None}},
            {"spec": {"taints": None}},
            {"metadata": {"labels": {LABEL: None}}},
        )
        return [*super().moves(), *(partial(self.ops.world.change, NODES, NODE, body) for body in undone)]


class Restored(Turmoil):
    """A walk after which everything is as a person had set it before."""

    modes = (RESTORING, RUN)
    wishes = WISHES[:5]

    def __init__(self, tape: bytes) -> None:
        super().__init__(tape)
        self.before = self.tape.pick((False, True)), self.tape.pick((None, "true", "false"))
        cordoned, label = self.before
        body = {"spec": {"unschedulable": cordoned or None}, "metadata": {"labels": {LABEL: label}}}
        self.ops.world.change(NODES, NODE, body)

    def judge(self, marks: tuple[bool, list[str], str | None], notes: dict[str, Any]) -> None:
        cordoned, label = self.before
        taints = ["node.kubernetes.io/unschedulable"] if cordoned else []
        assert (marks, notes) == ((cordoned, taints, label), {})


@settings(max_examples=examples(300))
@given(tape=tapes(), kind=st.sampled_from((Turmoil, AlsoOfTheNode, Restored)))
def test_in_the_end_the_node_is_as_it_was(tape: bytes, kind: type[Turmoil]) -> None:
    kind(tape).go()
