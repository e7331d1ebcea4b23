"""Drives the kernel on the event loop: lets I/O in between, sends what was decided, sleeps until something can happen."""

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
# The wall clock may depart from elapsed time by so much between two looks. If it departs by more, the clock was set.
SET_BACK_BY = 5.0
# One turn of the event loop reads the sockets, one hands the bytes to the reflectors, one lets the reflectors take them
# in.
TURNS_TO_TAKE_IN = 3
# So many requests of a cluster are under way or wait for their turn in its writer, which sends half as many at a time. A
# task for each of 5,000 nodes that a start wants to label would take 30 MiB.
MOST_AT_ONCE = 64


class Driver:
    """Runs a kernel in real time: it feeds the clock, sends the requests and hands the answers back.

    `wake` ends its sleep.
    `may_write_for`: for how many seconds a write may still be under way. None: this replica does not lead, nothing is sent.
    `charge`: told the processor time that decisions took because of rows of another cluster.
    `before_asking` run before decisions are asked, so that none of them uses a replaced configuration.
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
        # The other cluster that the running decision is charged to, and the processor time at which it began.
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
                    # After a stall, everything that has arrived is taken in before anything is sent: it may make a
                    # write wrong.
                    for _ in range(TURNS_TO_TAKE_IN):
                        await asyncio.sleep(0)
                    self._dispatch(out, requests)
                elif rested:
                    await self._sleep()
                else:
                    await asyncio.sleep(0)

    def _read_clocks(self) -> tuple[datetime, float]:
        return self._clock.now(), self._clock.elapsed()

    def _heed_set_back_clock(self) -> tuple[datetime, float]:
        """Start the kernel anew if the wall clock was set back. Return both clocks.

        Back-offs, pauses and looks are kept as instants. After the clock was set back by an hour each would last an hour
        longer than its span. All of them are only in memory, and what is stored counts by the wall clock in any case:
        so the cure is that of a restart, which forgets them.
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
        rested = self._kernel.run(now, lambda: self._clock.elapsed() - started >= SLICE)
        self._decide_for("")
        if self._kernel.loop.askings != before:
            self._metrics.add("haulout_askings_total", (), self._kernel.loop.askings - before)
        return rested

    def _decide_for(self, cluster: str) -> None:
        """Charge the decision that has ended, and begin to measure the next."""
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
        """Let a request of a cluster be performed once fewer than `MOST_AT_ONCE` are under way there."""
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
            # A plugin's statement that cannot be made is dropped. It does not stop the work on all nodes.
            log.exception("statement failed", extra={"statement": type(statement).__name__})

    async def _perform(self, request: Request) -> None:
        answer: Answer
        try:
            answer = await self._sender.perform(request, lambda: self._guard(request))
        except Exception as error:
            # A bug in one request must not end the work on all other objects. A look shows what became of the request.
            log.exception("request failed", extra={"request": type(request.body).__name__})
            answer = Lost(f"{type(error).__name__}: {error}")
        self._kernel.answered(request.id, answer, self._clock.now())
        self._wake.poke()

    def _guard(self, request: Request) -> float | None:
        """Return how long a request may take, just before it is sent, or None if it must not be sent any more."""
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
