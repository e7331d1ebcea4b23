"""How often a foreign object may be read: a few times at once, then slowly."""

from __future__ import annotations

import msgspec


class Pace(msgspec.Struct, frozen=True):
    """At most one reading every `least` seconds, and after `burst` of them one every `refill` seconds.

    All that is kept of the past is two instants, by a clock of elapsed seconds: `last_at`, that of the last reading,
    and `settled_at`, from which on a whole burst is allowed again.
    """

    least: float
    burst: int
    refill: float
    last_at: float = float("-inf")
    settled_at: float = float("-inf")

    @property
    def next_at(self) -> float:
        """Return the instant from which on it may be read."""
        return max(self.last_at + self.least, self.settled_at - (self.burst - 1) * self.refill)

    def read(self, now: float) -> Pace:
        """Return the pace after a reading."""
        return msgspec.structs.replace(self, last_at=now, settled_at=max(now, self.settled_at) + self.refill)
