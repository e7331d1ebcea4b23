"""A fleet under load that is maintained node by node, in virtual time: what an order of starts costs its users.

Each node has work of one kind. Sessions and training runs end by themselves, and another takes the place at once while the
node is schedulable. Services are Deployments under PodDisruptionBudgets. A maintenance waits for work that ends by
itself until its SLA, and then cuts it off.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple

from haulout.cluster.rows import Value
from haulout.cluster.view import FactDemand
from haulout.embedded import NODES, PODS, ActorOptions, Change, Json, KubeletOptions, PodBehaviour
from haulout.surfaces.notify.scheduler import recording
from haulout.surfaces.notify.wire import CLIENT, OBJECTS_DRAINED, VALIDATION
from tests.build.notices import HOME, NOTICES, OWN, Notices, options
from tests.build.workloads import World, budget, deployment, node, pod, template

GAMING, TRAINING, SERVICE = "gaming", "training", "service"
# For each mix, how many of ten nodes have which kind of work.
MIXES = {
    "gaming": (GAMING,) * 7 + (SERVICE,) * 3,
    "training": (TRAINING,) * 7 + (SERVICE,) * 3,
    "services": (SERVICE,) * 8 + (GAMING,) * 2,
    "mixed": (GAMING,) * 3 + (TRAINING,) * 4 + (SERVICE,) * 3,
}
SCHEDULER, PATIENT, FIRST_COME = "scheduler", "scheduler, minLikelihood 0.01", "first come"
POLICIES = (SCHEDULER, PATIENT, FIRST_COME, "random")
SLA_FOR, LASTS_FOR = timedelta(hours=4), timedelta(minutes=20)
# By this time long runs are under way, and the campaign begins.
WARM_UP_FOR, SESSIONS_FROM = timedelta(hours=12), timedelta(hours=11)
# Of the sessions of a node, which begin and end together, and of a run.
DEVICES = {GAMING: 4, TRAINING: 8}
HOUR = timedelta(hours=1)
SMALL = ActorOptions(
    heartbeats=False, brief=True, kubelet=KubeletOptions(pod=PodBehaviour(stops_after=timedelta(seconds=3)))
)


class Result(NamedTuple):
    """The result of a campaign. Lost is work that was cut off; idle is capacity that stood empty on cordoned nodes."""

    total_for: timedelta
    longest_wait_for: timedelta
    lost_hours: float
    idle_hours: float
    cut_off: int
    most_out: int


def configuration(policy: str, at_once: int) -> str:
    """Return the configuration of an operator that orders starts by score, by age alone, or by chance."""
    scheduler: dict[str, Any] = {"enabled": True, "budgets": [{"name": "all", "maxUnavailable": at_once}]}
    nothing = {"drain": 0, "pdb": 0, "lostWork": 0}
    if policy == PATIENT:
        scheduler["minLikelihood"] = 0.01
    elif policy == FIRST_COME:
        scheduler |= {"weights": {**nothing, "age": 1, "priority": 0}, "starvationAfter": "8760h"}
    elif policy == "random":
        scheduler |= {"weights": {**nothing, "age": 0, "priority": 1}, "starvationAfter": "8760h"}
    waits = [{"restartPolicies": ["Never"], "action": "Wait"}]
    operators = {"scheduler": scheduler, "drainer": {"enabled": True, "policies": waits}, "returner": {"enabled": True}}
    return json.dumps({"slaPeriod": "4h", "operators": operators})


class Campaign:
    """A campaign with one maintenance for every node of a fleet, which follows the work on the nodes."""

    def __init__(self, mix: str, policy: str, *, nodes: int = 200, at_once: int = 10, seed: int = 1) -> None:
        self._random, self._policy, self._count = Random(seed), policy, nodes
        self._chance = Random(seed + 1)
        self._kinds = {f"n{number}": MIXES[mix][number % 10] for number in range(nodes)}
        world = World(SMALL)
        for name, kind in self._kinds.items():
            world.make(node(name, work=kind))
        self.ops = Notices(options(configuration(policy, at_once)), world=world)
        self._numbers = 0
        self._cordoned: dict[str, datetime] = {}
        self._empty: dict[str, list[datetime]] = {}
        self._left = nodes
        self.lost_hours = self.idle_hours = 0.0
        self.cut_off = self.most_out = 0
        self._waits: list[timedelta] = []

    def run(self) -> Result:
        """Run the campaign, from a fleet under load until the last node is back."""
        self._begin()
        self.ops.run(WARM_UP_FOR.total_seconds())
        began_at = self.ops.now
        names = list(self._kinds)
        self._chance.shuffle(names)
        for number, name in enumerate(names):
            priority = {"haulout.dev/priority": str(self._chance.randrange(-100, 101))}
            given = priority if self._policy == "random" else {}
            self.ops.world.time.at(began_at + timedelta(seconds=number), self._making(name, given))
        self.ops.driver.run(began_at + timedelta(days=30), lambda: self._left == 0)
        assert self._left == 0, f"{self._left} maintenances are not done"
        return Result(
            self.ops.now - began_at, max(self._waits), self.lost_hours, self.idle_hours, self.cut_off, self.most_out
        )

    def _making(self, name: str, annotations: Json) -> Callable[[], None]:
        def make() -> None:
            self.ops.make(f"m-{name}", name, "firmware", annotations=annotations)

        return make

    def _begin(self) -> None:
        ops, objects = self.ops, self.ops.world.objects
        key = FactDemand(recording.PROBE, OWN, recording.READ_EVERY_FOR).key
        ops.kernel.store.write(Value(key=key, value="", state="fresh"))
        services = [name for name, kind in self._kinds.items() if kind == SERVICE]
        for number in range(len(services) // 4):
            name, where = f"web{number}", {"work": SERVICE}
            ops.world.make(deployment(name, 12, template(name, nodeSelector=where)), budget(name, maxUnavailable=1))
        objects.subscribe(PODS, self._pod_changed)
        objects.subscribe(NODES, self._node_changed)
        objects.subscribe(NOTICES, self._notice_changed)
        start = ops.now
        for name, kind in self._kinds.items():
            from_at = start + (SESSIONS_FROM if kind == GAMING else timedelta(seconds=5))
            for _ in range(kind != SERVICE):
                spread = timedelta(seconds=self._random.uniform(0, 1800))
                ops.world.time.at(from_at + spread, lambda name=name: self._start(name))  # type: ignore[misc]

    # Work

    def _start(self, name: str) -> None:
        """Begin a session or a run, unless the node is cordoned: then its devices stand empty."""
        if name in self._cordoned:
            self._empty.setdefault(name, []).append(self.ops.now)
            return
        kind, random = self._kinds[name], self._random
        self._numbers += 1
        if kind == GAMING:
            lasts_for, app = timedelta(minutes=min(90, max(5, random.expovariate(1 / 25)))), "game"
        else:
            size = random.choice(("small", "medium", "large"))
            median = {"small": 2, "medium": 6, "large": 14}[size]
            hours = min(30, max(0.5, median * random.lognormvariate(0, 0.4)))
            lasts_for, app = timedelta(hours=hours), f"train-{size}"
        made = pod(f"{app}-{self._numbers}", app=app, nodeName=name, restartPolicy="Never")
        notes = {"simulate.haulout.dev/exits-after": f"{lasts_for.total_seconds():.0f}s"}
        # Half of the training runs announce their end, and are wrong by up to a fifth.
        if kind == TRAINING and random.random() < 0.5:
            announced = lasts_for * random.uniform(0.9, 1.2)
            notes["haulout.dev/expected-duration"] = f"{announced.total_seconds():.0f}s"
        made["metadata"]["annotations"] = notes
        made["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": str(DEVICES[kind])}}
        self.ops.world.make(made)

    def _pod_changed(self, change: Change) -> None:
        obj = change.object
        name = obj["spec"].get("nodeName", "")
        if obj["spec"].get("restartPolicy") != "Never" or not name:
            return
        if change.type == "DELETED":
            if obj.get("status", {}).get("phase") != "Succeeded":
                self._cut(obj)
            self._later(lambda: self._start(name))
        elif obj.get("status", {}).get("phase") == "Succeeded" and "deletionTimestamp" not in obj["metadata"]:
            meta = obj["metadata"]
            self._later(lambda: self._gone(meta["namespace"], meta["name"]))

    def _gone(self, namespace: str, name: str) -> None:
        self.ops.world.objects.delete(PODS, namespace, name, grace=0)

    def _cut(self, obj: Json) -> None:
        started = obj.get("status", {}).get("startTime")
        devices = int(obj["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])
        self.cut_off += 1
        if started:
            self.lost_hours += devices * ((self.ops.now - datetime.fromisoformat(started)) / HOUR)

    # Nodes and maintenances

    def _node_changed(self, change: Change) -> None:
        name, is_out = change.object["metadata"]["name"], bool(change.object["spec"].get("unschedulable"))
        if is_out and name not in self._cordoned:
            self._cordoned[name] = self.ops.now
            self.most_out = max(self.most_out, len(self._cordoned))
        elif not is_out and name in self._cordoned:
            del self._cordoned[name]
            for since in self._empty.pop(name, []):
                self.idle_hours += DEVICES[self._kinds[name]] * ((self.ops.now - since) / HOUR)
                self._later(lambda: self._start(name))

    def _notice_changed(self, change: Change) -> None:
        obj = change.object
        status, name = obj.get("status", {}), obj["metadata"]["name"]
        if change.type == "DELETED":
            self._left -= 1
            return
        before = (change.old or {}).get("status", {}).get("maintenanceStatus")
        if status.get("maintenanceStatus") == before:
            return
        if status.get("maintenanceStatus") == "MaintenanceStarted":
            stamps = {each["maintenanceStatus"]: each["transitionTimestamp"] for each in status["transitionTimestamps"]}
            began, ended = (
                datetime.fromisoformat(stamps[key]) for key in ("MaintenanceScheduled", "MaintenanceStarted")
            )
            self._waits.append(ended - began)
        if status.get("maintenanceStatus") == OBJECTS_DRAINED:
            self.ops.world.time.at(self.ops.now + LASTS_FOR, lambda: self._report(name, CLIENT, "complete"))
        if status.get("maintenanceStatus") == "Validating":
            self._later(lambda: self._report(name, VALIDATION, "validated"))

    def _report(self, name: str, annotation: str, value: str) -> None:
        self.ops.world.objects.patch(NOTICES, HOME, name, {"metadata": {"annotations": {annotation: value}}})

    def _later(self, act: Callable[[], None]) -> None:
        self.ops.world.time.at(self.ops.now + timedelta(seconds=1), act)
