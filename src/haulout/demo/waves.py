"""The second act of the demo: a package rolls over the fleet in waves, one fails its gate, and it is rolled back."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import msgspec

from haulout.base import yaml
from haulout.demo.picture import NodeMark, Picture, Zone
from haulout.embedded import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES, NODES, ZONE, Json, PodBehaviour, Resource, World
from haulout.surfaces.packages.declare import GROUP, POLICIES, SKYHOOKS, SURFACE
from haulout.surfaces.packages.groups import VERSION
from haulout.surfaces.packages.planned import pod_runs
from haulout.surfaces.packages.settings import PackagesSettings

NAME, PACKAGE = "tuning", "kernel"
NODE_STATE, STATUS = f"{GROUP}/nodeState_{NAME}", f"{GROUP}/status_{NAME}"
STAGE_FOR = timedelta(milliseconds=400)
FIRST_WAVE, GROWS_BY = 6, 3
MOST_ACTS = 6
SKYHOOK, POLICY = Resource(GROUP, VERSION, SKYHOOKS), Resource(GROUP, VERSION, POLICIES)
FAILURE = {"failedStep": {"name": "set hugepages", "path": "steps/hugepages.sh", "exitCode": 3}}
WAVES = {
    "default": {
        "budget": {"percent": 100},
        "strategy": {"exponential": {"initialBatch": FIRST_WAVE, "growthFactor": GROWS_BY}},
    },
    "gate": {"errorThreshold": 10, "rollback": True},
}


_runs = pod_runs([])


class Hosts:
    """Simulates the hosts on which packages run. On some of them the second version of the package fails."""

    def __init__(self) -> None:
        self._failing: frozenset[str] = frozenset()

    def choose(self, names: Iterable[str]) -> None:
        """Choose some nodes that fail, none of them in the first wave if there are enough nodes."""
        ordered = sorted(names)
        later = ordered[FIRST_WAVE + 4 :: FIRST_WAVE]
        self._failing = frozenset(later or ordered[-1:])

    def behave(self, pod: Json, behaviour: PodBehaviour) -> PodBehaviour:
        """Return how a simulated pod runs: fast or failing for pods of packages, unchanged for others."""
        if _runs(pod) is None:
            return behaviour
        quick = behaviour.of_work(pod, STAGE_FOR)
        about = json.loads(pod["metadata"]["annotations"][f"{GROUP}/package"])
        is_new = not about["version"].endswith(".0.0") and about["stage"] in ("apply", "upgrade")
        if not is_new or pod["spec"]["nodeName"] not in self._failing:
            return quick
        return msgspec.structs.replace(quick, init_exit_code=3, init_message=json.dumps(FAILURE))


class Waves:
    """The second act: rolls a package over the fleet in waves, then a version that fails on some nodes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._major = 0
        self._acts: deque[str] = deque(maxlen=MOST_ACTS)
        self._last_states: dict[str, str] = {}
        self._most = 0
        self._seconds = 0.0
        self._touched: set[str] = set()
        self._halted = ""
        for name in SURFACE.crds:
            world.server.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.load(SURFACE.definition(name)))
        namespace = PackagesSettings().namespace
        world.server.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
        world.server.create(POLICY, {**_head("DeploymentPolicy"), "spec": WAVES})

    def begin(self) -> None:
        """Begin to roll a version that works. `picture` begins the next one, which fails."""
        self._major += 1
        self._acts.clear()
        self._last_states.clear()
        self._touched.clear()
        self._halted = ""
        self._most = 0
        spec = {"nodeSelectors": {"matchLabels": {}}, "deploymentPolicy": NAME, "packages": self._packages(self._good)}
        if self._world.server.get(SKYHOOK, "", NAME) is None:
            self._world.server.create(SKYHOOK, {**_head("Skyhook"), "spec": spec})
        else:
            self._world.server.patch(SKYHOOK, "", NAME, {"spec": spec})

    @property
    def _good(self) -> str:
        return f"{self._major}.0.0"

    @property
    def _bad(self) -> str:
        return f"{self._major}.1.0"

    def _packages(self, version: str) -> Json:
        return {PACKAGE: {"name": PACKAGE, "version": version, "image": f"demo/{PACKAGE}"}}

    def picture(self, seconds: float) -> Picture:
        """Look at the fleet, and begin the roll of the next version when this one is complete."""
        self._seconds = seconds
        skyhook = self._world.server.get(SKYHOOK, "", NAME) or {}
        status = skyhook.get("status") or {}
        wanted = skyhook["spec"]["packages"][PACKAGE]["version"]
        marks = {node["metadata"]["name"]: self._mark(node) for node in self._world.server.list(NODES)}
        self._tell(marks, status, skyhook["metadata"]["generation"])
        zones: dict[str, list[NodeMark]] = {}
        for node in self._world.server.list(NODES):
            zones.setdefault(node["metadata"]["labels"][ZONE], []).append(marks[node["metadata"]["name"]])
        counts = Counter(mark.state for mark in marks.values())
        self._most = max(self._most, counts["changing"])
        if wanted == self._good and self._is_complete(skyhook):
            self._acts.appendleft(f"{PACKAGE} {self._good} is complete on all nodes; {self._bad} begins")
            self._world.server.patch(SKYHOOK, "", NAME, {"spec": {"packages": self._packages(self._bad)}})
        is_back = bool(self._halted)
        good = counts["old"]
        return Picture(
            title=f"haulout demo: package {PACKAGE} {self._good if is_back else wanted} "
            f"{'is restored' if is_back else f'rolls over {len(marks)} nodes in waves'}",
            seconds=seconds,
            zones=tuple(_zone(name, each) for name, each in sorted(zones.items())),
            waiting=tuple(_waiting(status)),
            acts=tuple(self._acts),
            done=good if wanted == self._good or is_back else counts["new"],
            total=len(marks),
            legend=(
                ("without", "not yet"),
                ("old", self._good),
                ("changing", "changing"),
                ("new", self._bad),
                ("failing", "failing"),
            ),
        )

    def _mark(self, node: Json) -> NodeMark:
        metadata = node["metadata"]
        notes: dict[str, str] = metadata.get("annotations") or {}
        entries: Json = json.loads(notes.get(NODE_STATE, "{}"))
        versions = {str(entry["version"]) for entry in entries.values()}
        status = notes.get(STATUS, "")
        if status == "erroring":
            state = "failing"
        elif status == "in_progress":
            state = "changing"
        else:
            state = "new" if self._bad in versions else "old" if self._good in versions else "without"
        if self._bad in versions:
            self._touched.add(metadata["name"])
        return NodeMark(metadata["name"], state)

    def _tell(self, marks: dict[str, NodeMark], status: Json, generation: int) -> None:
        """Add to the last acts what has happened since the last look: new waves, failing nodes, and the halt.

        When the act is played again, the status has the halt of the last round until the operator has seen the new spec.
        """
        for name, each in (status.get("compartmentStatuses") or {}).items():
            members = each.get("batchNodes") or []
            wave = (each.get("batchState") or {}).get("currentBatch", 1)
            if members and self._last_states.get(name) != f"{members}":
                self._last_states[name] = f"{members}"
                does = f"to {self._good} again" if self._halted else "begins"
                self._acts.appendleft(f"wave {wave} {does}: {len(members)} {'node' if len(members) == 1 else 'nodes'}")
        halt = status.get("halt") or {}
        if halt.get("message") and not self._halted and halt.get("generation") == generation:
            why = str(halt["message"]).partition(": ")[2] or halt["message"]
            self._halted = f"wave {halt['wave']} failed its gate: {why}"
            self._acts.appendleft(self._halted)
        for name, mark in marks.items():
            if self._last_states.get(name, mark.state) != mark.state and mark.state == "failing":
                self._acts.appendleft(f"{name}: {PACKAGE} {self._bad} fails, set hugepages ended with exit code 3")
            self._last_states[name] = mark.state

    def _is_complete(self, skyhook: Json) -> bool:
        """Whether the good version is complete on all nodes, and recorded as the one to restore."""
        kept = ((skyhook.get("status") or {}).get("lastComplete") or {}).get("packages") or {}
        return bool(kept.get(PACKAGE, {}).get("version") == self._good)

    @property
    def is_over(self) -> bool:
        status = (self._world.server.get(SKYHOOK, "", NAME) or {}).get("status") or {}
        if self._halted:
            return bool((status.get("halt") or {}).get("rollback") == "done")
        return bool(status.get("status") == "complete" and status.get("packageList") == f"{PACKAGE}:{self._bad}")

    @property
    def summary(self) -> str:
        nodes = self._world.server.list(NODES)
        good = sum(self._mark(node).state == "old" for node in nodes)
        return (
            f"package {PACKAGE} {self._bad}: {self._halted}; {len(self._touched)} nodes had it, and {good} of"
            f" {len(nodes)} have {self._good} again after {self._seconds:.0f} s; changed at once, at most: {self._most}"
        )


def _head(kind: str) -> Json:
    return {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "metadata": {"name": NAME}}


def _zone(name: str, marks: list[NodeMark]) -> Zone:
    changing = sum(mark.state == "changing" for mark in marks)
    return Zone(name, tuple(marks), f"{changing} change")


def _waiting(status: Json) -> list[str]:
    found: list[Any] = [each for each in status.get("conditions") or () if each.get("status") == "True"]
    messages = {str(each["type"]).rpartition("/")[2]: str(each.get("message", "")) for each in found}
    return [messages[name] for name in ("Halted", "GateAwaited") if messages.get(name)]
