"""The decisions of a process: the kernel that runs them, and the metrics and log lines about them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from haulout.app.controllers import Queues, depths, observe_decider
from haulout.app.reporting import Reporting
from haulout.base.clock import Clock
from haulout.cluster.kinds import Kinds
from haulout.core.budgets.decisions import BUDGETS
from haulout.core.decision import Decider
from haulout.core.declaration import Declaration, Enabled
from haulout.core.logbook.decisions import logbook_of
from haulout.kernel.assemble import assemble, surfaces_of
from haulout.runtime.metrics import Metrics, Sample
from haulout.settings.settings import Settings
from haulout.surfaces.registry import enabled_surfaces, load


class Decisions:
    """The kernel of a process, with the surfaces that its settings switch on.

    `declared`: the surfaces, and the budgets where surfaces take turns.
    `surfaces`: for each decider, its surface. `kinds`: all kinds that decisions read.
    """

    def __init__(self, settings: Settings, metrics: Metrics, clock: Clock) -> None:
        surfaces: list[Declaration] = [load(each.decisions) for each in enabled_surfaces(settings.blocks)]
        records = settings.turns and not settings.alone
        self.logbook = logbook_of(surfaces) if records else None
        more = [each for each in (BUDGETS if settings.turns else None, self.logbook) if each is not None]
        self.declared: Sequence[Declaration] = [*surfaces, *more]
        self.surfaces = surfaces_of(self.declared)
        self._controllers = {
            decider.name: each.controllers.get(decider.name, decider.name)
            for each in self.declared
            for decider in each.deciders
        }
        self._metrics, self._clock = metrics, clock
        self._queues = Queues(self._controllers, metrics, clock)
        self.reporting = Reporting(metrics, self._controllers, self.surfaces)
        assembly = assemble(
            [Enabled(each, leased=each.surface in settings.surface_leases) for each in surfaces],
            together=settings.turns,
            keeps_ledger=not settings.alone,
            records=records,
            reports=self.reporting,
            on_failure=self.reporting.decision_failed,
            observe=self._observed,
        )
        self.kinds = Kinds(assembly.kinds)
        self.kernel = assembly.kernel
        self.kernel.leading = False
        self.kernel.loop.on_due = self._queues.enter

    def _observed(self, decider: Decider) -> Decider:
        return observe_decider(decider, self._controllers[decider.name], self._metrics, self._clock, self._queues)

    def samples(self) -> Iterable[Sample]:
        """Return how many subjects of each controller are due, as of now."""
        return list(depths(self.kernel.loop, self._controllers))
