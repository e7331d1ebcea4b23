"""A fleet under a month of maintenance: the whole product on the embedded cluster, in virtual time.

A new image is out on the first day and every node wants it. Profiles let nodes in within weekly windows over midnight,
so many of a zone at a time. What is done to a node is that its host boots, which takes half an hour or so; where there
are pods, a NodeMaintenance drains it before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from random import Random

import msgspec
import yaml

from haulout.cluster.kinds import Kinds
from haulout.core.budgets.wire import KIND as NODE_BUDGET
from haulout.core.declaration import Enabled
from haulout.embedded import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    NODES,
    PODS,
    ActorOptions,
    Actors,
    Change,
    Json,
    KubeletOptions,
    PodBehaviour,
    Resource,
    Server,
    VirtualTimers,
)
from haulout.kernel.assemble import assemble
from haulout.kernel.kernel import Kernel
from haulout.kernel.rooms import Subject
from haulout.plan.virtual import Statement, VirtualDriver
from haulout.surfaces.nodemaintenance.options import Options
from haulout.surfaces.nodemaintenance.surface import NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.wire import API_VERSION, GROUP, KIND, PLURAL, SUCCEEDED, VERSION
from haulout.surfaces.profiles.load import known_plugins, load
from haulout.surfaces.profiles.options import Options as ProfileOptions
from haulout.surfaces.profiles.surface import PROFILES
from haulout.surfaces.profiles.wire import PROFILE_LABEL, STATE_LABEL
from haulout.surfaces.registry import definition
from tests.build.workloads import budget, deployment, node, template

# A Wednesday: the month has four whole windows from Tuesday to Wednesday, and a fifth on its last day.
START = datetime(2026, 4, 1, 12, tzinfo=UTC)
MONTH = timedelta(days=30)
OPENS, CLOSES = timedelta(hours=22), timedelta(hours=28)
WANTED, BOOTED = "example.com/image", "example.com/booted"
IN_MAINTENANCE = "in-maintenance"
ZONE = "topology.kubernetes.io/zone"
CONFIGURATION = f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasLabel, name: wanted, config: {{key: {WANTED}}}}}
  - {{type: hasLabel, name: booted, config: {{key: {BOOTED}}}}}
  - type: timeWindow
    name: night
    config: {{start: "22:00", end: "04:00", weekdays: [tuesday], allowOvernight: true}}
  - {{type: maxMaintenance, name: few, config: {{max: %d, groupBy: [{ZONE}]}}}}
  - {{type: condition, name: ready, config: {{type: Ready, status: "True"}}}}
  trigger:
  - {{type: alterLabel, name: have_it, config: {{key: {WANTED}, remove: true}}}}
profiles:
- name: image
  operational: {{transitions: [{{check: wanted, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: night && few, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: booted && ready, trigger: have_it, next: operational}}]}}
"""
MAINTENANCES = Resource(GROUP, VERSION, PLURAL)
DEFINITIONS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
NAMESPACES = Resource("", "v1", "namespaces")
NODE_DISRUPTION_BUDGETS = Resource("haulout.dev", "v1alpha1", "nodedisruptionbudgets")
POD = PodBehaviour(stops_after=timedelta(seconds=5))


def in_window(at: datetime) -> bool:
    """Whether the window is open, worked out in the plainest way to compare with: strictly between its ends."""
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    tuesday = midnight - timedelta(days=(at.weekday() - 1) % 7)
    return tuesday + OPENS < at < tuesday + CLOSES


