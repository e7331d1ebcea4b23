"""Forecasts for pages: `haulout plan` in a process of its own, one at a time, for as long as a page waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import sys
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from haulout.base.clock import Clock

WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
# A page that has not asked for this long does not wait any more.
WAITED_FOR = 20.0
LONGEST_FOR = 900.0
# Finished forecasts that are kept, and how many may be under way or wait.
MOST_KEPT, MOST_UNDER_WAY = 6, 8
MOST_OUTPUT = 2**26

Objects = Annotated[tuple[dict[str, Any], ...], msgspec.Meta(max_length=50)]


class Changes(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """What would be different.

    `objects`: manifests, each a JSON merge patch for the object of its name, or a new object. `maintain`: nodes that would
    be maintained, by names or a label selector. `work_for`: how long the work on a node takes, such as 1h.
    """

    objects: Objects = ()
    maintain: Annotated[str, msgspec.Meta(max_length=4096)] = ""
    work_for: Annotated[str, msgspec.Meta(pattern=r"^([0-9]+(\.[0-9]+)?(ms|s|m|h))*$", max_length=32)] = ""


class ForecastRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of `POST forecasts`. Without changes, the fleet is forecast as it is."""

    changes: Changes = Changes()


class ForecastBegun(msgspec.Struct, frozen=True):
    """The answer of `POST forecasts`: where to ask how far it is. It ends if no page asks for a while."""

    id: str


class ForecastDocument(msgspec.Struct, frozen=True, rename="camel"):
    """A forecast. `state`: waiting, running, done or failed. `progress`: from 0 to 1; null if that is not known.

    `detail`: what is being done, or why it failed. `as_of`: when it was asked for.
    `plan`: the document of `haulout plan -o json`; null before it is done.
    """

    id: str
    state: str
    progress: float | None
    detail: str
    as_of: datetime
    plan: Any = None


class Work(msgspec.Struct, frozen=True):
    """What the process of a forecast is told."""

    config: str
    cluster: Mapping[str, Any]
    changes: Changes


class News(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line of the process of a forecast: how far it is, or its end."""

    what: str = ""
    share: float | None = None
    error: str = ""
    document: msgspec.Raw = msgspec.Raw()


class _Forecast(msgspec.Struct):
    key: str
    as_of: datetime
    asked_at: float
    changes: Changes
    state: str = WAITING
    share: float | None = None
    detail: str = ""
    plan: bytes = b""
    task: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.state in (DONE, FAILED)


class Crowded(Exception):
    """Raised if too many forecasts are under way."""


class Forecasts:
    """The forecasts of one console. `config`, `cluster`: the options by which the process finds settings and cluster."""

    def __init__(self, config: str, cluster: Mapping[str, Any], clock: Clock) -> None:
        self._config = config
        self._cluster = cluster
        self._clock = clock
        self._kept: OrderedDict[str, _Forecast] = OrderedDict()
        self._turn = asyncio.Lock()

    def begin(self, seq: int, changes: Changes) -> str:
        """Begin the forecast for the picture of that number, unless there is one already. Return its name."""
        key = hashlib.sha256(b"%d " % seq + msgspec.json.encode(changes, order="deterministic")).hexdigest()[:24]
        known = self._kept.get(key)
        if known is None or known.state == FAILED:
            if sum(not each.is_over for each in self._kept.values()) >= MOST_UNDER_WAY:
                raise Crowded
            made = self._kept[key] = _Forecast(key, self._clock.now(), self._clock.monotonic(), changes)
            made.task = asyncio.create_task(self._run(made), name="forecast")
            self._forget()
        return key

    def get(self, key: str) -> ForecastDocument | None:
        """Return a forecast as it stands, and note that a page waits for it; None if it is not known any more."""
        found = self._kept.get(key)
        if found is None:
            return None
        found.asked_at = self._clock.monotonic()
        plan = msgspec.Raw(found.plan) if found.plan else None
        return ForecastDocument(key, found.state, found.share, found.detail, found.as_of, plan)

    def end_all(self) -> None:
        for each in self._kept.values():
            if each.task is not None:
                each.task.cancel()

    def _forget(self) -> None:
        over = [key for key, each in self._kept.items() if each.is_over]
        for key in over[: max(len(over) - MOST_KEPT, 0)]:
            del self._kept[key]

    async def _run(self, forecast: _Forecast) -> None:
        """Run a forecast when it is its turn, and end it when no page waits for it any more."""
        running = asyncio.create_task(self._compute(forecast))
        try:
            while not running.done():
                await asyncio.wait([running], timeout=1.0)
                if self._clock.monotonic() - forecast.asked_at > WAITED_FOR and not running.done():
                    self._kept.pop(forecast.key, None)
                    return
        finally:
            running.cancel()
            await asyncio.wait([running])

    async def _compute(self, forecast: _Forecast) -> None:
        async with self._turn:
            forecast.state = RUNNING
            try:
                async with asyncio.timeout(LONGEST_FOR):
                    await self._follow(forecast)
            except TimeoutError:
                forecast.state, forecast.detail = FAILED, f"it took longer than {LONGEST_FOR / 60:g} minutes"
            except (OSError, ValueError, msgspec.DecodeError) as error:
                forecast.state, forecast.detail = FAILED, f"the process of the forecast failed: {error}"

    async def _follow(self, forecast: _Forecast) -> None:
        pipe = asyncio.subprocess.PIPE
        words = (sys.executable, "-m", "haulout.console.forecast_process")
        process = await asyncio.create_subprocess_exec(
            *words, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=MOST_OUTPUT
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(msgspec.json.encode(Work(self._config, self._cluster, forecast.changes)))
            process.stdin.close()
            async for line in process.stdout:
                news = msgspec.json.decode(line, type=News)
                if plan := bytes(news.document):
                    forecast.plan, forecast.state, forecast.share, forecast.detail = plan, DONE, 1.0, ""
                elif news.error:
                    forecast.state, forecast.detail = FAILED, news.error
                else:
                    forecast.detail, forecast.share = news.what, news.share
            if not forecast.is_over:
                forecast.state = FAILED
                forecast.detail = f"the process of the forecast ended with {await process.wait()}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
