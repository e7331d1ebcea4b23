"""How long to wait before trying again: doubling, with full jitter, so that many who failed together do not return together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

Sleep = Callable[[float], Awaitable[None]]


class Backoff:
    """Spans in seconds: each drawn between nothing and a ceiling that doubles with every failure in a row."""

    def __init__(self, shortest: float, longest: float, random: Random) -> None:
        self._shortest = shortest
        self._longest = longest
        self._random = random
        self.failures = 0

    def failed(self) -> float:
        ceiling = min(self._longest, self._shortest * 2.0 ** min(self.failures, 32))
        self.failures += 1
        return self._random.uniform(0.0, ceiling)

    def worked(self) -> None:
        self.failures = 0
