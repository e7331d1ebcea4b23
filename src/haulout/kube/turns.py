"""Turns that other clusters take at costly work, so that all of them together use a bounded part of the time.

See decisions 0047, 0104.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from haulout.base.clock import Clock

# The seconds of work that one turn allows, and the pause between two turns. So all busy clusters together use at most a
# twentieth of the time.
GRANT, GRANT_EVERY = 0.001, 0.020
# The processor time that it takes to receive and decrypt a byte.
PER_BYTE = 4e-9
# The processor time that a TLS record takes, however short it is. A server may send one for each byte.
PER_RECORD = 5e-6
# The work that each cluster may cause without waiting for a turn: SHARE seconds of work in a second, and at most
# MOST_SAVED seconds saved up.
SHARE, MOST_SAVED = 0.001, 0.010
# The time that decisions may take because of one cluster before it is charged to the cluster: DECIDING_SHARE seconds in
# a second, and at most MOST_DECIDING seconds saved up. A cluster with ordinary work takes less.
DECIDING_SHARE, MOST_DECIDING = 0.002, 0.200
# In so many seconds half of the turns that a cluster has taken are forgotten.
TURNS_HALVED_IN = 30.0
# Timers of an idle event loop fire up to so many seconds late. Such a delay does not mean that the loop is busy.
TIMERS = 0.002


class Turns:
    """A queue for one kind of costly work: one turn at a time, with a pause after each.

    The waiting task with the lowest rank is next; among equal ranks, the one that has waited longest.

    A pause lasts `pause` seconds, and at least `rest` times as long as the turn before it. So work within turns takes
    at most one part in `rest` + 1 of the time, however many tasks wait and however costly their input is. Some work
    only begins after an empty turn. Turns limit how often it begins, but not how long it takes.

    A turn that begins later than its pause has ended shows that the event loop, or the computer, is overloaded. Then
    the next pause lasts at least `rest` times as long as that delay.
    """

    def __init__(self, pause: float, rest: float = 9.0) -> None:
        self._pause = pause
        self._rest = rest
        self._free_at = float("-inf")
        self._is_taken = False
        self._waiting: list[tuple[float, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def turn(self, rank: float = 0.0) -> AsyncIterator[None]:
        """Wait for a turn, and hold it within the context. The code in the context must not await anything."""
        loop = asyncio.get_running_loop()
        late = 0.0
        if self._is_taken or self._waiting or loop.time() < self._free_at:
            await self._next_turn(rank)
            late = max(loop.time() - self._free_at - TIMERS, 0.0)
        self._is_taken = True
        began_at = loop.time()
        try:
            yield
        finally:
            ended_at = loop.time()
            self._free_at = ended_at + max(self._pause, self._rest * (ended_at - began_at), self._rest * late)
            self._give_back()

    def charge(self, seconds: float) -> None:
        """Lengthen the pause for work that was done outside of a turn, as if it had been done within one."""
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + self._rest * seconds

    async def _next_turn(self, rank: float) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._numbers), future))
        self._await_pause()
        try:
            await future
        except asyncio.CancelledError:
            # The task may be cancelled at the very moment at which it gets its turn. Then the turn has to pass on.
            if future.done() and not future.cancelled():
                self._give_back()
            raise

    def _give_back(self) -> None:
        self._is_taken = False
        self._await_pause()

    def _await_pause(self) -> None:
        """Set a timer that chooses the next task at the end of the pause. Until then one of a lower rank may come."""
        if self._waiting and not self._is_taken and self._timer is None:
            self._timer = asyncio.get_running_loop().call_at(self._free_at, self._choose)

    def _choose(self) -> None:
        self._timer = None
        if asyncio.get_running_loop().time() < self._free_at:
            self._await_pause()
            return
        while self._waiting and not self._is_taken:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                self._is_taken = True
                future.set_result(None)


class Allowance:
    """The processor time that may be spent on one other cluster. It grows slowly, and by `GRANT` with each turn.

    So a quiet cluster does not wait, however many busy ones wait for a turn. If several wait, the one that has taken
    the fewest turns lately is next. So a cluster that is busy for once does not wait behind those that are always busy.
    Work may take longer than there was time left. Then the cluster has to wait for more turns before its next work.
    """

    def __init__(
        self, turns: Turns, clock: Clock, spent: Callable[[], float] = time.thread_time, *, allotted: float = 0.0
    ) -> None:
        """Begin with no turn taken.

        `spent`: returns the processor time of this thread, which does not include that of other programs.
        `allotted`: the time to begin with. Usually 0, so that many clusters that are opened at once take turns.
        """
        self._turns = turns
        self._clock = clock
        self._spent = spent
        self._time_left = allotted
        self._deciding_left = MOST_DECIDING
        self._turns_taken = 0.0
        self._grown_at = self._decided_at = clock.monotonic()

    async def wait(self) -> None:
        """Wait until there is time left. If there is none, take as many turns as needed."""
        now = self._clock.monotonic()
        self._time_left = max(self._time_left, min(self._time_left + SHARE * (now - self._grown_at), MOST_SAVED))
        self._turns_taken *= 0.5 ** ((now - self._grown_at) / TURNS_HALVED_IN)
        self._grown_at = now
        while self._time_left <= 0:
            async with self._turns.turn(self._turns_taken):
                self._time_left += GRANT
            self._turns_taken += 1

    async def pause(self) -> None:
        """Wait for a turn, and give it back at once. It only slows the caller down."""
        async with self._turns.turn():
            pass

    def charge(self, seconds: float) -> None:
        """Subtract the time that decisions took because of this cluster's objects, as far as it is more than usual."""
        now = self._clock.monotonic()
        self._deciding_left = min(self._deciding_left + DECIDING_SHARE * (now - self._decided_at), MOST_DECIDING)
        self._decided_at = now
        self._deciding_left -= seconds
        if self._deciding_left < 0:
            self._time_left += self._deciding_left
            self._deciding_left = 0.0

    def begin(self) -> float:
        """Return the processor time at the beginning of work, to pass to `end`. Call `wait` before."""
        return self._spent()

    def end(self, began: float, length: int = 0) -> None:
        """Subtract the time spent since `begin`, and the time that receiving so many bytes takes."""
        self._time_left -= self._spent() - began + PER_BYTE * length

    def spend(self, seconds: float) -> None:
        """Subtract an estimate of work that was not measured."""
        self._time_left -= seconds


class Shared:
    """The turns that the transports to all other clusters share.

    `reading`: turns at a slice of a long answer, at most 64 KiB in 20 ms.
    `connecting`: turns before a connection is opened, so that the TLS handshakes of many clusters do not fall into one
    turn of the event loop. 200 connections are begun within a second.
    `receiving`: turns at receiving from servers that send many small records, at most 200 records in 20 ms.
    """

    def __init__(self) -> None:
        self.reading = Turns(0.020, rest=19.0)
        self.connecting = Turns(0.005)
        self.receiving = Turns(GRANT_EVERY)
