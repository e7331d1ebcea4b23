"""Puts the packages surface into a process: its settings become a row, its admission webhooks are served."""

from __future__ import annotations

from collections.abc import Iterable

from haulout.app.parts import Part, Surroundings
from haulout.cluster.rows import Value
from haulout.cluster.view import MARK
from haulout.core.admission import Webhook
from haulout.core.decision import Source
from haulout.runtime.metrics import Sample
from haulout.settings.context import context_of
from haulout.settings.settings import Settings
from haulout.surfaces.packages.admit import webhooks
from haulout.surfaces.packages.metrics import samples
from haulout.surfaces.packages.options import served
from haulout.surfaces.packages.settings import PackagesSettings
from haulout.surfaces.packages.standing import Standing
from haulout.surfaces.packages.surface import CONFIG_KEY, PACKAGES, sources
from haulout.surfaces.packages.wire import KIND, SkyhookRow
from haulout.surfaces.packages.wire_policy import POLICY, PolicyRow


class Packages(Part):
    """The packages surface as a part of the process."""

    declaration = PACKAGES

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self.follow(around.settings)

    def watches(self) -> frozenset[Source]:
        return sources(self.options)

    def follow(self, settings: Settings) -> None:
        self.options = served(settings.of(PackagesSettings) or PackagesSettings(), context_of(settings))
        self.around.store.write(Value(key=CONFIG_KEY, value=self.options))

    def samples(self) -> Iterable[Sample]:
        store = self.around.store
        policies = (row for row in store.rows("", POLICY) if isinstance(row, PolicyRow))
        return samples(
            [row for row in store.rows("", KIND) if isinstance(row, SkyhookRow)],
            (row for row in store.rows("", MARK) if isinstance(row, Standing)),
            {row.key.name: row for row in policies},
        )

    def webhooks(self) -> tuple[Webhook, ...]:
        return webhooks()
