"""Runs a drain by hand: a kernel of its own with the shared drain engine, for as long as the command lasts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

import click
import msgspec
from rich.live import Live

from haulout.base.clock import Clock, SystemClock
from haulout.byhand.drain_picture import ENDS, Lines, document, draw_drain, preview, statement
from haulout.byhand.drain_state import CODES, DrainOutcome, DrainState, Tracker
from haulout.byhand.records import DrainEnd, HandRecords
from haulout.cluster.indexes import PODS_OF_NODE
from haulout.cluster.key import node_key
from haulout.cluster.project import Keep, Projector
from haulout.cluster.rows import NodeRow, PodRow
from haulout.cluster.store import Listing
from haulout.core.budgets.budget import read_budget
from haulout.core.budgets.wire import NODE_BUDGETS, NodeBudgetRow
from haulout.core.declaration import Enabled
from haulout.core.drain.options import DrainOptions
from haulout.core.logbook.wire import DrainCounts, Outcome
from haulout.core.pause import name_for_people, pause_of
from haulout.explain.home import endpoint_of
from haulout.kernel.assemble import assemble
from haulout.kernel.proofs import settle
from haulout.kernel.requests import Body, Refused
from haulout.kernel.rooms import Subject
from haulout.kernel.wakes import Reports
from haulout.kube.errors import KubeError, NotFound
from haulout.kube.http import HttpTransport
from haulout.kube.listing import read_list
from haulout.kube.recorder import Recorder
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.model.meta import COMMAND_MANAGER
from haulout.model.node import Node
from haulout.runtime.driver import LONGEST_REQUEST, Driver
from haulout.runtime.interruption import run_command
from haulout.runtime.live_console import LiveConsole
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump
from haulout.runtime.sender import Sender
from haulout.runtime.wake import Wake
from haulout.surfaces.byhand.decide import SURFACE, Wish
from haulout.surfaces.byhand.surface import BYHAND

LIST_WITHIN = 60.0
# The budgets are read for a warning alone, which must not hold the drain up.
PAUSES_WITHIN = 5.0
LOOK_EVERY = 0.25
# The greatest share of time that is spent on showing the state. With thousands of pods it is shown less often.
LOOK_SHARE = 0.1
# A drain without --wait that makes no progress ends after this time. Budgets and replicas may still react until then.
SETTLED_AFTER = 2.0
# After an interrupt the command waits this long for answers to its requests.
ANSWERED_WITHIN = 0.5
# The kinds that the user must be allowed to list. Budgets and DaemonSets may be unreadable, as for kubectl.
NEEDED = ("Node", "Pod")
# Codes of refusals after which another try may succeed; 0 stands for no answer.
PASSING = frozenset({0, 408, 409, 429})


class Order(msgspec.Struct, frozen=True):
    """The arguments and options of `haulout drain`.

    `timeout_for` zero: no time limit. `wait`: whether to wait for budgets to open.
    `reason`: why, for the record and those who find the cordon.
    """

    nodes: tuple[str, ...]
    options: DrainOptions
    selector: str = ""
    timeout_for: timedelta = timedelta()
    wait: bool = True
    dry_run: bool = False
    json: bool = False
    reason: str = ""


class NotPossible(Exception):
    """A drain by hand cannot begin or go on. The message tells the user why."""


def drain_nodes(order: Order, cluster: Mapping[str, Any]) -> int:
    endpoint = endpoint_of(cluster)
    log = logging.getLogger("haulout")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        return run_command(_drain(order, HttpTransport(endpoint, SystemClock())))
    except (KubeError, NotPossible) as error:
        if order.json:
            click.echo(document(DrainState(0.0, ()), DrainOutcome.FAILED, dry_run=order.dry_run, error=str(error)))
        raise click.ClickException(str(error)) from None
    finally:
        log.setLevel(level)


async def _drain(order: Order, transport: HttpTransport) -> int:
    try:
        before = await _cordoned_before(order, transport)
        if not before:
            raise NotPossible("no node has these labels")
        clock = SystemClock()
        wish = Wish(tuple(before), order.options, since=clock.now(), reason=order.reason)
        draining = Draining(wish, order, before, transport, clock)
        return await (draining.preview() if order.dry_run else draining.run())
    finally:
        await transport.close()


async def _cordoned_before(order: Order, transport: Transport) -> dict[str, bool]:
    """Return for each node of the command whether it is cordoned already. Raises NotPossible with all missing nodes."""
    return {
        node.metadata.name: node.spec.unschedulable for node in await find_nodes(order.nodes, order.selector, transport)
    }


async def find_nodes(names: tuple[str, ...], selector: str, transport: Transport) -> list[Node]:
    if selector:
        return await read_list(transport, "/api/v1/nodes", Node, {"labelSelector": selector})
    found: list[Node] = []
    missing: list[str] = []
    for name in dict.fromkeys(names):
        try:
            reply = await transport.request("GET", f"/api/v1/nodes/{name}")
        except NotFound:
            missing.append(name)
        else:
            found.append(msgspec.json.decode(reply.body, type=Node))
    if missing:
        raise NotPossible(f"there is no node named {', '.join(missing)}; nothing was done")
    return found


class Draining(Reports):
    """One run of the command `drain`, with a kernel and watches of its own, and its output."""

    def __init__(
        self, wish: Wish, order: Order, before: Mapping[str, bool], transport: HttpTransport, clock: Clock
    ) -> None:
        self._wish = wish
        self._order = order
        self._transport = transport
        self._clock = clock
        self._metrics = Metrics()
        self._changed = asyncio.Event()
        self._signalled = asyncio.Event()
        self._refusals: dict[str, str] = {}
        # Warnings about nodes that could not be cordoned yet, in order, each once.
        self._warnings: dict[str, None] = {}
        # A drain by hand does not wait for the turn of other surfaces, and does not obey NodeDisruptionBudgets.
        assembly = assemble([Enabled(BYHAND, wish)], together=False, reports=self)
        self.kernel, self._sources = assembly.kernel, assembly.sources()
        self._wake = Wake(self.kernel.loop)
        self._pump = Pump(self.kernel.store, clock, self._metrics, self._stir)
        self._records: HandRecords | None = None
        self._tracker = Tracker(wish, self.kernel.store, before, self._refusals)
        self._drained_at: dict[str, datetime] = {}

    def on_refusal(self, subject: Subject, body: Body, answer: Refused) -> None:
        if subject.decider != SURFACE or answer.code in PASSING:
            return
        if answer.code < 500:
            self._refusals[subject.key.name] = answer.message
        else:
            warning = f"Warning: node {subject.key.name} cannot be cordoned yet, it is tried again: {answer.message}"
            self._warnings.setdefault(warning, None)

    # Dry run

    async def preview(self) -> int:
        """Print what the drain would do, and return the exit code. The kernel's requests are not sent."""
        async with asyncio.TaskGroup() as group:
            problem = await self._listed(group)
            self._pump.close_all()
        if problem:
            raise NotPossible(problem)
        for name in self._wish.nodes:
            row = self.kernel.store.row(node_key(name))
            if isinstance(row, NodeRow):
                self.kernel.store.write(msgspec.structs.replace(row, unschedulable=True))
        now = self._clock.now()
        settle(self.kernel, now)
        state = self._tracker.look(now)
        assert state is not None
        refused = any(node.error for node in state.nodes)
        outcome = DrainOutcome.BLOCKED if refused or any(cause.blocks for cause in state.causes) else DrainOutcome.DONE
        state = state.ended_as(outcome)
        click.echo(document(state, outcome, dry_run=True) if self._order.json else preview(state))
        return CODES[outcome]

    # Draining

    async def run(self) -> int:
        writer = Writer(self._transport, manager=COMMAND_MANAGER)
        recorder = Recorder(writer, self._clock)
        sender = Sender(self._pump.kinds, recorder, self._clock, self._metrics, host=socket.gethostname())
        sender.writers[""] = writer
        driver = Driver(self.kernel, sender, self._clock, self._metrics, self._wake, self._may_write_for)
        self._records = HandRecords(self._transport, writer, self._order.reason)
        with self._signals():
            async with asyncio.TaskGroup() as group:
                problem, state = await self._listed(group), None
                if not problem:
                    await self._warn_of_pauses()
                    work = group.create_task(driver.run())
                    state = await self._watched()
                    work.cancel()
                    await self._records.end(dict(self._ends(state)))
                self._pump.close_all()
        if state is None:
            raise NotPossible(problem)
        return self._end(state)

    def _may_write_for(self) -> float | None:
        return None if self._signalled.is_set() else LONGEST_REQUEST

    async def _listed(self, group: asyncio.TaskGroup) -> str:
        """Wait until every kind is listed or known to be unreadable. Return why the drain cannot begin; empty if it can."""
        for source in self._sources:
            self._pump.open(group, self._transport, "", source.kind, source.keep)
        kinds = [source.kind for source in self._sources]
        try:
            async with asyncio.timeout(LIST_WITHIN):
                while any(self.kernel.store.table("", kind).listing is Listing.WAITING for kind in kinds):
                    if self._signalled.is_set():
                        return "interrupted; nothing was done"
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            return f"the cluster was not listed within {LIST_WITHIN:g} s; nothing was done"
        for kind in NEEDED:
            table = self.kernel.store.table("", kind)
            if table.listing is Listing.UNREADABLE:
                return f"{kind.lower()}s cannot be listed: {table.why}; nothing was done"
        return ""

    async def _warn_of_pauses(self) -> None:
        """Warn of what pauses the nodes. A pause stops the operator, and not what people do themselves."""
        rows = [row for name in self._wish.nodes if isinstance(row := self.kernel.store.row(node_key(name)), NodeRow)]
        found = [pause for row in rows if (pause := pause_of(row)) is not None]
        with contextlib.suppress(KubeError, TimeoutError):
            async with asyncio.timeout(PAUSES_WITHIN):
                projector = Projector(NODE_BUDGETS, "", Keep())
                listed = await read_list(self._transport, NODE_BUDGETS.path, NODE_BUDGETS.model)
                budgets = [read_budget(row) for each in listed if isinstance(row := projector.row(each), NodeBudgetRow)]
                pauses = [each.paused for each in budgets if each.paused is not None]
                found += [each.pause for each in pauses if any(map(each.concerns, rows))]
        for pause in found:
            text = f"Warning: {name_for_people(pause.subject)} is {pause.text}. A drain by hand goes on during a pause"
            self._warnings.setdefault(text, None)

    async def _watched(self) -> DrainState:
        """Show the drain until it is done, blocked, failed, timed out or interrupted. Return its last state."""
        timeout_for = self._order.timeout_for
        deadline_at = self._wish.since + timeout_for if timeout_for else None
        still_since: float | None = None
        state, warned = DrainState(0.0, ()), 0
        with _Teller(self._order) as teller, _troubles(teller.note):
            while True:
                now, began = self._clock.now(), self._clock.monotonic()
                # While a table is unreadable, the last known state is shown.
                state = self._tracker.look(now) or state
                await self._record(now, state)
                teller.tell(state)
                warned = self._warn(teller, warned)
                if state.ended:
                    return state
                elapsed = self._clock.monotonic()
                still_since = (still_since or elapsed) if state.stuck else None
                if not self._order.wait and still_since is not None and elapsed - still_since >= SETTLED_AFTER:
                    return state.ended_as(DrainOutcome.BLOCKED)
                if deadline_at is not None and now >= deadline_at:
                    return state.ended_as(DrainOutcome.TIMED_OUT)
                if self._signalled.is_set():
                    await asyncio.sleep(ANSWERED_WITHIN)
                    state = self._tracker.look(self._clock.now()) or state
                    teller.tell(state)
                    return state if state.ended else state.ended_as(DrainOutcome.INTERRUPTED)
                took = self._clock.monotonic() - began
                await self._pause(max(LOOK_EVERY, took / LOOK_SHARE), deadline_at)

    async def _record(self, now: datetime, state: DrainState) -> None:
        """Make the records of the nodes that are cordoned by now, and note which ones are drained."""
        done = (node.name for node in state.nodes if node.outcome is DrainOutcome.DONE)
        self._drained_at = {**dict.fromkeys(done, now), **self._drained_at}
        rows = (self.kernel.store.row(node_key(name)) for name in self._wish.nodes)
        cordoned = [row for row in rows if isinstance(row, NodeRow) and row.unschedulable]
        if self._records is not None:
            await self._records.begin(cordoned, now)
            if self._records.why:
                self._warnings.setdefault(f"Warning: the drain is not recorded: {self._records.why}", None)

    def _ends(self, state: DrainState) -> Iterator[tuple[str, DrainEnd]]:
        """Yield how the drain of each node ended, by the UID of the node."""
        for node in state.nodes:
            row = self.kernel.store.row(node_key(node.name))
            if not isinstance(row, NodeRow):
                continue
            gone = len(node.departed_pods)
            evicted, deleted = (0, gone) if self._order.options.disable_eviction else (gone, 0)
            pods = self.kernel.store.bucket(PODS_OF_NODE, "", node.name)
            left = sum(isinstance(pod, PodRow) and not pod.ended for pod in pods)
            is_done = node.outcome is DrainOutcome.DONE
            outcome = Outcome.CANCELLED if node.outcome is DrainOutcome.INTERRUPTED else Outcome.FAILED
            yield (
                row.uid,
                DrainEnd(
                    drained_at=self._drained_at.get(node.name) if is_done else None,
                    drain=DrainCounts(evicted, deleted, left),
                    outcome=None if is_done else outcome,
                    error="" if is_done else " ".join(filter(None, (ENDS[node.outcome], node.error))),
                ),
            )

    def _warn(self, teller: _Teller, already: int) -> int:
        """Print the warnings after the first `already` ones, and return how many there are in all."""
        for warning in list(self._warnings)[already:]:
            teller.note(warning)
        return len(self._warnings)

    async def _pause(self, seconds: float, deadline_at: datetime | None) -> None:
        """Wait for some seconds, but not beyond the deadline or an interrupt."""
        remaining = (deadline_at - self._clock.now()).total_seconds() if deadline_at else seconds
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(min(remaining, seconds), 0.01)):
                await self._signalled.wait()

    def _end(self, state: DrainState) -> int:
        outcome = state.outcome
        if self._order.json:
            click.echo(document(state, outcome))
        if outcome is not DrainOutcome.DONE:
            click.echo(statement(state, outcome), err=True)
        return CODES[outcome]

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._signal)
        try:
            yield
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.remove_signal_handler(number)

    def _signal(self) -> None:
        if self._signalled.is_set():
            os._exit(1)
        self._signalled.set()
        self._changed.set()

    def _stir(self) -> None:
        self._changed.set()
        self._wake.stir()


