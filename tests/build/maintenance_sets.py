"""A world with NodeMaintenanceSets, whose nodes are worked on by people who delete each maintenance when they are done."""

from __future__ import annotations

from typing import Any

from haulout.base import yaml
from haulout.embedded import Change, Json, Resource
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.sets.wire import API_VERSION, KIND, PLURAL
from haulout.surfaces.registry import definition
from tests.build.drains import QUICK
from tests.build.maintenances import DEFINITIONS, MAINTENANCES, Killed, Maintenances
from tests.build.workloads import World

SETS = Resource("haulout.dev", "v1alpha1", PLURAL)


class MaintenanceSets(Maintenances):
    """The nodemaintenance surface as under `haulout run`.

    `most_at_once`: the most maintenances that there ever were. `twice`: nodes that ever had two at a time. `made`: the
    nodes for which one was made, in order.
    """

    def __init__(self, nodes: int = 4) -> None:
        world = World(QUICK, nodes=nodes)
        world.objects.create(DEFINITIONS, yaml.load(definition(PLURAL)))
        self.most_at_once, self.twice, self.made = 0, set[str](), list[str]()
        super().__init__(world, Options(alone=False))
        world.objects.subscribe(MAINTENANCES, self._changed)

    def _changed(self, change: Change) -> None:
        there = [each["spec"]["nodeName"] for each in self.maintenances()]
        self.most_at_once = max(self.most_at_once, len(there))
        self.twice |= {name for name in there if there.count(name) > 1}
        if change.type == "ADDED":
            self.made.append(change.object["spec"]["nodeName"])

    def run(self, seconds: float) -> MaintenanceSets:
        super().run(seconds)
        return self

    def make(self, name: str, node: str, **drain: Any) -> MaintenanceSets:
        super().make(name, node, **drain)
        return self

    def roll(self, name: str, *nodes: str, most: int = 2, **spec: Any) -> MaintenanceSets:
        body = {
            "apiVersion": API_VERSION,
            "kind": KIND,
            "metadata": {"name": name},
            "spec": {"nodes": list(nodes), "maxConcurrent": most, **spec},
        }
        self.world.objects.create(SETS, body)
        return self

    def change(self, name: str, **spec: Any) -> None:
        self.world.objects.patch(SETS, "", name, {"spec": spec})

    def set(self, name: str) -> Json | None:
        return self.world.objects.get(SETS, "", name)

    def set_status(self, name: str) -> Json:
        return dict((self.set(name) or {}).get("status", {}))

    def maintenances(self) -> list[Json]:
        return self.world.objects.list(MAINTENANCES)

    def at_work(self) -> list[str]:
        return sorted(each["spec"]["nodeName"] for each in self.maintenances())

    def finish(self) -> int:
        """Delete each maintenance whose node is drained, as people do. Return how many that were."""
        ready = [
            each
            for each in self.maintenances()
            if each.get("status", {}).get("phase") == "Succeeded" and "deletionTimestamp" not in each["metadata"]
        ]
        for each in ready:
            self.delete(each["metadata"]["name"])
        return len(ready)

    def go(self, rounds: int, seconds: float = 5) -> MaintenanceSets:
        """Run the operator and the people. After a kill another operator goes on."""
        for _ in range(rounds):
            try:
                self.run(seconds)
            except Killed:
                self.begin()
            self.finish()
        return self
