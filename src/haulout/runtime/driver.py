"""Runs the kernel on the event loop: in slices with I/O between them, and with sleep while nothing is due.

See decision 0025.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from haulout.base.clock import Clock
from haulout.core.action import Measure, Say, Send
from haulout.kernel.kernel import Kernel
from haulout.kernel.requests import Answer, ListPods, Look, Lost, Request, Telling
from haulout.runtime.metrics import Metrics
from haulout.runtime.sender import Sender
from haulout.runtime.wake import Wake

log = logging.getLogger(__name__)

SLICE = 0.010
LONGEST_REQUEST = 30.0
LONGEST_SLEEP = 60.0
# If the wall clock and the elapsed time differ by so many seconds between two checks, the clock was set.
SET_BACK_BY = 5.0
# The turns of the event loop until arrived data are in the store: one reads the sockets, one passes the bytes to the
# reflectors, and in one the reflectors process them.
TURNS_TO_TAKE_IN = 3
# The most requests to a cluster that have a task. Its writer sends half as many at a time. When a start labels 5,000
# nodes, a task for each of them would take 30 MiB.
MOST_AT_ONCE = 64


class Driver:
    """A driver that runs a kernel in real time: it passes in the time, sends the requests and returns the answers.

    `wake`: the event that ends its sleep.
    `may_write_for`: returns for how many seconds a write may be under way; None if this replica may not write.
    `charge`: called with another cluster and the processor time that decisions took because of its rows.
    `before_asking`, `after_asking`: functions that run before and after decisions. Configurations are replaced before,
    so that no decision uses an old one.
    """

    def __init__(
        self,
        kernel: Kernel,
        sender: Sender,
        clock: Clock,
        metrics: Metrics,
        wake: Wake,
        may_write_for: Callable[[], float | None] = lambda: LONGEST_REQUEST,
        charge: Callable[[str, float], None] = lambda cluster, seconds: None,
    ) -> None:
        self._kernel = kernel
        self._sender = sender
        self._clock = clock
        self._metrics = metrics
        self._wake = wake
        self._may_write_for = may_write_for
        self._anchor = self._read_clocks()
        self.before_asking: list[Callable[[], None]] = []
        self.after_asking: list[Callable[[], None]] = []
        self._charge = charge
        # The other cluster to which the running decision is charged, and the processor time at its beginning.
        self._decides_for, self._began = "", 0.0
        # By cluster: the requests that wait, and how many tasks perform them one after the other.
        self._queued: dict[str, deque[Request]] = {}
        self._workers: Counter[str] = Counter()
        kernel.loop.on_ask = self._decide_for
        kernel.actor.may_write = lambda: may_write_for() is not None

    async def run(self) -> None:
        async with asyncio.TaskGroup() as requests:
            while True:
                self._wake.clear()
                for hook in self.before_asking:
                    hook()
                rested = self._slice()
                for hook in self.after_asking:
                    hook()
                out = self._kernel.take_requests()
                if out:
                    # After a stall, everything that has arrived is processed before anything is sent: it may show
                    # that a write would be wrong.
                    for _ in range(TURNS_TO_TAKE_IN):
                        await asyncio.sleep(0)
                    self._dispatch(out, requests)
                elif rested:
                    await self._sleep()
                else:
                    await asyncio.sleep(0)

    def _read_clocks(self) -> tuple[datetime, float]:
        return self._clock.now(), self._clock.monotonic()

    def _heed_set_back_clock(self) -> tuple[datetime, float]:
        """Restart the kernel if the wall clock was set back. Return the time of both clocks.

        Back-offs, pauses and looks are kept as instants. If the clock was set back by an hour, each would last an hour
        too long. They are only in memory, so restarting the kernel drops them. Instants that are stored in objects
        follow the wall clock in any case.
        """
        now, elapsed = self._read_clocks()
        lagging = (elapsed - self._anchor[1]) - (now - self._anchor[0]).total_seconds()
        self._anchor = (now, elapsed)
        if abs(lagging) >= SET_BACK_BY:
            log.warning("the clock was set", extra={"seconds": round(-lagging, 1)})
            if lagging > 0 and self._kernel.leading:
                self._kernel.lead()
        return self._anchor

    def _slice(self) -> bool:
        now, started = self._heed_set_back_clock()
        before = self._kernel.loop.askings
        rested = self._kernel.run(now, lambda: self._clock.monotonic() - started >= SLICE)
        self._decide_for("")
        if self._kernel.loop.askings != before:
            self._metrics.add("haulout_askings_total", (), self._kernel.loop.askings - before)
        return rested

    def _decide_for(self, cluster: str) -> None:
        """Charge the last decision to its cluster, and begin to measure the next one, which is about `cluster`."""
        if cluster or self._decides_for:
            now = time.thread_time()
            if self._decides_for:
                self._charge(self._decides_for, now - self._began)
            self._decides_for, self._began = cluster, now

    def _dispatch(self, out: Sequence[Request], requests: asyncio.TaskGroup) -> None:
        for request in out:
            if isinstance(request.body, Telling | Measure | Say):
                self._state(request.body)
            elif isinstance(request.body, Send):
                requests.create_task(self._perform(request))
            else:
                self._queue(request, request.body.target.cluster, requests)

    def _queue(self, request: Request, cluster: str, requests: asyncio.TaskGroup) -> None:
        """Queue a request to a cluster. It is performed once fewer than `MOST_AT_ONCE` are under way there."""
        self._queued.setdefault(cluster, deque()).append(request)
        if self._workers[cluster] < MOST_AT_ONCE:
            self._workers[cluster] += 1
            requests.create_task(self._work_off(cluster))

    async def _work_off(self, cluster: str) -> None:
        while queued := self._queued.get(cluster):
            await self._perform(queued.popleft())
        self._queued.pop(cluster, None)
        self._workers[cluster] -= 1
        if not self._workers[cluster]:
            del self._workers[cluster]

    def _state(self, statement: Telling | Measure | Say) -> None:
        try:
            self._sender.state(statement)
        except Exception:
            # A statement of a plugin that fails is dropped. It must not stop the work on all nodes.
            log.exception("statement failed", extra={"statement": type(statement).__name__})

    async def _perform(self, request: Request) -> None:
        answer: Answer
        try:
            answer = await self._sender.perform(request, lambda: self._guard(request))
        except Exception as error:
            # A bug in one request must not end the work on all other objects. A look will show the request's effect.
            log.exception("request failed", extra={"request": type(request.body).__name__})
            answer = Lost(f"{type(error).__name__}: {error}")
        self._kernel.on_answer(request.id, answer, self._clock.now())
        self._wake.poke()

    def _guard(self, request: Request) -> float | None:
        """Return how many seconds a request may take; None if it must not be sent. Called just before sending."""
        if not self._kernel.actor.is_current(request.id):
            return None
        return LONGEST_REQUEST if isinstance(request.body, Look | ListPods) else self._may_write_for()

    async def _sleep(self) -> None:
        instant = self._kernel.next_instant()
        wait = (instant - self._clock.now()) / timedelta(seconds=1) if instant else LONGEST_SLEEP
        timer = asyncio.get_running_loop().call_later(min(max(wait, 0.001), LONGEST_SLEEP), self._wake.poke)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()
