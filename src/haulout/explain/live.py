"""A kernel that follows a cluster without acting: watches stay open, and decisions settle again after each change."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from haulout.base.clock import SystemClock
from haulout.base.collector import exempt_from_collector, without_collector
from haulout.cluster.kinds import Kinds
from haulout.cluster.project import RESOURCES
from haulout.cluster.store import Listing, Store
from haulout.core.action import Send
from haulout.explain.pauses import know_pause_authors
from haulout.explain.setup import Setup
from haulout.explain.snapshot import LIST_WITHIN, NODES, is_quorum_kept, know, know_guard, know_leases
from haulout.kernel.assemble import assemble, merge_sources
from haulout.kernel.kernel import Kernel
from haulout.kernel.proofs import settle
from haulout.kernel.requests import Look, Request, Withdrawn
from haulout.kube.reflector import Tuning
from haulout.kube.transport import Transport
from haulout.runtime.metrics import Metrics
from haulout.runtime.pump import Pump

# The least seconds between two pictures, and the least ratio of that time to the time that one takes to make.
PACE, SHARE = 1.0, 10.0
# A person waits for the picture after an outage, so the watches are tried again sooner than those of an operator.
WATCHED = Tuning(backoff_to=2.0)
# A fleet that settles within this time is settled anew for each picture.
CHEAP = 0.05


class LivePicture:
    """A kernel that has settled on the cluster as it is now. Its requests are never sent."""

    def __init__(
        self,
        kernel: Kernel,
        kinds: tuple[str, ...],
        changed: asyncio.Event,
        look: Callable[[], Awaitable[None]],
        troubled: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """Take a kernel whose tables are watched.

        `changed`: set by the watches. `look`: reads again what is not watched. `troubled`: returns the kinds that could
        be read, and whose watches have failed and not resumed yet.
        """
        self.troubled = troubled
        self.kernel = kernel
        self.kinds = kinds
        self._changed = changed
        self._look = look
        self._clock = SystemClock()
        self._took = self._settling_took = 0.0
        # The requests that the kernel takes for being under way.
        self._unsent: list[Request] = []

    def listed(self) -> frozenset[str]:
        """Return the kinds that could be read, and are watched since."""
        return frozenset(kind for kind in self.kinds if self.kernel.store.listing("", kind) is Listing.LISTED)

    def settle(self) -> None:
        """Run all decisions on the current rows until they settle. Earlier conclusions are forgotten, as after a start."""
        began = self._clock.monotonic()
        self._changed.clear()
        with without_collector():
            self._withdraw()
            self.kernel.lead()
            self._unsent = settle(self.kernel, self._clock.now())
        self._took = self._settling_took = self._clock.monotonic() - began

    def refresh(self) -> None:
        """Run the decisions that read what has changed, and those whose writes would be under way, until they settle.

        The answer is that of `settle`, at the cost of the changes instead of the cost of the fleet. Only words may differ:
        a node that is cordoned next is `about to go` or `cordoned`, by the order of the decisions. So a small fleet is
        settled all the same.
        """
        if self._settling_took < CHEAP:
            self.settle()
            return
        began = self._clock.monotonic()
        self._changed.clear()
        with without_collector():
            self._withdraw()
            self._unsent = settle(self.kernel, self._clock.now())
        self._took = self._clock.monotonic() - began

    def _withdraw(self) -> None:
        """Take back the writes that were never sent. The decisions that wanted them run again on the next occasion."""
        now = self._clock.now()
        for request in self._unsent:
            # What becomes of a message or a look is an outcome of its own, which would be another picture.
            if not isinstance(request.body, Send | Look):
                self.kernel.on_answer(request.id, Withdrawn(), now)
        self._unsent = []

    async def pace(self) -> None:
        """Wait as long as the pace asks between two pictures."""
        await asyncio.sleep(max(PACE, self._took * SHARE))

    async def wait(self, seconds: float) -> None:
        """Wait for a change of the cluster, at least as long as the pace asks and at most `seconds` more."""
        await self.pace()
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass
        await self._look()


@asynccontextmanager
async def live_picture(
    setup: Setup, transport: Transport, on_change: Callable[[Store], None] = lambda store: None
) -> AsyncIterator[LivePicture]:
    """Open the watches of all surfaces. Yield a settled kernel once every kind is listed or known to be unreadable.

    `on_change`: called with the store after each change of a table, also before everything is listed.
    """
    assembly = assemble(setup.enabled, together=setup.together, quorum=await is_quorum_kept(setup, transport))
    store, changed = assembly.kernel.store, asyncio.Event()

    def note_change() -> None:
        changed.set()
        on_change(store)

    wanted = merge_sources((NODES, *assembly.sources()))
    pump = Pump(store, SystemClock(), Metrics(), note_change, Kinds(assembly.kinds), home=WATCHED)
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
        await know_guard(store, transport)

        declarations = [each.declaration for each in assembly.enabled]
        resources = (*RESOURCES.values(), *assembly.kinds)

        async def look() -> None:
            await know_leases(setup, store, transport, is_first=False)
            await know_guard(store, transport)
            await know_pause_authors(store, declarations, resources, transport)

        def troubled() -> frozenset[str]:
            # A kind that may not be read stays unreadable for good, and its table says so.
            return frozenset(kind for kind in pump.troubled() if store.listing("", kind) is Listing.LISTED)

        live = LivePicture(assembly.kernel, tuple(source.kind for source in wanted), changed, look, troubled)
        live.settle()
        # Pauses of budgets are known once the decisions about budgets have run.
        await know_pause_authors(store, declarations, resources, transport)
        exempt_from_collector()
        try:
            yield live
        finally:
            pump.close_all()
