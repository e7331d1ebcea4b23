"""Runs the probes of the facts that decisions read, at the pace that these request, and drops unread facts."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec

from haulout.base.clock import Clock
from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import FactDemand
from haulout.kernel.loop import Loop
from haulout.kube.errors import one_line
from haulout.kube.transport import Transport

# What the probes of other packages use.
__all__ = ["ProbeContext", "ProbeFailed"]

Probe = Callable[[Any], Awaitable[Any]]
# After so many failures in a row, a fact is unknown. Before that it keeps its last value and is stale.
STALE_AFTER = 3


class ProbeFailed(Exception):
    """A probe failed. The message is shown to people as it is; any other exception is shown with its type."""


class ProbeContext(msgspec.Struct, frozen=True):
    """The resources that the probe of a check may use.

    `transport`: requests to the API server of the home cluster, under the operator's rights.
    `cloud_credentials`: the path of the file with the credentials of the cloud.
    """

    clock: Clock
    transport: Transport
    cloud_credentials: str = ""


def named_probe(path: str, context: ProbeContext) -> Probe:
    """Return the probe that a check names as `module:function`. It is imported when it first runs."""
    module, _, name = path.partition(":")

    async def ask(question: Any) -> Any:
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise ProbeFailed(f"the probe {path} cannot be loaded: {error}") from None
        return await function(question, context)

    return ask


class Prober:
    """A runner of probes, which keeps the facts that decisions read up to date.

    Each fact has its own task. A probe that returns the same value again wakes no subject. Each failure wakes the
    subjects that read the fact, because they count failures.
    """

    def __init__(self, store: Store, loop: Loop, probes: Mapping[str, Probe], on_change: Callable[[], None]) -> None:
        self._store = store
        self._loop = loop
        self._probes = probes
        self._on_change = on_change
        self._tasks: dict[Key, tuple[FactDemand, asyncio.Task[None]]] = {}

    def follow(self, group: asyncio.TaskGroup) -> None:
        """Start the probes of facts that decisions have begun to read. The probes of unread facts end by themselves."""
        for key, demand in self._loop.demands().items():
            known = self._tasks.get(key)
            if known is not None and known[0].pace_for <= demand.pace_for and not known[1].done():
                continue
            if known is not None:
                known[1].cancel()
            self._tasks[key] = (demand, group.create_task(self._keep(demand), name=f"probe {demand.probe}"))

    def stop(self) -> None:
        for _, task in self._tasks.values():
            task.cancel()

    async def _keep(self, demand: FactDemand) -> None:
        pace = demand.pace_for.total_seconds()
        failures = 0
        while True:
            row = await self._probe(demand, pace)
            failures = failures + 1 if row.error else 0
            known = self._store.row(row.key)
            if row.error and failures < STALE_AFTER and isinstance(known, Value) and known.state != "unknown":
                row = Value(key=row.key, value=known.value, state="stale", error=row.error)
            self._store.write(msgspec.structs.replace(row, failures=failures))
            self._on_change()
            await asyncio.sleep(pace)
            if not self._loop.is_demanded(demand.key):
                self._store.erase(demand.key)
                self._tasks.pop(demand.key, None)
                return

    async def _probe(self, demand: FactDemand, pace: float) -> Value:
        probe = self._probes.get(demand.probe)
        if probe is None:
            return _unknown(demand, f"there is no probe named {demand.probe}")
        try:
            async with asyncio.timeout(max(pace, demand.answer_for.total_seconds(), 1.0)):
                return Value(key=demand.key, value=await probe(demand.argument), state="fresh")
        except ProbeFailed as failure:
            return _unknown(demand, str(failure))
        except Exception as error:  # noqa: BLE001 - whatever the outside world does is an answer
            return _unknown(demand, f"{type(error).__name__}: {error}".removesuffix(": "))


def _unknown(demand: FactDemand, error: str) -> Value:
    """Return a fact without a value. Its error may quote a foreign server, so it is reduced to one printable line."""
    return Value(key=demand.key, state="unknown", error=one_line(error))
