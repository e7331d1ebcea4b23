"""The whole life of one package with an interrupt, and what is compared after a life that was disturbed."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from haulout.core.action import Create, Delete, Evict
from haulout.embedded import PODS, Resource
from haulout.kernel.requests import Answer, Body, Change
from haulout.surfaces.packages.groups import NODEWRIGHT
from haulout.surfaces.packages.options import Options
from tests.build.skyhooks import CONFIG_MAPS, SKYHOOKS, P, Skyhooks, pkg
from tests.build.units import JOBS
from tests.build.workloads import deployment

NAME, NODE = "demo", "n0"
N = NODEWRIGHT.prefix
TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(Z|[+]00:00)")
# The JSON files contain the node's annotations and labels as its last pod found them.
VOLATILE = frozenset(
    {
        *(
            "annotations.json",
            "creationTimestamp",
            "generation",
            "labels.json",
            "managedFields",
            "resourceVersion",
            "uid",
        ),
        *("controller-uid", "batch.kubernetes.io/controller-uid"),
    }
)
# These conditions say what happened last, not what the state is. A status that is written later can skip some of it.
HISTORY = frozenset({f"{P}Transition", f"{P}ApplyPackage"})
Write = Change | Create | Evict | Delete
STAGES = [
    *("apply", "config", "interrupt", "post-interrupt"),
    *("upgrade", "config", "interrupt", "post-interrupt"),
    *("config", "interrupt", "post-interrupt"),
    "uninstall",
]


class OperatorKilled(Exception):
    """The operator is killed at a write."""


class Life:
    """The life of a package: installed, upgraded, configured, uninstalled, and its Skyhook deleted, one act after another.

    `pictures`: the cluster's objects at the end of each act, without what differs from run to run.
    """

    options, together = Options(), False

    def __init__(self) -> None:
        self.ops = Skyhooks(self.options, nodes=1, together=self.together)
        self.ops.world.make(deployment("web", replicas=2))
        self.ops.run(20)
        self.pictures: list[Any] = []
        self.evicted: list[str] = []
        self.writes: list[str] = []
        self.disturb: Callable[[int, Body, Callable[[], Answer]], Answer] = lambda number, body, carry_out: carry_out()
        self.ops.way = self._pass

    def _pass(self, body: Body, carry_out: Callable[[], Answer]) -> Answer:
        assert isinstance(body, Write)
        self.writes.append(f"{type(body).__name__} {body.target}")
        return self.disturb(len(self.writes), body, lambda: self._carry_out(body, carry_out))

    def _carry_out(self, body: Write, carry_out: Callable[[], Answer]) -> Answer:
        if isinstance(body, Evict):
            self.evicted.append(body.target.name)
        return carry_out()

    def live(self) -> Life:
        self.ops.make(NAME, self._packages("1.0.0", "1"))
        self._until(self._is_complete)
        self.ops.packages(NAME, self._packages("1.1.0", "1"))
        self._until(self._is_complete)
        self.ops.packages(NAME, self._packages("1.1.0", "2"))
        self._until(self._is_complete)
        self.ops.packages(NAME, {"base": None})
        self._until(self._is_complete)
        self.ops.delete(NAME)
        self._until(lambda: self.ops.world.objects.get(SKYHOOKS, "", NAME) is None)
        return self

    @property
    def stages(self) -> list[str]:
        return [about.stage for about in self.ops.made]

    def _packages(self, version: str, text: str) -> dict[str, Any]:
        service = {"type": "service", "services": ["x"]}
        return {
            "base": pkg(
                version, interrupt={"type": "reboot"}, configMap={"a.conf": text}, configInterrupts={"*.conf": service}
            )
        }

    def _is_complete(self) -> bool:
        found = self.ops.get(NAME)
        status = found.get("status", {})
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return is_seen and status["status"] == "complete" and not self.ops.pods()

    def _until(self, is_over: Callable[[], bool]) -> None:
        """Run until the end of an act, and for a while longer, in which nothing may be written any more."""
        end = self.ops.world.time.now() + timedelta(seconds=200)
        while not is_over():
            assert self.ops.world.time.now() < end, f"never over: {self.ops.state(NODE, NAME)} {self.writes[-5:]}"
            self._run(1)
        self._run(10)
        before = len(self.writes)
        self._run(60)
        assert self.writes[before:] == []
        self.pictures.append(self._picture())

    def _run(self, seconds: float) -> None:
        """Run the operator, and another one after it when it is killed."""
        end = self.ops.world.time.now() + timedelta(seconds=seconds)
        while (left := (end - self.ops.world.time.now()).total_seconds()) > 0:
            try:
                self.ops.run(left)
            except OperatorKilled:
                self.ops.begin()

    def _picture(self) -> Any:
        objects = self.ops.world.objects
        node = self.ops.node(NODE)
        conditions = [each for each in node["status"]["conditions"] if each["type"].startswith(P)]
        kept = [each for resource, namespace in self._kept_kinds() for each in objects.list(resource, namespace)]
        return normalised([node["metadata"], node["spec"], conditions, *kept])

    def _kept_kinds(self) -> tuple[tuple[Resource, str], ...]:
        return (SKYHOOKS, ""), (CONFIG_MAPS, "skyhook"), (PODS, "skyhook")


class JobLife(Life):
    """A life in which the stages of the package run in Jobs."""

    options = Options(executor="jobs")

    def _picture(self) -> Any:
        """Return the picture with what stands in Jobs for their results. Their pods have random names."""
        objects = self.ops.world.objects
        jobs = [each["metadata"] for each in objects.list(JOBS, "skyhook")]
        results = [[each["name"], each["annotations"].get(f"{N}state-recorded")] for each in jobs]
        return [super()._picture(), sorted(results)]

    def _kept_kinds(self) -> tuple[tuple[Resource, str], ...]:
        return super()._kept_kinds()[:-1]


class HastyLife(Life):
    """A life in which each act follows as soon as the status says that the one before is complete."""

    def _is_complete(self) -> bool:
        found = self.ops.get(NAME)
        status = found.get("status", {})
        is_seen = status.get("observedGeneration") == found["metadata"]["generation"]
        return bool(is_seen and status["status"] == "complete")

    def _until(self, is_over: Callable[[], bool]) -> None:
        end = self.ops.world.time.now() + timedelta(seconds=300)
        while not is_over():
            assert self.ops.world.time.now() < end, f"never over: {self.ops.state(NODE, NAME)} {self.writes[-5:]}"
            self._run(0.05)


def is_history(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") in HISTORY


def normalised(value: Any) -> Any:
    """Return a value without what differs from run to run, lists in order."""
    if isinstance(value, dict):
        return {key: normalised(inner) for key, inner in value.items() if key not in VOLATILE}
    if isinstance(value, list):
        return sorted((normalised(inner) for inner in value if not is_history(inner)), key=str)
    return TIME.sub("<time>", value) if isinstance(value, str) else value
