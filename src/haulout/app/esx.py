"""Puts ESX into a process: its file becomes a row, hosts are asked for, and machines are switched on and off."""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from weakref import WeakValueDictionary

import msgspec

from haulout.app.parts import CannotStart, Part, Surroundings
from haulout.clients.vcenters import ToolsUnavailable, VCenterError, VCenters
from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.view import CONFIG
from haulout.core.decision import Source
from haulout.kube.transport import Transport
from haulout.plugins.config import ConfigProblem
from haulout.runtime.files import WatchedFile
from haulout.runtime.probes import Probe, ProbeFailed
from haulout.runtime.sender import Channel
from haulout.settings.nodemaintenance_options import pod_rules
from haulout.settings.settings import Settings
from haulout.surfaces.profiles.declare import ESX
from haulout.surfaces.profiles.esx import (
    CHANNEL,
    HOST_PROBE,
    NAME,
    HostState,
    Options,
    StartMachine,
    StopMachine,
    VCenterSettings,
    load,
    sources,
)

log = logging.getLogger("haulout.esx")
CONFIG_KEY = Key("", CONFIG, "", NAME)
LIBRARY = "pyVmomi"
LOOK_AT_TASKS_EVERY = 1.0
TASK_WITHIN = 600.0


class Esx(Part):
    """The ESX part of the profiles surface as a part of the process: it follows `esx.yaml`.

    The file has to be right at the start; later, nothing is done while it is not.
    """

    declaration = ESX

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        if importlib.util.find_spec(LIBRARY) is None:
            raise CannotStart("ESX needs a library that is not installed: pip install 'haulout[vsphere]'")
        path = Path(around.settings.esx.config)
        self._source = str(path)
        self._settings = around.settings
        self._vcenters: VCenterSettings | None = None
        self._centers = VCenters(lambda: self._vcenters)
        self._first = self._read_first(path)
        self._content: bytes | OSError | None = None
        self._file = WatchedFile(path, self._changed)

    def _read_first(self, path: Path) -> Options:
        try:
            options, _ = load(path.read_bytes(), source=self._source, environment=os.environ)
        except OSError as error:
            raise CannotStart(f"{self._source}: {error.strerror}") from None
        except ConfigProblem as problem:
            raise CannotStart(f"{self._source}: {problem.text}") from None
        return options

    def watches(self) -> frozenset[Source]:
        return sources()

    def look(self, *, closely: bool = False) -> None:
        self._file.look(closely=closely)

    def follow(self, settings: Settings) -> None:
        self._settings = settings
        self._write()

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        return {HOST_PROBE: Hosts(self._centers)}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        return {CHANNEL: Machines(self._centers)}

    def _changed(self, content: bytes | OSError) -> None:
        self._content = content
        self._write()

    def _write(self) -> None:
        if self._content is not None:
            self.around.store.write(self._row(self._content))
            self.around.poke()

    def _row(self, content: bytes | OSError) -> Value:
        if isinstance(content, OSError):
            return self._invalid("syntax", content.strerror or str(content))
        try:
            options, self._vcenters = load(content, source=self._source, environment=os.environ)
        except ConfigProblem as problem:
            return self._invalid("syntax" if problem.is_syntax else "semantic", problem.text)
        log.info("configuration loaded", extra={"file": self._source})
        self.around.troubles.valid(self.name, f"{self._source} is valid again")
        made = msgspec.structs.replace(
            options,
            # How often hosts are asked for is settled at the start.
            pace_for=self._first.pace_for,
            jitter=self._first.jitter,
            alone=self._settings.alone,
            rules=pod_rules(self._settings),
        )
        return Value(key=CONFIG_KEY, value=made)

    def _invalid(self, kind: str, text: str) -> Value:
        extra = {"file": self._source, "error": text}
        message = f"Failed to parse configuration file ({kind} error)"
        log.error(message, extra=extra)
        self.around.troubles.invalid(self.name, f"{message}: {self._source}: {text}")
        return Value(key=CONFIG_KEY, error=f"{self._source}: {text}")


class Hosts:
    """A probe: how a host is. Whoever gave up waiting finds the answer the next time: a slow vCenter is no deaf one."""

    def __init__(self, centers: VCenters) -> None:
        self._centers = centers
        self._under_way: dict[tuple[str, str], asyncio.Task[HostState]] = {}

    async def __call__(self, question: tuple[str, str]) -> HostState:
        task = self._under_way.get(question)
        if task is None:
            task = self._under_way[question] = asyncio.create_task(self._ask(*question))
            # Of a host that nobody asks for again the answer is not wanted, whatever it is.
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


class Machines:
    """A channel: switches machines on and off. What is wanted of one machine is done in the order in which it comes."""

    def __init__(self, centers: VCenters) -> None:
        self._centers = centers
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def __call__(self, wanted: StartMachine | StopMachine) -> None:
        turn = self._turns.setdefault(wanted.machine, asyncio.Lock())
        async with turn, self._centers.kept():
            match wanted:
                case StartMachine():
                    await self._start(wanted)
                case StopMachine():
                    await self._stop(wanted)

    async def _start(self, wanted: StartMachine) -> None:
        name, zone = wanted.machine, wanted.zone
        if not await self._is_on(name, zone):
            log.info("machine is switched on", extra={"node": name})
            await self._switch(name, zone, on=True)

    async def _stop(self, wanted: StopMachine) -> None:
        name, zone = wanted.machine, wanted.zone
        if not await self._is_on(name, zone):
            return
        log.info("machine is shut down", extra={"node": name})
        try:
            await self._centers.call(zone, lambda center: center.shut_down_guest(name))
            if await self._goes_off(wanted):
                return
        except ToolsUnavailable:
            pass
        log.info("machine is switched off", extra={"node": name})
        await self._switch(name, zone, on=False)

    async def _goes_off(self, wanted: StopMachine) -> bool:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + wanted.give_up_for.total_seconds()
        while await self._is_on(wanted.machine, wanted.zone):
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
