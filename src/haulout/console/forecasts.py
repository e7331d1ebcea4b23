"""Forecasts for pages: `haulout plan` in a process of its own, one at a time, for as long as a page waits for it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

import msgspec

from haulout.base.clock import Clock

PROCESS = (sys.executable, "-m", "haulout.console.forecast_process")
WAITING, RUNNING, DONE, FAILED = "waiting", "running", "done", "failed"
# A page that has not asked for this long does not wait any more.
WAITED_FOR = 20.0
LONGEST_FOR = 900.0
# A forecast of the same that was begun within this time is shared. Pages ask for a new one as often, each at its own time.
FRESH_FOR = 120.0
# Finished forecasts that are kept. How many with changes may be under way or wait, and how many of one caller.
MOST_KEPT, MOST_UNDER_WAY, MOST_OF_CALLER = 6, 8, 2
# A caller who begins one more loses the oldest one that no page has asked for within this time.
ASKED_WITHIN = 3.0
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
    caller: str
    seq: int
    as_of: datetime
    begun_at: float
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
    """The forecasts of one console.

    `config`, `cluster`: the options by which the process finds settings and cluster. `words`: the command of the process.
    """

    def __init__(self, config: str, cluster: Mapping[str, Any], clock: Clock, words: tuple[str, ...] = PROCESS) -> None:
        self._words = words
        self._config = config
        self._cluster = cluster
        self._clock = clock
        self._kept: OrderedDict[str, _Forecast] = OrderedDict()
        self._turn = asyncio.Lock()

    def begin(self, caller: str, seq: int, changes: Changes) -> str:
        """Begin a forecast for the picture of that number, or join one of the same. Return its name. Raises `Crowded`."""
        known = next((each for each in reversed(self._kept.values()) if self._is_same(each, seq, changes)), None)
        now = self._clock.monotonic()
        if known is not None:
            known.asked_at = now
            return known.key
        if changes != Changes():
            self._make_room(caller)
        key = uuid.uuid4().hex[:24]
        made = self._kept[key] = _Forecast(key, caller, seq, self._clock.now(), now, now, changes)
        made.task = asyncio.create_task(self._run(made), name=f"forecast {key}")
        self._forget()
        return key

    def _is_same(self, known: _Forecast, seq: int, changes: Changes) -> bool:
        """Whether a forecast can be shared. On a fleet that moves, one without changes is shared for a while all the same."""
        if known.changes != changes or known.state == FAILED:
            return False
        is_fresh = self._clock.monotonic() - known.begun_at < FRESH_FOR
        return not known.is_over or (is_fresh and (known.seq == seq or changes == Changes()))

    def _make_room(self, caller: str) -> None:
        """Make room for a forecast with changes. Raises `Crowded` if pages wait for too many of them."""
        busy = [each for each in self._kept.values() if not each.is_over and each.changes != Changes()]
        own = [each for each in busy if each.caller == caller]
        if len(own) < MOST_OF_CALLER and len(busy) < MOST_UNDER_WAY:
            return
        left_alone = [each for each in own if self._clock.monotonic() - each.asked_at > ASKED_WITHIN]
        if not left_alone:
            raise Crowded
        self._end(left_alone[0])

    def _end(self, forecast: _Forecast) -> None:
        del self._kept[forecast.key]
        if forecast.task is not None:
            forecast.task.cancel()

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
        process = await asyncio.create_subprocess_exec(
            *self._words, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=MOST_OUTPUT
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
