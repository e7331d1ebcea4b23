"""The waiting times between tries. They double, with jitter, so that clients do not all try again at the same time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

Sleep = Callable[[float], Awaitable[None]]


class Backoff:
    """The waiting times, in seconds, between tries of something that fails.

    A span begins at `shortest`, doubles with every failure in a row, and is at most `longest`. Each waiting time is
    drawn at random from a `share` of that span: by default between none and all of it (full jitter).
    """

    def __init__(
        self, shortest: float, longest: float, random: Random, share: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        self._shortest = shortest
        self._longest = longest
        self._random = random
        self._share = share
        self.failures = 0

    def fail(self) -> float:
        """Count a failure. Return how many seconds to wait before the next try."""
        ceiling = min(self._longest, self._shortest * 2.0 ** min(self.failures, 32))
        self.failures += 1
        least, most = self._share
        return self._random.uniform(least * ceiling, most * ceiling)

    def reset(self) -> None:
        self.failures = 0
