"""The demo: the operator rolls a maintenance over an embedded cluster, and a picture shows how it goes."""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import tempfile
from collections import Counter, deque
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import click
from rich.console import Console
from rich.live import Live

from haulout.base.clock import Clock
from haulout.cluster.key import node_key
from haulout.cluster.view import NotListed
from haulout.core.reason import roots
from haulout.demo.picture import NodeMark, Picture, Zone, drawn, fitted, line
from haulout.embedded import NODES, ZONE, Change, Json, KubeletOptions, PodBehaviour, World
from haulout.kernel.kernel import Kernel
from haulout.kernel.rooms import Subject
from haulout.settings.settings import DemoSettings, Settings
from haulout.surfaces.profiles.settings import ProfilesSettings

STATE = "cloud.sap/maintenance-state"
PROFILE = "cloud.sap/maintenance-profile"
WANTED = "demo.haulout.dev/image"
RUNNING = "demo.haulout.dev/booted"
OUT_AT_ONCE = 2
DOWN_FOR = timedelta(seconds=2)
PICTURES_PER_SECOND = 4

# The node wants a new image until it has booted it; two in a zone at a time.
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


class Operator(Protocol):
    """A running operator, as far as the demo looks at it."""

    kernel: Kernel
    clock: Clock

    async def run(self) -> int: ...

    def stop(self) -> None: ...


def demo(settings: DemoSettings, start: Callable[[Settings], Operator]) -> int:
    logging.getLogger("haulout").setLevel(logging.ERROR)
    try:
        return asyncio.run(Demo(settings, start).run())
    except KeyboardInterrupt:
        return 0


class Demo:
    """One run of the command `demo`: an embedded cluster, the operator on it, and the picture that is drawn of both."""

    def __init__(self, settings: DemoSettings, start: Callable[[Settings], Operator]) -> None:
        self._settings = settings
        self._start = start
        self._acts: deque[str] = deque(maxlen=6)
        self._round = 0
        self._states: dict[str, str] = {}
        self._most: Counter[str] = Counter()
        self._world: World | None = None
        self._process: Operator | None = None
        self._kubeconfig = ""

    async def run(self) -> int:
        fast = PodBehaviour(starts_after=timedelta(milliseconds=300), stops_after=timedelta(seconds=1))
        world = self._world = World(kubelet=KubeletOptions(pod=fast, node_ready_after=timedelta(milliseconds=200)))
        world.add_nodes(self._settings.nodes, self._settings.zones, {PROFILE: "image"})
        world.add_shop(replicas=self._settings.nodes)
        world.server.subscribe(NODES, self._node_changed)
        with tempfile.TemporaryDirectory(prefix="haulout-demo-") as scratch:
            config = Path(scratch) / "maintenance.yaml"
            config.write_text(CONFIG)
            async with world.served(self._settings.kubeconfig) as kubeconfig:
                self._kubeconfig = str(kubeconfig)
                settings = Settings(
                    kubeconfig=str(kubeconfig),
                    http="0",
                    health="0",
                    blocks={"profiles": ProfilesSettings(config=str(config))},
                )
                self._process = self._start(settings)
                return await self._show(self._process)

    async def _show(self, process: Operator) -> int:
        console = Console()
        operator = asyncio.create_task(process.run())
        started = asyncio.get_running_loop().time()
        self._begin_round()
        picture = self._picture(0.0)
        try:
            # Outside of the frame, so that it can be copied.
            console.print(picture.foot, soft_wrap=True, highlight=False)
            size = console.size
            with Live(console=console, auto_refresh=False, screen=False) as live:
                last = ""
                while not operator.done():
                    picture = self._picture(asyncio.get_running_loop().time() - started)
                    if console.is_terminal:
                        if console.size != size:
                            # Lines that the terminal has wrapped anew cannot be found again and painted over.
                            size = console.size
                            console.clear()
                            console.print(picture.foot, soft_wrap=True, highlight=False)
                        live.update(fitted(picture, console), refresh=True)
                    elif (text := f"{picture.done}") != last:
                        last = text
                        click.echo(line(picture))
                    if picture.done == picture.total:
                        if self._settings.once:
                            break
                        await asyncio.sleep(2)
                        self._begin_round()
                    await asyncio.sleep(1 / PICTURES_PER_SECOND)
        finally:
            process.stop()
            await operator
        self._end(picture, console)
        return 0 if not self._settings.once or picture.done == picture.total else 1

    def _begin_round(self) -> None:
        """A new image is there: every node wants it."""
        assert self._world is not None
        self._round += 1
        for node in self._world.server.list(NODES):
            labels = {WANTED: f"v{self._round}", RUNNING: None}
            self._world.server.patch(NODES, "", node["metadata"]["name"], {"metadata": {"labels": labels}})

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
        """What a maintenance is here: the host boots the new image."""
        assert self._world is not None
        world = self._world
        world.actors.reboot(name, DOWN_FOR)
        back = world.timers.now() + DOWN_FOR
        labels = {RUNNING: f"v{self._round}"}

        def booted() -> None:
            world.server.patch(NODES, "", name, {"metadata": {"labels": labels}})

        world.timers.at(back, booted)

    def _picture(self, seconds: float) -> Picture:
        assert self._world is not None
        nodes = self._world.server.list(NODES)
        zones: dict[str, list[NodeMark]] = {}
        for node in nodes:
            zones.setdefault(node["metadata"]["labels"][ZONE], []).append(self._mark(node))
        drawn_zones = tuple(
            Zone(name, tuple(marks), sum(mark.state in ("in-maintenance", "down") for mark in marks), OUT_AT_ONCE)
            for name, marks in sorted(zones.items())
        )
        done = sum(mark.state == "done" for marks in zones.values() for mark in marks)
        title = f"haulout demo: image v{self._round} rolls over {len(nodes)} nodes"
        foot = f"look at it from another terminal: export KUBECONFIG={self._kubeconfig}; kubectl get nodes -L {STATE}"
        return Picture(title, seconds, drawn_zones, self._waiting(), tuple(self._acts), done, len(nodes), foot)

    def _mark(self, node: Json) -> NodeMark:
        labels = node["metadata"]["labels"]
        state = labels.get(STATE, "")
        ready = any(
            each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", ())
        )
        if state == "in-maintenance" and not ready:
            state = "down"
        elif state == "operational" and RUNNING in labels and WANTED not in labels:
            state = "done"
        return NodeMark(node["metadata"]["name"], state)

    def _waiting(self) -> tuple[tuple[int, str], ...]:
        assert self._process is not None
        kernel, now = self._process.kernel, self._process.clock.now()
        found: Counter[str] = Counter()
        for name, state in self._states.items():
            key = node_key(name)
            if state != "maintenance-required" or kernel.store.row(key) is None:
                continue
            # In the first moments, not all that the decision looks at has been listed.
            with contextlib.suppress(NotListed):
                decision = kernel.loop.explain(Subject("profiles", key), now)
                found.update(
                    root.text for reason in decision.reasons for root in roots(reason) if root.code == "no-room"
                )
        return tuple((count, text) for text, count in sorted(found.items()))

    def _end(self, picture: Picture, console: Console) -> None:
        if self._settings.svg:
            recorder = Console(record=True, width=110, file=io.StringIO())
            recorder.print(drawn(picture))
            recorder.save_svg(self._settings.svg, title="haulout demo")
        most = ", ".join(f"{zone} {count}" for zone, count in sorted(self._most.items()))
        console.print(
            f"{picture.done} of {picture.total} nodes have the new image after {picture.seconds:.0f} s;"
            f" out of service at once, at most: {most}",
            soft_wrap=True,
        )
