"""The queue of tokens that have never been proven: reviewed at an even rate, in turn among addresses, and not without end."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque


class QueueFull(Exception):
    """Raised for a caller whose token cannot be reviewed soon. `seconds`: when to try again."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds


class StrangerQueue:
    """Lets callers pass at an even rate: the next one of each address in turn, so that no address fills the queue alone.

    `burst`: how many pass at once after a pause. `most`: how many may wait. A caller beyond that is refused; if more wait from
    another address than from the caller's own, the last one of that address is refused instead.
    """

    def __init__(self, per_second: float, *, burst: int, most: int) -> None:
        self._interval = 1.0 / per_second
        self._burst_for = (burst - 1) * self._interval
        self._most = most
        self._next_at = float("-inf")
        self._waiting: dict[str, deque[asyncio.Future[float]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    async def turn(self, address: str) -> None:
        """Wait for the turn of a caller from an address. Raises `QueueFull`."""
        loop = asyncio.get_running_loop()
        self._next_at = max(self._next_at, loop.time() - self._burst_for)
        if not self._waiting and self._next_at <= loop.time():
            self._next_at += self._interval
            return
        if len(self) >= self._most:
            self._refuse(address)
        # Its result: 0 for a turn, otherwise the seconds of a refusal.
        turn: asyncio.Future[float] = loop.create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        self._wake_up()
        try:
            refused_for = await turn
        finally:
            self._drop(address, turn)
        if refused_for:
            raise QueueFull(refused_for)

    def _refuse(self, address: str) -> None:
        """Make room for one more caller from an address. Raises `QueueFull` if none can be made."""
        crowded = max(self._waiting, key=lambda each: len(self._waiting[each]))
        seconds = len(self) * self._interval
        if len(self._waiting[crowded]) <= len(self._waiting.get(address, ())) + 1:
            raise QueueFull(seconds)
        last = self._waiting[crowded][-1]
        self._drop(crowded, last)
        if not last.done():
            last.set_result(seconds)

    def _drop(self, address: str, turn: asyncio.Future[float]) -> None:
        queue = self._waiting.get(address, deque())
        with contextlib.suppress(ValueError):
            queue.remove(turn)
        if not queue:
            self._waiting.pop(address, None)

    def _wake_up(self) -> None:
        if self._timer is None and self._waiting:
            self._timer = asyncio.get_running_loop().call_at(self._next_at, self._let_pass)

    def _let_pass(self) -> None:
        self._timer = None
        if self._waiting:
            address = next(iter(self._waiting))
            queue = self._waiting.pop(address)
            turn = queue.popleft()
            if queue:
                # The address goes to the end, behind the others.
                self._waiting[address] = queue
            self._next_at = max(self._next_at + self._interval, asyncio.get_running_loop().time() - self._burst_for)
            if not turn.done():
                turn.set_result(0.0)
        self._wake_up()
