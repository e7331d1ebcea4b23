"""Follows the cluster for the console: keeps the decisions at rest on it, and publishes a picture whenever that changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TypeVar

import msgspec

from haulout.base.clock import Clock
from haulout.base.collector import without_collector
from haulout.cluster.store import Store
from haulout.console.emptiness import Emptiness
from haulout.console.picture import Changes, Picture, changes_between, kinds_of, outage_text, tables_of
from haulout.explain.fleet import Fleet
from haulout.explain.live import LivePicture, live_picture
from haulout.explain.node_rows import held_nodes, node_rows
from haulout.explain.setup import Setup
from haulout.explain.status import fleet_now, read_installation
from haulout.kernel.kernel import Kernel
from haulout.kube.errors import Forbidden, KubeError, NotFound, one_line
from haulout.kube.transport import Transport

log = logging.getLogger("haulout.console")

# Without a change of the cluster the picture is worked out again after this time, because the times in it have moved.
LOOK_EVERY = 30.0
# All decisions are made anew after this time. In between only those run that read what has changed.
SETTLE_EVERY = 300.0
# The installation is read again after this time.
READ_EVERY = 30.0
# A caller who has asked for something within this time is looking. While no caller looks, no picture is worked out.
LOOKING_FOR = 60.0
# So often the API server is asked whether it is there, and so often while it does not answer.
ASK_EVERY, ASK_AGAIN_AFTER, ASK_WITHIN = 3.0, 1.0, 5.0
# A request that comes while no caller was looking waits this long for a picture of now.
FRESH_WITHIN = 5.0
# Proofs that come within this time are shown at once. A request waits this long for those that are under way.
PROOFS_TOGETHER, PROVEN_WITHIN = 0.1, 1.0
RETRY_FROM, RETRY_TO = 1.0, 4.0
# After an outage of this length, a watch may be dead without knowing it: the silence of a watch is no error for minutes.
SILENT_FOR = 10.0
# Two questions further apart than this mean that the computer was asleep.
SLEPT_FOR = 30.0

T = TypeVar("T")
OnPublished = Callable[[Picture, Picture, Changes], None]
FindSetup = Callable[[], Awaitable[Setup]]


class Silent(KubeError):
    """The API server answers, but what it has sent so far is not enough for a picture of now."""


class Watcher:
    """The picture of a cluster, kept up to date. Its requests only read.

    `setup`: the settings; None if the API server has to be asked for them with `find_setup` and has not answered yet.
    `picture`: the last one. `known_at`: the last instant at which the API server has answered, so that what the picture
    shows was known then; None before the first answer. `is_silent`: the API server left the last question unanswered.
    """

    def __init__(
        self,
        setup: Setup | None,
        transport: Transport,
        clock: Clock,
        on_published: OnPublished,
        find_setup: FindSetup | None = None,
    ) -> None:
        self.setup = setup or Setup()
        self._find_setup = find_setup if setup is None else None
        self._transport = transport
        self._clock = clock
        self._on_published = on_published
        # Numbers of different processes differ, so that no page takes the changes of one for those of another.
        self.picture = Picture(seq=int(clock.now().timestamp() * 1000), tables={"Node": "not-yet"})
        self.epoch = f"{self.picture.seq:x}"
        self.known_at: datetime | None = None
        self.is_silent = False
        self._outage = ""
        self._live: LivePicture | None = None
        self._looked_at = clock.monotonic()
        self._looked, self._published, self._woken = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._emptiness = Emptiness(transport, clock, self._note_proof)
        # Set while a proof has come that the picture does not show yet.
        self._republishing: asyncio.TimerHandle | None = None
        # The monotonic instant at which the API server ceased to answer.
        self._lost_at = 0.0
        # The kinds whose watches have noticed this outage. Once they resume, they have missed nothing.
        self._noticed: frozenset[str] = frozenset()
        # When all decisions were last made anew.
        self._settled_at = 0.0
        # The watches may have missed something, so that everything has to be listed anew.
        self._is_doubtful = False

    @property
    def kernel(self) -> Kernel | None:
        """The kernel whose decisions have settled; None before everything is listed."""
        return self._live.kernel if self._live is not None else None

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds that decisions read."""
        return self._live.kinds if self._live is not None else ()

    @property
    def is_stale(self) -> bool:
        """Whether the API server does not answer, so that the picture is that of an earlier instant."""
        return bool(self._outage)

    @property
    def outage(self) -> str:
        """Since when and why the API server does not answer; empty if it does."""
        return self._outage

    def look(self) -> None:
        """Note that a caller looks."""
        self._looked_at = self._clock.monotonic()
        self._looked.set()

    async def current(self) -> Picture:
        """Return the picture of now. If no caller has looked for a while, wait until it is worked out again."""
        was_idle = self._live is not None and not self._outage and not self._is_looked_at
        self.look()
        if was_idle:
            self._published.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(FRESH_WITHIN):
                    await self._published.wait()
        await self._emptiness.answers(PROVEN_WITHIN)
        if self._republishing is not None:
            self._republishing.cancel()
            self._republish()
        return self.picture

    async def run(self) -> None:
        """Follow the cluster until cancelled. A failure is shown, and followed by another try."""
        pause = RETRY_FROM
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_asking(), name="ask the API server")
            await self._learn_setup()
            while True:
                try:
                    async with live_picture(self.setup, self._transport, self._note_change) as live:
                        pause, self._is_doubtful = RETRY_FROM, False
                        await self._follow(live, group)
                except (KubeError, TimeoutError, BaseExceptionGroup) as error:
                    self._lose(_cause(error))
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, RETRY_TO)
                self._live = None
                self._emptiness.forget()

    async def _learn_setup(self) -> None:
        """Find the settings, as soon as the API server answers."""
        while self._find_setup is not None:
            try:
                self.setup, self._find_setup = await self._find_setup(), None
            except KubeError as error:
                self._lose(error)
                await asyncio.sleep(RETRY_TO)

    async def _follow(self, live: LivePicture, group: asyncio.TaskGroup) -> None:
        """Publish pictures until the watches are in doubt."""
        self._live, read_at, self._settled_at = live, float("-inf"), self._clock.monotonic()
        self._outage = ""
        while True:
            if self._clock.monotonic() - read_at >= READ_EVERY:
                read_at = self._clock.monotonic()
                group.create_task(self._read_installation(), name="read the installation")
            if not self._outage:
                fleet = self._work_out(live)
                self._emptiness.want(group, live.kernel.store, held_nodes(fleet))
            await self._wait(live)
            if self._is_doubtful:
                return
            if not self._outage:
                self._settle(live)

    def _settle(self, live: LivePicture) -> None:
        """Bring the decisions to rest on what has changed, now and then on everything."""
        if self._clock.monotonic() - self._settled_at >= SETTLE_EVERY:
            self._settled_at = self._clock.monotonic()
            live.settle()
        else:
            live.refresh()

    async def _wait(self, live: LivePicture) -> None:
        """Wait for a change, for the time of the next look, or for other news; then until a caller looks."""
        self._woken.clear()
        waiting = asyncio.create_task(live.wait(LOOK_EVERY))
        news = asyncio.create_task(self._woken.wait())
        try:
            await asyncio.wait((waiting, news), return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done() and not self._is_doubtful:
                await live.pace()
            while not self._is_looked_at:
                self._looked.clear()
                await self._looked.wait()
            if waiting.done():
                # What is not watched is read again here. `_keep_asking` notices a failure, too.
                with contextlib.suppress(KubeError):
                    waiting.result()
        finally:
            waiting.cancel()
            news.cancel()

    @property
    def _is_looked_at(self) -> bool:
        return self._clock.monotonic() - self._looked_at < LOOKING_FOR

    def _work_out(self, live: LivePicture) -> Fleet:
        """Work out the picture from the settled kernel, and publish it."""
        store = live.kernel.store
        with without_collector():
            fleet = fleet_now(live, self.setup)
            proven, declarations = self._emptiness.proven(), [each.declaration for each in self.setup.enabled]
            rows = {row.name: row for row in node_rows(store, fleet, proven, declarations)}
        self.known_at = fleet.at
        self._publish(
            msgspec.structs.replace(
                self.picture,
                rows={name: _kept(self.picture.rows.get(name), row) for name, row in rows.items()},
                causes=fleet.causes,
                failures=fleet.failures,
                budgets=fleet.budgets,
                works=fleet.works,
                rollouts=fleet.rollouts,
                tables=tables_of(store, live.kinds, ""),
            )
        )
        return fleet

    def _note_proof(self) -> None:
        """Show what has been proven soon, and several proofs at once."""
        if self._republishing is None:
            self._republishing = asyncio.get_running_loop().call_later(PROOFS_TOGETHER, self._republish)

    def _republish(self) -> None:
        self._republishing = None
        if self._live is not None and not self._outage:
            self._work_out(self._live)

    def _publish(self, new: Picture) -> None:
        changes = changes_between(self.picture, new)
        if changes:
            old = self.picture
            self.picture = msgspec.structs.replace(new, seq=old.seq + 1, at=self.known_at)
            self._on_published(old, self.picture, changes)
        self._published.set()

    def _note_change(self, store: Store) -> None:
        self._emptiness.note_change(store)
        if self._live is None and not self.picture.rows:
            # Before the first picture, people see which kinds have been listed.
            self._publish(msgspec.structs.replace(self.picture, tables=tables_of(store, (*kinds_of(store),), "")))

    async def _keep_asking(self) -> None:
        """Ask the API server whether it is there. Between two events nothing else would tell."""
        asked_at = self._clock.monotonic()
        while True:
            await asyncio.sleep(ASK_AGAIN_AFTER if self._outage else ASK_EVERY)
            if self._clock.monotonic() - asked_at > SLEPT_FOR:
                # The computer was asleep. The watches may have ended without a word.
                self._doubt()
            asked_at = self._clock.monotonic()
            try:
                await self._transport.request("GET", "/version", timeout=ASK_WITHIN)
            except (Forbidden, NotFound):
                self.is_silent = False
                self._find()
            except KubeError as error:
                self.is_silent = True
                self._lose(error)
            else:
                self.is_silent = False
                self._find()

    def _find(self) -> None:
        """Note that the API server answers. Its picture is current again once every watch has resumed."""
        if self._live is None:
            return
        if self._live.troubled():
            self._lose(Silent(f"the watches of {', '.join(sorted(self._live.troubled()))} have not resumed"))
            return
        self.known_at = self._clock.now()
        if self._outage:
            log.info("the API server answers again")
            if self._clock.monotonic() - self._lost_at > SILENT_FOR and not self._live.listed() <= self._noticed:
                self._doubt()
            else:
                self._outage = ""
                self._woken.set()

    def _doubt(self) -> None:
        """List everything anew: a watch may have ended unnoticed. Until then the picture stays as it is, and says so."""
        if self._live is not None:
            self._lose(Silent("everything is being read again"))
            self._is_doubtful = True
            self._woken.set()
            self._looked.set()

    def _lose(self, error: BaseException) -> None:
        """Note that the API server does not answer. The last picture stays, and says since when it is old."""
        if not self._outage:
            self._lost_at = self._clock.monotonic()
            log.warning("the API server does not answer", extra={"error": one_line(str(error))})
            self._noticed = frozenset()
            # Nothing is known about a moment after this one.
            self._emptiness.forget()
        if self._live is not None:
            self._noticed |= self._live.troubled()
        self._outage = outage_text(self.known_at or self._clock.now(), one_line(str(error)) or type(error).__name__)
        tables = dict.fromkeys(self.picture.tables, f"unreadable: {self._outage}")
        rows = {
            name: msgspec.structs.replace(row, safe_to_work=None) if row.safe_to_work else row
            for name, row in self.picture.rows.items()
        }
        self._publish(msgspec.structs.replace(self.picture, tables=tables, rows=rows))

    async def _read_installation(self) -> None:
        with contextlib.suppress(KubeError):
            found = await read_installation(self.setup, self._transport)
            if not self._outage:
                self._publish(msgspec.structs.replace(self.picture, installation=found))


def _kept(old: T | None, new: T) -> T:
    """Return the old row if the new one is equal, so that equal rows are one object in memory."""
    return old if old is not None and old == new else new


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
