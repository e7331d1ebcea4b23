"""The first act of the demo: a new image rolls over the fleet by a profile, two nodes of a zone at a time."""

from __future__ import annotations

import contextlib
from collections import Counter, deque
from datetime import timedelta

from haulout.cluster.key import node_key
from haulout.cluster.view import NotListed
from haulout.core.reason import roots
from haulout.demo.operator import Operator
from haulout.demo.picture import NodeMark, Picture, Zone
from haulout.embedded import NODES, ZONE, Change, Json, World
from haulout.kernel.rooms import Subject

STATE = "cloud.sap/maintenance-state"
PROFILE = "cloud.sap/maintenance-profile"
WANTED = "demo.haulout.dev/image"
RUNNING = "demo.haulout.dev/booted"
OUT_AT_ONCE = 2
DOWN_FOR = timedelta(seconds=2)
MOST_ACTS = 6

# A node needs maintenance until it has booted the new image. Two nodes of a zone may be out at a time.
CONFIG = f"""
intervals: {{requeue: 30s}}
instances:
  check:
  - {{type: hasLabel, name: new_image, config: {{key: {WANTED}}}}}
  - {{type: hasLabel, name: booted, config: {{key: {RUNNING}}}}}
  - {{type: maxMaintenance, name: two_per_zone, config: {{max: {OUT_AT_ONCE}, groupBy: [{ZONE}]}}}}
  - {{type: condition, name: ready, config: {{type: Ready, status: "True"}}}}
  trigger:
  - {{type: alterLabel, name: forget_wish, config: {{key: {WANTED}, remove: true}}}}
profiles:
- name: image
  operational: {{transitions: [{{check: new_image, next: maintenance-required}}]}}
  maintenance-required: {{transitions: [{{check: two_per_zone, next: in-maintenance}}]}}
  in-maintenance: {{transitions: [{{check: booted && ready, trigger: forget_wish, next: operational}}]}}
"""


class Images:
    """The first act: rolls a new image over all nodes, and simulates the hosts that boot it."""

    def __init__(self, world: World, operator: Operator) -> None:
        self._world = world
        self._operator = operator
        self._round = 0
        self._acts: deque[str] = deque(maxlen=MOST_ACTS)
        self._states: dict[str, str] = {}
        self._most: Counter[str] = Counter()
        self._last: Picture | None = None
        world.server.subscribe(NODES, self._node_changed)

    def begin(self) -> None:
        """Publish a new image by a label on every node."""
        self._round += 1
        self._acts.clear()
        for node in self._world.server.list(NODES):
            labels = {WANTED: f"v{self._round}", RUNNING: None}
            self._world.server.patch(NODES, "", node["metadata"]["name"], {"metadata": {"labels": labels}})

    def picture(self, seconds: float) -> Picture:
        nodes = self._world.server.list(NODES)
        zones: dict[str, list[NodeMark]] = {}
        for node in nodes:
            zones.setdefault(node["metadata"]["labels"][ZONE], []).append(_mark(node))
        done = sum(mark.state == "done" for marks in zones.values() for mark in marks)
        self._last = Picture(
            title=f"haulout demo: image v{self._round} rolls over {len(nodes)} nodes",
            seconds=seconds,
            zones=tuple(_zone(name, marks) for name, marks in sorted(zones.items())),
            waiting=self._waiting(),
            acts=tuple(self._acts),
            done=done,
            total=len(nodes),
        )
        return self._last

    @property
    def is_over(self) -> bool:
        return self._last is not None and self._last.done == self._last.total

    @property
    def summary(self) -> str:
        assert self._last is not None
        most = ", ".join(f"{zone} {count}" for zone, count in sorted(self._most.items()))
        return (
            f"{self._last.done} of {self._last.total} nodes have the new image after {self._last.seconds:.0f} s;"
            f" out of service at once, at most: {most}"
        )

    def _node_changed(self, change: Change) -> None:
        name, labels = change.object["metadata"]["name"], change.object["metadata"].get("labels", {})
        state = labels.get(STATE, "")
        if state == self._states.get(name):
            return
        self._states[name] = state
        self._acts.appendleft(f"{name} is {state}")
        zone = labels.get(ZONE, "")
        out = sum(
            1 for other, seen in self._states.items() if seen == "in-maintenance" and other.startswith(f"{zone}-")
        )
        self._most[zone] = max(self._most[zone], out)
        if state == "in-maintenance":
            self._work_on(name)

    def _work_on(self, name: str) -> None:
        """Simulate the maintenance of a node: its host reboots with the new image."""
        world = self._world
        world.actors.reboot(name, DOWN_FOR)
        labels = {RUNNING: f"v{self._round}"}

        def booted() -> None:
            world.server.patch(NODES, "", name, {"metadata": {"labels": labels}})

        world.timers.at(world.timers.now() + DOWN_FOR, booted)

    def _waiting(self) -> tuple[str, ...]:
        kernel, now = self._operator.kernel, self._operator.clock.now()
        found: Counter[str] = Counter()
        for name, state in self._states.items():
            key = node_key(name)
            if state != "maintenance-required" or kernel.store.row(key) is None:
                continue
            # At the start some kinds that the decision reads are not listed yet.
            with contextlib.suppress(NotListed):
                decision = kernel.loop.explain(Subject("profiles", key), now)
                found.update(
                    root.text for reason in decision.reasons for root in roots(reason) if root.code == "no-room"
                )
        return tuple(f"{count} wait: {text}" for text, count in sorted(found.items()))


def _zone(name: str, marks: list[NodeMark]) -> Zone:
    out = sum(mark.state in ("in-maintenance", "down") for mark in marks)
    return Zone(name, tuple(marks), f"{out} of {OUT_AT_ONCE} out", out >= OUT_AT_ONCE)


def _mark(node: Json) -> NodeMark:
    labels = node["metadata"]["labels"]
    state = labels.get(STATE, "")
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ()))
    if state == "in-maintenance" and not ready:
        state = "down"
    elif state == "operational" and RUNNING in labels and WANTED not in labels:
        state = "done"
    return NodeMark(node["metadata"]["name"], state)
