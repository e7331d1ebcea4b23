"""A roll of profiles over a fleet, simulated: which node was in which state from when to when, and what kept it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from haulout.cluster.key import Key, node_key
from haulout.cluster.project import Keep
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG, NotListed
from haulout.core.arbiter import Rules, arbiter
from haulout.core.drain.deciders import DRAIN_DECIDERS
from haulout.core.reason import roots
from haulout.embedded.controllers.actors import ActorOptions, Actors
from haulout.embedded.controllers.kinds import NODES
from haulout.embedded.seams import Change, Json
from haulout.embedded.seams import Resource as WorldResource
from haulout.embedded.server import Server
from haulout.embedded.timers import VirtualTimers
from haulout.kube.errors import ApiError
from haulout.plan.virtual import VirtualDriver
from haulout.runtime.kernel import Kernel
from haulout.runtime.rooms import Subject
from haulout.surfaces.profiles.engine import SURFACE, Config
from haulout.surfaces.profiles.surface import DECIDERS, OWN_KINDS, sources
from haulout.surfaces.profiles.wire import STATE_LABEL

REQUIRED, IN_MAINTENANCE = "maintenance-required", "in-maintenance"
# Nodes come up and pods are placed before the clock that people see begins.
SETTLING_FOR = timedelta(minutes=5)
LOOK_AFTER_FOR = timedelta(seconds=1)


class Span(msgspec.Struct, frozen=True):
    """`ends_at` None: it still was when the plan ended."""

    state: str
    begins_at: datetime
    ends_at: datetime | None = None


class Course(msgspec.Struct, frozen=True):
    """What becomes of one node. `waits_for`: where it does not get back, what it last waited for."""

    node: str
    spans: tuple[Span, ...]
    waits_for: str = ""

    @property
    def goes(self) -> bool:
        return any(span.state != "operational" for span in self.spans)

    @property
    def returns_at(self) -> datetime | None:
        """When it is back in service for good; None: it is not, or never left."""
        last = self.spans[-1] if self.spans else None
        return last.begins_at if self.goes and last is not None and last.state == "operational" else None


class Forecast(msgspec.Struct, frozen=True):
    """`kept`: how long nodes waited together for what, the longest first."""

    begins_at: datetime
    ends_at: datetime
    courses: tuple[Course, ...]
    kept: tuple[tuple[str, timedelta], ...] = ()

    @property
    def finished_at(self) -> datetime | None:
        """When the last node is back; None: one is not, or none went."""
        gone = [course for course in self.courses if course.goes]
        times = [course.returns_at for course in gone]
        return max((at for at in times if at is not None), default=None) if None not in times else None


class Done(msgspec.Struct, frozen=True):
    """What somebody outside does to a node, so long after it has come into a state; an empty value takes away."""

    state: str
    after_for: timedelta
    label: str
    value: str


class Simulation:
    def __init__(
        self,
        config: Config,
        objects: Sequence[tuple[WorldResource, Json]],
        *,
        begins_at: datetime,
        done: Iterable[Done] = (),
        seed: int = 0,
        on_problem: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._config = config
        self._done = tuple(done)
        self._begins_at = begins_at
        self._time = VirtualTimers(begins_at - SETTLING_FOR)
        self._world = Server(self._time, seed=seed)
        self._actors = Actors(self._world, self._time, ActorOptions(seed=seed, heartbeats=False))
        self._spans: dict[str, list[Span]] = {}
        self._waiting: dict[str, datetime] = {}
        self._kept: Counter[str] = Counter()
        self._looked_at = begins_at
        self._because = ""
        self._looks = False
        for resource, body in objects:
            try:
                self._world.create(resource, body)
            except ApiError as error:
                name = body.get("metadata", {}).get("name", "")
                on_problem(f"{resource.plural} {name} is left out: {error}")
        self._actors.start()
        self._time.run_until(begins_at)
        self._world.subscribe(NODES, self._changed)

    def run(self, within: timedelta) -> Forecast:
        ends_at = self._begins_at + within
        kernel = self._kernel = self._product()
        for obj in self._world.list(NODES):
            self._note(obj["metadata"]["name"], _state(obj))
        self._driver.run(ends_at)
        courses = [self._course(name, spans, kernel) for name, spans in sorted(self._spans.items())]
        kept = tuple((text, timedelta(seconds=seconds)) for text, seconds in self._kept.most_common())
        return Forecast(self._begins_at, ends_at, tuple(courses), kept)

    def _product(self) -> Kernel:
        kernel = Kernel([*DECIDERS, *DRAIN_DECIDERS, arbiter(Rules((SURFACE,), turns=False))])
        kernel.store.write(Value(key=Key("", CONFIG, "", SURFACE), value=self._config))
        self._driver = VirtualDriver(kernel, self._world, self._time, own_kinds=OWN_KINDS)
        kinds: dict[str, Keep] = {}
        for source in sources(self._config):
            kinds[source.kind] = kinds.get(source.kind, Keep()) | source.keep
        for kind, keep in sorted(kinds.items()):
            self._driver.watch(kind, keep)
        return kernel

    def _changed(self, change: Change) -> None:
        name, state = change.object["metadata"]["name"], _state(change.object)
        if change.type != "DELETED" and state != _state(change.old or {}):
            self._note(name, state)

    def _note(self, name: str, state: str) -> None:
        now = self._time.now()
        self._account(now)
        spans = self._spans.setdefault(name, [])
        if not state or (spans and spans[-1].state == state):
            return
        if spans:
            spans[-1] = msgspec.structs.replace(spans[-1], ends_at=now)
        spans.append(Span(state, now))
        for done in self._done:
            if done.state == state:
                self._time.at(now + done.after_for, lambda done=done: self._do(name, done))  # type: ignore[misc]
        if state == REQUIRED:
            self._waiting[name] = now
        else:
            self._waiting.pop(name, None)

    def _do(self, name: str, done: Done) -> None:
        if self._world.get(NODES, "", name) is not None:
            self._world.patch(NODES, "", name, {"metadata": {"labels": {done.label: done.value or None}}})

    def _account(self, now: datetime) -> None:
        """What passed since the last change is put down to what the first of those who wait waits for."""
        passed, self._looked_at = now - self._looked_at, now
        if self._waiting and self._because and passed > timedelta(0):
            self._kept[self._because] += int(passed.total_seconds() * len(self._waiting))
        if not self._looks:
            self._looks = True
            self._time.at(now + LOOK_AFTER_FOR, self._look)

    def _look(self) -> None:
        """Once the dust has settled: what does the first of those who wait wait for now?"""
        self._looks = False
        first = min(self._waiting.items(), key=lambda each: (each[1], each[0]), default=("", None))[0]
        self._because = self._cause(first, self._kernel) if first else ""

    def _cause(self, name: str, kernel: Kernel) -> str:
        try:
            decision = kernel.loop.explain(Subject(SURFACE, node_key(name)), self._time.now())
        except NotListed:
            return "the cluster"
        found = [root for reason in decision.reasons for root in roots(reason)]
        return found[0].text if found else "nothing"

    def _course(self, name: str, spans: list[Span], kernel: Kernel) -> Course:
        stays = spans and spans[-1].state != "operational"
        return Course(name, tuple(spans), self._cause(name, kernel) if stays else "")


def _state(obj: Json) -> str:
    labels: dict[str, Any] = obj.get("metadata", {}).get("labels") or {}
    return str(labels.get(STATE_LABEL, ""))
