"""The demo: the operator rolls an image and a package over an embedded cluster, and a picture shows how it goes."""

from __future__ import annotations

import asyncio
import io
import logging
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import click
import msgspec
from rich.console import Console
from rich.live import Live

from haulout.base import interpreter, yaml
from haulout.demo.images import CONFIG, PROFILE, STATE, Images
from haulout.demo.operator import Operator
from haulout.demo.page import served_page
from haulout.demo.picture import Picture, draw, fit, line
from haulout.demo.waves import Hosts, Waves
from haulout.embedded import (
    CUSTOM_RESOURCE_DEFINITIONS,
    NAMESPACES,
    KubeconfigRefused,
    KubeletOptions,
    PodBehaviour,
    World,
)
from haulout.manifests.documents import NAMESPACE as HOME
from haulout.manifests.workload import FOLDER, IMAGE, config_volume, workload
from haulout.runtime.interruption import run_command
from haulout.runtime.live_console import LiveConsole
from haulout.settings.settings import DemoSettings, Lease, Settings
from haulout.surfaces.nodemaintenance.declare import SURFACE as NODEMAINTENANCE
from haulout.surfaces.nodemaintenance.settings import NodeMaintenanceSettings
from haulout.surfaces.nodemaintenance.wire import LEASE_NAMESPACE
from haulout.surfaces.packages.settings import PackagesSettings
from haulout.surfaces.profiles.settings import ProfilesSettings
from haulout.surfaces.registry import KERNEL, surface

PICTURES_PER_SECOND = 4
# How many seconds the end of an act is shown.
PAUSE_FOR = 2.0
# What commands and the console read of the operator, which is given the same settings.
SETTINGS = f"""
namespace: {HOME}
surfaces:
  profiles: {{config: {FOLDER}/profiles/maintenance.yaml}}
  packages: {{}}
  nodemaintenance: {{}}
"""


def demo(settings: DemoSettings, start: Callable[[Settings], Operator]) -> int:
    log = logging.getLogger("haulout")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        return run_command(Demo(settings, start).run())
    except KeyboardInterrupt:
        return 0
    except KubeconfigRefused as refused:
        click.echo(f"Error: {refused}", err=True)
        return 1
    finally:
        log.setLevel(level)


class Demo:
    """One run of the command `demo`: an embedded cluster, the operator on it, and the live picture of the fleet."""

    def __init__(self, settings: DemoSettings, start: Callable[[Settings], Operator]) -> None:
        self._settings = settings
        self._start = start
        self._console = LiveConsole()
        self._size = self._console.size
        self._foot = ""

    async def run(self) -> int:
        fast = PodBehaviour(starts_after=timedelta(milliseconds=300), stops_after=timedelta(seconds=1))
        hosts = Hosts()
        kubelet = KubeletOptions(pod=fast, node_ready_after=timedelta(milliseconds=200), behave=hosts.behave)
        world = World(kubelet=kubelet)
        hosts.choose(world.add_nodes(self._settings.nodes, self._settings.zones, {PROFILE: "image"}))
        world.add_shop(replicas=self._settings.nodes)
        waves = Waves(world)
        _prepare(world)
        with tempfile.TemporaryDirectory(prefix="haulout-demo-") as scratch:
            profiles = Path(scratch) / "maintenance.yaml"
            profiles.write_text(CONFIG)
            async with world.served(self._settings.kubeconfig) as kubeconfig, served_page(kubeconfig) as page:
                look = f"export KUBECONFIG={kubeconfig}; kubectl get nodes -L {STATE}"
                self._foot = f"look at it from another terminal: {look}" + (f"\nconsole: {page}" if page else "")
                process = self._start(_settings(kubeconfig, profiles))
                return await self._show(process, (Images(world, process), waves))

    async def _show(self, process: Operator, acts: tuple[Images, Waves]) -> int:
        operator = asyncio.create_task(process.run())
        richest: Picture | None = None
        summaries: list[str] = []
        try:
            self._console.print(f"runs on {interpreter.description()}", soft_wrap=True, highlight=False)
            # Printed outside of the frame, so that users can copy it.
            self._console.print(self._foot, soft_wrap=True, highlight=False)
            while not operator.done():
                for act in acts:
                    richest = await self._play(act, operator)
                    summaries += [act.summary] if act.is_over else []
                if self._settings.once:
                    break
        finally:
            process.stop()
            await operator
        if self._settings.svg and richest is not None:
            self._draw(richest)
        for text in summaries[-len(acts) :]:
            self._console.print(text, soft_wrap=True, highlight=False)
        return 0 if not self._settings.once or len(summaries) == len(acts) else 1

    async def _play(self, act: Images | Waves, operator: asyncio.Task[int]) -> Picture:
        """Show one act to its end. Return the first picture that shows the most different states."""
        act.begin()
        richest = act.picture(0.0)
        clock = asyncio.get_running_loop()
        started, last = clock.time(), ""
        with Live(console=self._console, auto_refresh=False, screen=False) as live:
            while True:
                picture = act.picture(clock.time() - started)
                self._paint(live, picture)
                richest = picture if _states(picture) > _states(richest) else richest
                if not self._console.is_terminal and (text := f"{picture.title} {picture.done}") != last:
                    last = text
                    click.echo(line(picture))
                if act.is_over or operator.done():
                    break
                await asyncio.sleep(1 / PICTURES_PER_SECOND)
            await asyncio.sleep(PAUSE_FOR if self._console.is_terminal else 0)
        return richest

    def _paint(self, live: Live, picture: Picture) -> None:
        if not self._console.is_terminal:
            return
        if self._console.size != self._size:
            # After a change of its size the terminal has wrapped the lines differently, so they cannot be painted over.
            self._size = self._console.size
            self._console.clear()
            self._console.print(self._foot, soft_wrap=True, highlight=False)
        live.update(fit(msgspec.structs.replace(picture, foot=self._foot), self._console), refresh=True)

    def _draw(self, picture: Picture) -> None:
        recorder = Console(record=True, width=110, file=io.StringIO())
        recorder.print(draw(msgspec.structs.replace(picture, foot=self._foot)))
        recorder.save_svg(self._settings.svg, title="haulout demo")


def _settings(kubeconfig: Path, profiles: Path) -> Settings:
    """Return the settings of the operator: those of `SETTINGS`, and no ports of its own."""
    return Settings(
        kubeconfig=str(kubeconfig),
        http="0",
        health="0",
        lease=Lease("haulout", HOME, outside=HOME),
        blocks={
            "profiles": ProfilesSettings(config=str(profiles)),
            "packages": PackagesSettings(),
            "nodemaintenance": NodeMaintenanceSettings(),
        },
    )


def _prepare(world: World) -> None:
    """Create what acts and the logbook need, and publish the settings as an installed operator does, without pods."""
    for each in (surface(KERNEL), NODEMAINTENANCE):
        for name in each.crds:
            world.server.create(CUSTOM_RESOURCE_DEFINITIONS, yaml.load(each.definition(name)))
    for name in (HOME, LEASE_NAMESPACE):
        world.server.create(NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    volume = config_volume("profiles")
    meta = {"name": volume["configMap"]["name"], "namespace": HOME}
    profiles = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"maintenance.yaml": CONFIG}}
    world.apply([profiles, *workload(HOME, IMAGE, 0, SETTINGS, files=[volume])])


def _states(picture: Picture) -> int:
    return len({mark.state for zone in picture.zones for mark in zone.nodes})