def most_of_zone(nodes: int, zones: int) -> int:
    """Return how many nodes of a zone may be out at once, so that four windows suffice: each has eleven rounds of half an hour."""
    return -(-nodes // (zones * 4 * 9))


class Fleet:
    """A fleet with the whole product on the embedded cluster, in virtual time.

    `pods`: how many each node has, in Deployments with budgets, ten Deployments in a namespace.
    `most`: how many nodes of a zone may be out at once. `limits`: the specs of NodeDisruptionBudgets, by name.
    """

    def __init__(
        self,
        nodes: int,
        *,
        zones: int = 3,
        pods: int = 0,
        most: int = 0,
        seed: int = 0,
        brief: bool = False,
        limits: Mapping[str, Json] | None = None,
        on_statement: Callable[[Statement], None] = lambda statement: None,
    ) -> None:
        self.nodes, self.zones, self.pods = nodes, zones, pods
        self.most = most or most_of_zone(nodes, zones)
        # The simulation needs numbers that are the same in each run, not secret ones.
        self._random = Random(seed)
        self.time = VirtualTimers(START)
        self.world = Server(self.time, seed=seed, brief=brief)
        options = ActorOptions(seed=seed, heartbeats=False, brief=brief, kubelet=KubeletOptions(pod=POD))
        self.actors = Actors(self.world, self.time, options)
        self._limits = limits or {}
        self._on_statement = on_statement
        self._install()
        self.kernel = self._product()

    # Before the first day

    def _install(self) -> None:
        for name in ("nodemaintenances", "nodedisruptionbudgets"):
            self.world.create(DEFINITIONS, yaml.safe_load(definition(name)))
        self.world.create(NAMESPACES, {"metadata": {"name": Options().lease_namespace}})
        for number in range(self.nodes):
            made = node(f"n{number:05}", zone=f"z{number % self.zones}")
            made["metadata"]["labels"] |= {PROFILE_LABEL: "image", WANTED: "v2"}
            self.world.create(NODES, made)
        for name, spec in self._limits.items():
            body = {"apiVersion": "haulout.dev/v1alpha1", "kind": NODE_BUDGET, "metadata": {"name": name}, "spec": spec}
            self.world.create(NODE_DISRUPTION_BUDGETS, body)
        self.actors.start()
        self.time.run_for(timedelta(seconds=10))
        for number in range(self.nodes if self.pods else 0):
            self._deploy(f"app{number:05}", f"team{number // 10:04}")
        self.time.run_for(timedelta(minutes=5))
        self.world.subscribe(NODES, self._node_changed)
        self.world.subscribe(MAINTENANCES, self._maintenance_changed)

    def _deploy(self, name: str, namespace: str) -> None:
        if self.world.get(NAMESPACES, "", namespace) is None:
            self.world.create(NAMESPACES, {"metadata": {"name": namespace}})
        made = deployment(name, self.pods, template(name, cpu="100m"))
        guard = budget(name, maxUnavailable="10%")
        for resource, obj in ((DEPLOYMENTS, made), (DISRUPTION_BUDGETS, guard)):
            obj["metadata"]["namespace"] = namespace
            self.world.create(resource, obj)

    def _product(self) -> Kernel:
        text = CONFIGURATION % self.most
        config = load(text, known_plugins(), source="maintenance.yaml", environment={})
        surfaces = (Enabled(PROFILES, ProfileOptions(config)), Enabled(NODEMAINTENANCE, Options()))
        # The profile itself asks for the NodeMaintenance, so without turns: one would wait for the other.
        assembly = assemble(surfaces, together=True, turns=False, on_failure=_fail)
        self.driver = VirtualDriver(assembly.kernel, self.world, self.time, self._on_statement, Kinds(assembly.kinds))
        for source in sorted(assembly.sources(), key=lambda source: source.kind):
            self.driver.watch(source.kind, source.keep)
        return assembly.kernel

    # What is done to a node

    def _node_changed(self, change: Change) -> None:
        if change.type == "MODIFIED" and is_inside(change.object) and not is_inside(change.old or {}):
            name = change.object["metadata"]["name"]
            if self.pods:
                body = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": name}, "spec": {"nodeName": name}}
                self.world.create(MAINTENANCES, body)
            else:
                self._boot(name)

    def _maintenance_changed(self, change: Change) -> None:
        phases = [(obj or {}).get("status", {}).get("phase") for obj in (change.old, change.object)]
        if change.type == "MODIFIED" and phases[1] == SUCCEEDED != phases[0]:
            self._boot(change.object["spec"]["nodeName"])

    def _boot(self, name: str) -> None:
        down_for = timedelta(seconds=self._random.randrange(1500, 2100))
        self.actors.reboot(name, down_for)
        self.time.at(self.time.now() + down_for, lambda: self._booted(name))

    def _booted(self, name: str) -> None:
        self.world.patch(NODES, "", name, {"metadata": {"labels": {BOOTED: "v2"}}})
        if self.pods:
            self.world.delete(MAINTENANCES, "", name)

    # How it goes

    def run(self, days: float = 30) -> Fleet:
        self.driver.run(START + timedelta(days=days))
        return self

    def objects(self) -> list[Json]:
        return self.world.list(NODES)

    @property
    def done(self) -> int:
        return sum(is_done(obj) for obj in self.objects())


class Watch:
    """Follows every change of a node from the first: when it enters maintenance, and how many nodes are out at once."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self.entered_at: dict[str, datetime] = {}
        self.entered_twice: list[str] = []
        self.most_inside: Counter[str] = Counter()
        self.most_cordoned = 0
        self._inside: dict[str, str] = {}
        self._cordoned: set[str] = set()
        fleet.world.subscribe(NODES, self._changed)

    def _changed(self, change: Change) -> None:
        meta, spec = change.object["metadata"], change.object["spec"]
        name, zone = meta["name"], meta["labels"][ZONE]
        if not is_inside(change.object):
            self._inside.pop(name, None)
        elif name not in self._inside:
            self._inside[name] = zone
            self.entered_twice += [name] if name in self.entered_at else []
            self.entered_at[name] = self._fleet.time.now()
        self.most_inside[zone] = max(self.most_inside[zone], sum(each == zone for each in self._inside.values()))
        (self._cordoned.add if spec.get("unschedulable") else self._cordoned.discard)(name)
        self.most_cordoned = max(self.most_cordoned, len(self._cordoned))


def is_inside(obj: Json) -> bool:
    labels = obj.get("metadata", {}).get("labels", {})
    return bool(labels.get(STATE_LABEL) == IN_MAINTENANCE)


def is_done(obj: Json) -> bool:
    labels = obj["metadata"]["labels"]
    state, cordoned = labels.get(STATE_LABEL), obj["spec"].get("unschedulable", False)
    return state == "operational" and BOOTED in labels and WANTED not in labels and not cordoned


def _fail(subject: Subject, error: Exception) -> None:
    raise AssertionError(f"{subject} failed") from error


def main() -> None:
    """Print a month of a small fleet, change by change. The output must depend on the seed alone."""
    changes: list[Change] = []
    statements: list[Statement] = []
    fleet = Fleet(12, pods=4, seed=7, limits={"two": {"maxUnavailable": 2}}, on_statement=statements.append)
    for resource in (NODES, PODS, DISRUPTION_BUDGETS, DEPLOYMENTS, MAINTENANCES, NODE_DISRUPTION_BUDGETS):
        fleet.world.subscribe(resource, changes.append)
    fleet.run()
    for change in changes:
        print(change.type, msgspec.json.encode(change.object).decode())
    for statement in statements:
        print(statement)


if __name__ == "__main__":
    main()
