"""How long to wait before trying again. Spans double, with jitter, so that clients do not return together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random

Sleep = Callable[[float], Awaitable[None]]


class Backoff:
    """The waiting times between tries of something that fails.

    Each, in seconds, is drawn from a share of a span that doubles with every failure in a row.

    The share is full jitter, between nothing and all of it, unless told otherwise.
    """

    def __init__(
        self, shortest: float, longest: float, random: Random, share: tuple[float, float] = (0.0, 1.0)
    ) -> None:
        self._shortest = shortest
        self._longest = longest
        self._random = random
        self._share = share
        self.failures = 0

    def failed(self) -> float:
        ceiling = min(self._longest, self._shortest * 2.0 ** min(self.failures, 32))
        self.failures += 1
        least, most = self._share
        return self._random.uniform(least * ceiling, most * ceiling)

    def worked(self) -> None:
        self.failures = 0
