"""Turns at costly work for other clusters, which all of them share: together they take a bounded part of the time."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from haulout.base.clock import Clock

# The work that one turn pays for, and the pause between two turns: all busy clusters together take at most a twentieth
# of the time.
GRANT, GRANT_EVERY = 0.001, 0.020
# The processor time that it takes to receive and decrypt a byte.
PER_BYTE = 4e-9
# The processor time to find out that a TLS record has arrived, whatever is in it. A server may send one for each byte.
PER_RECORD = 5e-6
# The work that each cluster may cause without a turn: so many seconds of work in a second, and at most so many saved
# up.
SHARE, MOST_SAVED = 0.001, 0.010
# The time that decisions may take because of one cluster before it counts: so many seconds in a second, and at most so
# many saved up. A cluster in which ordinary work is done takes less.
DECIDING_SHARE, MOST_DECIDING = 0.002, 0.200
# In so many seconds half of the turns that a cluster has taken are forgotten.
TURNS_HALVED_IN = 30.0
# Timers of an idle event loop fire up to so much late.
TIMERS = 0.002


class Turns:
    """The turns at one kind of work: one at a time, with a pause after each. The lowest rank is next, then the first to ask.

    A pause lasts `pause` seconds, and at least `rest` times as long as the turn before it. So work that is done within
    turns takes at most one part in `rest` + 1 of the time, however many ask for it and however costly their input is.
    Of work that only begins after an empty turn, the pace is bounded, and not the time.

    A turn that begins later than its pause has ended shows that the event loop, or the computer, has too much to do.
    Then the next pause lasts at least `rest` times as long as that delay.
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
        """Wait for a turn. What runs within it must not wait for anything."""
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
        """Lengthen the pause for work that was done outside of a turn, as if it had been done within."""
        now = asyncio.get_running_loop().time()
        self._free_at = max(self._free_at, now) + self._rest * seconds

    async def _next_turn(self, rank: float) -> None:
        future = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._numbers), future))
        self._await_pause()
        try:
            await future
        except asyncio.CancelledError:
            # The turn may have come at the very moment at which it is not wanted any more.
            if future.done() and not future.cancelled():
                self._give_back()
            raise

    def _give_back(self) -> None:
        self._is_taken = False
        self._await_pause()

    def _await_pause(self) -> None:
        """Choose the next one when the pause is over, and not before: until then one of a lower rank may ask."""
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
    """The time that may be spent on one other cluster. It grows slowly by itself, and by `GRANT` with each turn.

    So a quiet cluster does not wait, however many busy ones wait for a turn. Where several wait, the one that has taken
    the fewest turns lately is next: a cluster in which much happens for once does not wait behind those that are always
    busy. Work that takes longer than there was time left is owed: it is made up for by as many turns before the next
    work begins.
    """

    def __init__(
        self, turns: Turns, clock: Clock, spent: Callable[[], float] = time.thread_time, *, allotted: float = 0.0
    ) -> None:
        """Begin with no turn taken. `spent`: the processor time of this thread, without what other programs take.

        `allotted`: the time to begin with. Usually nothing, so that many clusters that are opened at once take turns.
        """
        self._turns = turns
        self._clock = clock
        self._spent = spent
        self._left = allotted
        self._deciding_left = MOST_DECIDING
        self._turns_taken = 0.0
        self._grown_at = self._decided_at = clock.elapsed()

    async def wait(self) -> None:
        """Wait until there is time left, with turns if need be."""
        now = self._clock.elapsed()
        self._left = max(self._left, min(self._left + SHARE * (now - self._grown_at), MOST_SAVED))
        self._turns_taken *= 0.5 ** ((now - self._grown_at) / TURNS_HALVED_IN)
        self._grown_at = now
        while self._left <= 0:
            async with self._turns.turn(self._turns_taken):
                self._left += GRANT
            self._turns_taken += 1

    async def pause(self) -> None:
        """Wait for a turn at which nothing is done."""
        async with self._turns.turn():
            pass

    def charge(self, seconds: float) -> None:
        """Take off what decisions took because of what this cluster has sent, if it is more than usual."""
        now = self._clock.elapsed()
        self._deciding_left = min(self._deciding_left + DECIDING_SHARE * (now - self._decided_at), MOST_DECIDING)
        self._decided_at = now
        self._deciding_left -= seconds
        if self._deciding_left < 0:
            self._left += self._deciding_left
            self._deciding_left = 0.0

    def begin(self) -> float:
        """Note the beginning of work, after `wait`. Pass the result to `end`."""
        return self._spent()

    def end(self, began: float, length: int = 0) -> None:
        """Subtract the time spent since `begin`, and the time that receiving so many bytes takes."""
        self._left -= self._spent() - began + PER_BYTE * length

    def spend(self, seconds: float) -> None:
        """Take off work that was not measured."""
        self._left -= seconds


class Shared:
    """What the transports to all other clusters share.

    `reading`: turns at a slice of a long answer, at most 64 KiB in 20 ms.
    `connecting`: turns before a connection is opened, so that the TLS handshakes of many clusters do not fall into one
    turn of the event loop. 200 connections are begun within a second.
    `receiving`: turns at receiving from servers that send many small records, at most 200 records in 20 ms.
    """

    def __init__(self) -> None:
        self.reading = Turns(0.020, rest=19.0)
        self.connecting = Turns(0.005)
        self.receiving = Turns(GRANT_EVERY)
