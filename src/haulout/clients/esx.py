"""The probe and the channel of ESX maintenance: reads the state of hosts, and switches virtual machines on and off."""

from __future__ import annotations

import asyncio
import logging
from weakref import WeakValueDictionary

from haulout.clients.vcenter_zones import ToolsUnavailable, VCenterError, VCenters
from haulout.runtime.probes import ProbeFailed
from haulout.surfaces.esx.vcenter import HostState, StartVirtualMachine, StopVirtualMachine

log = logging.getLogger("haulout.esx")
LOOK_AT_TASKS_EVERY = 1.0
TASK_WITHIN = 600.0


class Hosts:
    """A probe that returns the state of a host.

    A request goes on after its caller has given up, and the next caller gets its answer. So a slow vCenter is
    understood, too.
    """

    def __init__(self, centers: VCenters) -> None:
        self._centers = centers
        self._under_way: dict[tuple[str, str], asyncio.Task[HostState]] = {}

    async def __call__(self, question: tuple[str, str]) -> HostState:
        task = self._under_way.get(question)
        if task is None:
            task = self._under_way[question] = asyncio.create_task(self._ask(*question))
            # Retrieve the error, or asyncio would log it if no caller asks for this host again.
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
        async with turn, self._centers.kept(wanted.zone):
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
        try:
            async with asyncio.timeout(TASK_WITHIN):
                while not await self._centers.call(zone, lambda center: center.is_done(task)):  # noqa: ASYNC110 - a poll
                    await asyncio.sleep(LOOK_AT_TASKS_EVERY)
        except TimeoutError:
            raise VCenterError(f"the task of {name} has not ended within {TASK_WITHIN:g} s") from None
