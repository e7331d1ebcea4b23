"""Decides which interruptions of a watch are reported: long ones, repeated ones, and those for lack of rights."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

from haulout.base.clock import Clock

# A shorter interruption is not reported. Load balancers, restarts and upgrades cause such ones every day.
LONG_FOR = 10.0
# Trouble that returns sooner than this belongs to the same outage.
CALM_FOR = 10.0
# The reflector's codes for missing credentials or rights. A person has to repair these.
DENIALS = frozenset({"unauthorized", "unreadable"})
# The code for an expired version. It is no outage: the server can be reached, and a new list is enough.
ORDINARY = frozenset({"expired"})


class Outage(msgspec.Struct, frozen=True):
    """A past time during which a watch did not work.

    `code` and `why`: the last cause, or the last denial if there was one.
    """

    cluster: str
    kind: str
    code: str
    why: str
    began_at: datetime
    lasted_for: timedelta


class Interruptions:
    """The interruptions of one watch, and whether they have been reported."""

    def __init__(self, cluster: str, kind: str, clock: Clock) -> None:
        self._cluster = cluster
        self._kind = kind
        self._clock = clock
        self._cause = ("", "")
        # When the current outage began, of which an interruption may be only a part. And whether a denial (True) and
        # another cause (False) have been reported for it.
        self._restless_from = 0.0
        self._reported_outages: set[bool] = set()
        self._since: float | None = None
        self._calm_from = float("-inf")

    def trouble(self, code: str, why: str) -> None:
        now = self._clock.monotonic()
        if self._since is None:
            if code in ORDINARY:
                return
            self._since = now
            if now - self._calm_from >= CALM_FOR:
                self._restless_from, self._reported_outages = now, set()
            self._cause = (code, why)
        elif code in DENIALS or self._cause[0] not in DENIALS:
            self._cause = (code, why)

    def fine(self) -> Outage | None:
        """Note that the watch works again. Return the outage if it has to be reported, else None."""
        if self._since is None:
            return None
        now, since = self._clock.monotonic(), self._since
        self._since, self._calm_from = None, now
        denied = self._cause[0] in DENIALS
        if now - since < LONG_FOR:
            since = self._restless_from
            if denied in self._reported_outages or (now - since < LONG_FOR and not denied):
                return None
        self._reported_outages.add(denied)
        lasted = timedelta(seconds=now - since)
        return Outage(self._cluster, self._kind, *self._cause, self._clock.now() - lasted, lasted)