class _Teller:
    """Prints the progress of a drain: on a terminal as a live picture, else line by line; with -o json to stderr."""

    def __init__(self, order: Order) -> None:
        self._console = LiveConsole(stderr=order.json)
        self._err = order.json
        self._lines = Lines(verb="deleting" if order.options.disable_eviction else "evicting")
        self._live = Live(console=self._console, auto_refresh=False) if self._console.is_terminal else None

    def __enter__(self) -> _Teller:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *args: object) -> None:
        if self._live is not None:
            self._live.stop()

    def note(self, text: str) -> None:
        if self._live is not None:
            self._console.print(text, markup=False, soft_wrap=True)
        else:
            click.echo(text, err=True)

    def tell(self, state: DrainState) -> None:
        if self._live is not None:
            self._live.update(draw_drain(state, self._console.width, self._console.height), refresh=True)
            return
        for line in self._lines.of(state):
            click.echo(line, err=self._err)


class _Troubles(logging.Handler):
    """A log handler that reports interrupted watches to the user.

    Only the watch of pods counts, because all watches are usually interrupted together.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        fields = vars(record)
        if fields.get("kind") != "Pod":
            return
        if record.msg == "watch interrupted" and fields.get("code") != "expired":
            self._note(f"Warning: the watch of the cluster is interrupted: {fields.get('error')}")
        elif record.msg == "watch restored":
            self._note("the watch of the cluster goes on")


@contextlib.contextmanager
def _troubles(note: Callable[[str], None]) -> Iterator[None]:
    """Report an interrupted connection to the user while the drain runs, so that it does not seem to hang."""
    log = logging.getLogger("haulout.runtime.tables")
    handler = _Troubles(note)
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    log.propagate = False
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(logging.NOTSET)
        log.propagate = True
