"""Leader election of this process, and the Leases of original operators that some surfaces hold while they act."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from haulout.base.clock import Clock
from haulout.kube.lease import Election
from haulout.runtime.driver import LONGEST_REQUEST


class Leadership:
    """The leader elections of one process.

    `own`: the election of the process; None if it always leads.
    `surfaces`: for each surface that acts only while it holds the Lease of its original operator, that election.
    `begin`: called when leadership was gained, before `gained`. It returns False if the process cannot begin.
    `surface_held`: called when the Lease of a surface is gained or lost.
    `lost`: called with the reason when leadership is lost. The process ends then, because another one may lead by now,
    and what this one knows may be out of date.
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
        """Take part in the elections until cancelled. Then give the Leases back."""
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
        """Return for how many seconds a write may be under way; None if nothing may be sent.

        No write may outlast a Lease that is held. If one of them is lost, nothing is sent, because a write may have
        been decided before the loss. A surface that does not hold its Lease yet decides no writes, so its election does
        not count.
        """
        elections = [self._held[surface] for surface in sorted(self._held)]
        if self.own is not None:
            elections.append(self.own)
        longest, now = LONGEST_REQUEST, self._clock.monotonic()
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
