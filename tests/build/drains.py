"""A surface that drains every labelled node, on the embedded cluster in virtual time."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep
from haulout.cluster.rows import NodeRow
from haulout.cluster.view import View
from haulout.core.action import KeepCordoned
from haulout.core.decision import NOTHING, Decider, Decision
from haulout.core.declaration import Declaration, Enabled
from haulout.core.drain.options import DrainOptions, DrainRow, drain_row
from haulout.core.drain.progress import Progress, conclusion, reasons
from haulout.core.reason import Reason
from haulout.embedded import NODES, PODS, ActorOptions, Change, KubeletOptions, PodBehaviour
from haulout.kernel.assemble import assemble
from haulout.kernel.requests import Body, Refused
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from haulout.plan.virtual import VirtualDriver
from tests.build.workloads import World, is_leaving

LABEL = "drain"
WATCHED = ("Node", "Pod", "PodDisruptionBudget", "DaemonSet")
QUICK = ActorOptions(
    heartbeats=False, kubelet=KubeletOptions(pod=PodBehaviour(stops_after=timedelta(seconds=3), init_runs_for=None))
)


def declared(*deciders: Decider, drains: bool = False) -> Declaration:
    """Return a surface that consists of these decisions and watches nothing of its own."""
    return Declaration(name=deciders[0].name, deciders=deciders, sources=lambda options: frozenset(), drains=drains)


class Drains(Reports):
    """A world with the draining surface.

    `options`: those of every drain. `refusals`: how often the server refused, by code.
    """

    def __init__(self, world: World | None = None, options: DrainOptions | None = None, **fields: object) -> None:
        self.world = world or World(QUICK, nodes=3)
        self.options = options or DrainOptions(force=True, ignore_daemonsets=True, delete_local_data=True)
        self._fields = fields
        self.refusals: list[int] = []
        surface = declared(Decider("toy", "Node", self._decide), drains=True)
        self.kernel = assemble([Enabled(surface)], together=False, reports=self).kernel
        self.driver = VirtualDriver(self.kernel, self.world.objects, self.world.time)
        for kind in WATCHED:
            self.driver.watch(kind, Keep(frozenset({"haulout.dev/drain"})))

    def on_refusal(self, subject: Subject, body: Body, answer: Refused) -> None:
        self.refusals.append(answer.code)

    def _decide(self, key: Key, view: View, now: datetime) -> Decision:
        node = view.get(key, NodeRow)
        if node is None or LABEL not in node.labels:
            return NOTHING
        if not node.unschedulable:
            return Decision(actions=((KeepCordoned(key, "drain"),),))
        row = self.row(key.name)
        return Decision(marks=(row,), until=conclusion(view, row, now).changes_at)

    def row(self, node: str) -> DrainRow:
        key = node_key(node)
        row = drain_row("toy", key, key, options=self.options)
        return msgspec.structs.replace(row, **self._fields)

    def drain(self, *nodes: str) -> Drains:
        for name in nodes:
            self.world.change(NODES, name, {"metadata": {"labels": {LABEL: "yes"}}})
        return self

    def cancel(self, node: str) -> Drains:
        self.world.change(NODES, node, {"metadata": {"labels": {LABEL: None}}})
        return self

    def run(self, seconds: float) -> Drains:
        self.driver.run(self.world.time.now() + timedelta(seconds=seconds))
        return self

    def progress(self, node: str) -> Progress:
        return conclusion(View(self.kernel.store), self.row(node), self.world.time.now())

    def reasons(self, node: str) -> tuple[Reason, ...]:
        return reasons(View(self.kernel.store, explaining=True), self.row(node), self.world.time.now())

    def on(self, node: str) -> list[str]:
        """Return the names of the pods on a node, with those that are terminating."""
        return [pod["metadata"]["name"] for pod in self.world.pods() if pod["spec"].get("nodeName") == node]

    def leaving(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.world.pods() if is_leaving(pod)]

    def evictions(self) -> list[Change]:
        """Return when each pod was evicted, in order."""
        changes = [change for change in self.world.log if change.resource == PODS and change.type == "MODIFIED"]
        return [change for change in changes if is_leaving(change.object) and change.old and not is_leaving(change.old)]
