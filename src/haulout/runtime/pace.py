"""Limits how often a foreign object is read: a few times in a row, then more and more slowly."""

from __future__ import annotations

import msgspec


class Pace(msgspec.Struct, frozen=True):
    """A rate limit: at most one reading every `least` seconds, and after `burst` of them one every `refill` seconds.

    Each reading that had to wait for a refill doubles the time until the next, up to `longest` seconds. Once a whole
    burst is allowed again, the time is as in the beginning.

    Instants are in elapsed seconds. `last_at`: the last reading. `settled_at`: when a whole burst is allowed again.
    `waits`: how many readings in a row had to wait for a refill.
    """

    least: float
    burst: int
    refill: float
    longest: float
    last_at: float = float("-inf")
    settled_at: float = float("-inf")
    waits: int = 0

    @property
    def next_at(self) -> float:
        """The instant from which on the object may be read again."""
        return max(self.last_at + self.least, self.settled_at - (self.burst - 1) * self.refill)

    def read(self, now: float) -> Pace:
        """Return the pace after a reading."""
        settles_at = max(now, self.settled_at) + self.refill
        if settles_at - now <= (self.burst - 1) * self.refill:
            waits = self.waits if self.settled_at > now else 0
            return msgspec.structs.replace(self, last_at=now, settled_at=settles_at, waits=waits)
        # The exponent is limited because the author of the object can cause any number of readings.
        more = min(self.refill * 2 ** min(self.waits, 16), self.longest) - self.refill
        return msgspec.structs.replace(self, last_at=now, settled_at=settles_at + more, waits=self.waits + 1)
