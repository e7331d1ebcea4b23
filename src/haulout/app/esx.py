"""Puts ESX into a process: its file becomes a row, hosts are asked for, and virtual machines are switched on and off."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from haulout.app.configuration_file import ConfigurationRow
from haulout.app.parts import CannotStart, Part, Surroundings
from haulout.clients.vcenters import ToolsUnavailable, VCenterError, VCenters
from haulout.core.decision import Source
from haulout.kube.transport import Transport
from haulout.plugins.config import ConfigProblem
from haulout.runtime.probes import Probe, ProbeFailed
from haulout.runtime.sender import Channel
from haulout.settings.nodemaintenance_options import pod_rules
from haulout.settings.settings import Settings
from haulout.surfaces.esx.options import Options, VCenterSettings, load
from haulout.surfaces.esx.surface import CONFIG_KEY, ESX, sources
from haulout.surfaces.esx.vcenter import CHANNEL, HOST_PROBE, HostState, StartVirtualMachine, StopVirtualMachine

log = logging.getLogger("haulout.esx")
LIBRARY = "pyVmomi"
LOOK_AT_TASKS_EVERY = 1.0
TASK_WITHIN = 600.0


class Esx(Part):
    """ESX as a part of the process: it follows `esx.yaml`.

    The file has to be valid at the start. Later, nothing is done for ESX while it is invalid.
    """

    declaration = ESX

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        if importlib.util.find_spec(LIBRARY) is None:
            raise CannotStart("ESX needs a library that is not installed: pip install 'haulout[vsphere]'")
        self._settings = around.settings
        self._vcenters: VCenterSettings | None = None
        self._centers = VCenters(lambda: self._vcenters)
        path = around.settings.esx.config
        self._first = _read_first(path)
        self._file = ConfigurationRow(around, CONFIG_KEY, path, load=self._load, value=self._value)

    def watches(self) -> frozenset[Source]:
        return sources()

    def look(self, *, closely: bool = False) -> None:
        self._file.look(closely=closely)

    def follow(self, settings: Settings) -> None:
        self._settings = settings
        self._file.refresh()

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        return {HOST_PROBE: Hosts(self._centers)}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        return {CHANNEL: VirtualMachines(self._centers)}

    def _load(self, content: bytes, source: str) -> Options:
        options, self._vcenters = load(content, source=source, environment=os.environ)
        return options

    def _value(self, options: Options) -> Options:
        return msgspec.structs.replace(
            options,
            # How often hosts are asked for is settled at the start.
            pace_for=self._first.pace_for,
            jitter=self._first.jitter,
            alone=self._settings.alone,
            rules=pod_rules(self._settings),
        )


def _read_first(path: str) -> Options:
    try:
        options, _ = load(Path(path).read_bytes(), source=path, environment=os.environ)
    except OSError as error:
        raise CannotStart(f"{path}: {error.strerror}") from None
    except ConfigProblem as problem:
        raise CannotStart(f"{path}: {problem.text}") from None
    return options


class Hosts:
    """A probe that returns the state of a host.

    A question goes on when its caller gave up waiting, and the next caller gets the answer: so a slow vCenter answers
    in the end.
    """

    def __init__(self, centers: VCenters) -> None:
        self._centers = centers
        self._under_way: dict[tuple[str, str], asyncio.Task[HostState]] = {}

    async def __call__(self, question: tuple[str, str]) -> HostState:
        task = self._under_way.get(question)
        if task is None:
            task = self._under_way[question] = asyncio.create_task(self._ask(*question))
            # If no caller asks for the host again, its error is not reported as one that was never retrieved.
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            return await asyncio.shield(task)
        finally:
            if task.done():
                self._under_way.pop(question, None)

    async def _ask(self, host: str, zone: str) -> HostState:
        try:
            return await self._centers.call(zone, lambda center: center.host(host))
        except VCenterError as error:
            raise ProbeFailed(f"host {host} cannot be judged: {error}") from None


class VirtualMachines:
    """A channel that switches virtual machines on and off. The messages about one virtual machine are carried out in order."""

    def __init__(self, centers: VCenters) -> None:
        self._centers = centers
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, wanted: StartVirtualMachine | StopVirtualMachine) -> None:
        turn = self._turns.setdefault(wanted.name, asyncio.Lock())
        async with turn, self._centers.kept():
            match wanted:
                case StartVirtualMachine():
                    await self._start(wanted)
                case StopVirtualMachine():
                    await self._stop(wanted)

    async def _start(self, wanted: StartVirtualMachine) -> None:
        name, zone = wanted.name, wanted.zone
        if not await self._is_on(name, zone):
            log.info("virtual machine is switched on", extra={"node": name})
            await self._switch(name, zone, on=True)

    async def _stop(self, wanted: StopVirtualMachine) -> None:
        name, zone = wanted.name, wanted.zone
        if not await self._is_on(name, zone):
            return
        log.info("virtual machine is shut down", extra={"node": name})
        try:
            await self._centers.call(zone, lambda center: center.shut_down_guest(name))
            if await self._goes_off(wanted):
                return
        except ToolsUnavailable:
            pass
        log.info("virtual machine is switched off", extra={"node": name})
        await self._switch(name, zone, on=False)

    async def _goes_off(self, wanted: StopVirtualMachine) -> bool:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + wanted.give_up_for.total_seconds()
        while await self._is_on(wanted.name, wanted.zone):
            if loop.time() >= ends_at:
                return False
            await asyncio.sleep(wanted.poll_for.total_seconds())
        return True

    async def _is_on(self, name: str, zone: str) -> bool:
        return await self._centers.call(zone, lambda center: center.is_on(name))

    async def _switch(self, name: str, zone: str, *, on: bool) -> None:
        task = await self._centers.call(zone, lambda center: center.switch(name, on=on))
        async with asyncio.timeout(TASK_WITHIN):
            while not await self._centers.call(zone, lambda center: center.is_done(task)):  # noqa: ASYNC110 - a poll
                await asyncio.sleep(LOOK_AT_TASKS_EVERY)
