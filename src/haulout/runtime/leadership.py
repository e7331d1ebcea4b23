"""Whether this process may act: its own leader election, and the Leases of the originals that some surfaces hold too."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from haulout.base.clock import Clock
from haulout.kube.lease import Election
from haulout.runtime.driver import LONGEST_REQUEST


class Leadership:
    """The leader elections of one process.

    `own`: the election of the process; None: it always leads.
    `surfaces`: the election for the original's Lease, for each surface that acts only while it is held.
    `begin`: runs when leadership was gained, before `gained`; False: the process cannot begin.
    `surface_held`: told when the Lease of a surface is gained or lost.
    `lost`: told why leadership is lost. The process ends then: another may act by now, and what this one knows may be old.
    """

    def __init__(
        self,
        own: Election | None,
        surfaces: Mapping[str, Election],
        clock: Clock,
        *,
        begin: Callable[[], Awaitable[bool]],
        gained: Callable[[], None],
        surface_held: Callable[[str, bool], None],
        lost: Callable[[str], None],
    ) -> None:
        self.own = own
        self._surfaces = surfaces
        self._clock = clock
        self._begin = begin
        self._gained = gained
        self._surface_held = surface_held
        self._lost = lost
        # The elections of surfaces that have held the Lease of their original at least once.
        self._held: dict[str, Election] = {}

    async def run(self) -> None:
        """Take part in the elections until cancelled; then the Leases are given back."""
        async with asyncio.TaskGroup() as group:

            def gained() -> None:
                group.create_task(self._start())
                for surface, election in self._surfaces.items():
                    group.create_task(self._lead_surface(surface, election))

            if self.own is None:
                gained()
            else:
                await self.own.run(gained, lambda: self._lost("leadership lost"))

    def may_write_for(self) -> float | None:
        """Return for how many seconds a write may be under way; None: nothing may be sent.

        A surface whose Lease is not held yet wants nothing written. One that holds it writes no longer than the Lease
        lasts. Once it is lost nothing is written at all: a write may have been decided before.
        """
        elections = [self._held[surface] for surface in sorted(self._held)]
        if self.own is not None:
            elections.append(self.own)
        longest, now = LONGEST_REQUEST, self._clock.elapsed()
        for election in elections:
            until, ends = election.may_write_until(), election.lease_ends_at()
            if until is None or ends is None or now >= until:
                return None
            longest = min(longest, ends - now)
        return longest

    async def _start(self) -> None:
        if await self._begin() and (self.own is None or self.own.leading):
            self._gained()

    async def _lead_surface(self, surface: str, election: Election) -> None:
        def held() -> None:
            self._held[surface] = election
            self._surface_held(surface, True)

        def lost() -> None:
            self._surface_held(surface, False)
            self._lost(f"leadership lost: {surface} no longer holds the Lease of its original")

        await election.run(held, lost)
