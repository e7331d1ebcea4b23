"""A kernel that follows a cluster without acting: watches stay open, and decisions settle again after each change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

from haulout.base.clock import SystemClock
from haulout.base.collector import exempt_from_collector, without_collector
from haulout.cluster.kinds import Kinds
from haulout.cluster.store import Listing
from haulout.core.decision import Source
from haulout.explain.setup import Setup
from haulout.explain.snapshot import LIST_WITHIN, is_quorum_kept, know, know_leases
from haulout.kernel.assemble import assemble, merge_sources
from haulout.kernel.kernel import Kernel
from haulout.kernel.proofs import settle
from haulout.kube.transport import Transport
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump

# The least seconds between two pictures, and the least ratio of that time to the time that one takes to make.
PACE, SHARE = 1.0, 10.0


class LivePicture:
    """A kernel that has settled on the cluster as it is now. Its requests are never sent."""

    def __init__(
        self, kernel: Kernel, kinds: tuple[str, ...], changed: asyncio.Event, look: Callable[[], Awaitable[None]]
    ) -> None:
        """Take a kernel whose tables are watched. `changed`: set by the watches. `look`: reads again what is not watched."""
        self.kernel = kernel
        self.kinds = kinds
        self._changed = changed
        self._look = look
        self._clock = SystemClock()
        self._took = 0.0

    def settle(self) -> None:
        """Run all decisions on the current rows until they settle. Earlier conclusions are forgotten, as after a start."""
        began = self._clock.monotonic()
        self._changed.clear()
        with without_collector():
            self.kernel.lead()
            settle(self.kernel, self._clock.now())
        self._took = self._clock.monotonic() - began

    async def wait(self, seconds: float) -> None:
        """Wait for a change of the cluster, at least as long as the pace asks and at most `seconds` more."""
        await asyncio.sleep(max(PACE, self._took * SHARE))
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        await self._look()


@asynccontextmanager
async def live_picture(setup: Setup, transport: Transport) -> AsyncIterator[LivePicture]:
    """Open the watches of all surfaces. Yield a settled kernel once every kind is listed or known to be unreadable."""
    assembly = assemble(setup.enabled, together=setup.together, quorum=await is_quorum_kept(setup, transport))
    store, changed = assembly.kernel.store, asyncio.Event()
    wanted = merge_sources((Source("", "Node"), *assembly.sources()))
    pump = Pump(store, SystemClock(), Metrics(), changed.set, Kinds(assembly.kinds))
    async with asyncio.TaskGroup() as group:
        with without_collector():
            for source in sorted(wanted, key=lambda source: source.kind):
                pump.open(group, transport, "", source.kind, source.keep)
            async with asyncio.timeout(LIST_WITHIN):
                while any(store.table("", source.kind).listing is Listing.WAITING for source in wanted):
                    changed.clear()
                    await changed.wait()
        await know(setup, store, transport)
        await know_leases(setup, store, transport)
        look = partial(know_leases, setup, store, transport, is_first=False)
        live = LivePicture(assembly.kernel, tuple(source.kind for source in wanted), changed, look)
        live.settle()
        exempt_from_collector()
        try:
            yield live
        finally:
            pump.close_all()
