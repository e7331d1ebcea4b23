"""The part of the process for the profiles surface: its plugins, HTTP pages and metrics."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from haulout.app.info import info_route
from haulout.app.parts import Part, Surroundings
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.view import MARK
from haulout.core.decision import Source
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.runtime.metrics import Sample
from haulout.runtime.probes import Probe, ProbeContext, named_probe
from haulout.runtime.sender import Channel
from haulout.serve.http import Handler
from haulout.serve.pages import static_route, to_static
from haulout.settings.settings import Settings
from haulout.surfaces.profiles.failures import Growth
from haulout.surfaces.profiles.load import Configuration, known_plugins
from haulout.surfaces.profiles.messages import CHANNEL as NOTIFICATIONS
from haulout.surfaces.profiles.metrics import samples
from haulout.surfaces.profiles.moved_pods import OWNERS, zero_samples
from haulout.surfaces.profiles.options import Options
from haulout.surfaces.profiles.passes.statements import FAILURES
from haulout.surfaces.profiles.settings import ProfilesSettings
from haulout.surfaces.profiles.surface import CONFIG_KEY, PROFILES, sources

log = logging.getLogger("haulout.profiles")


def _block(settings: Settings) -> ProfilesSettings:
    return settings.of(ProfilesSettings) or ProfilesSettings()


class Profiles(Part):
    """The profiles surface as a part of the process.

    While `maintenance.yaml` is invalid, the surface does nothing, as the original does. A gauge and the log report it.
    """

    declaration = PROFILES

    def __init__(self, around: Surroundings) -> None:
        self._plugins = known_plugins()
        self._growth = Growth()
        super().__init__(around)

    def loaded(self, options: Options) -> Mapping[str, object]:
        for line in options.warnings:
            log.warning("configuration has warnings", extra={"problem": line})
        return {"profiles": len(options.config.profiles)}

    def examined(self, *, is_valid: bool) -> None:
        self.around.metrics.gauge("maintenance_controller_config_valid", is_valid)

    def watches(self) -> frozenset[Source]:
        return sources(self.options.config if self.options else None)

    def routes(self, transport: Transport) -> Mapping[str, Handler]:
        return {
            "/api/v1/info": info_route(self.around, transport),
            "/static/{path:.*}": static_route(Path("static")),
            "/{path:.*}": to_static,
        }

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        context = ProbeContext(self.around.clock, transport, _block(self.settings).kubernikus.credentials)
        named = (check.probe for check in self._plugins.checks.values() if check.probe)
        return {path: named_probe(path, context) for path in named}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        # Imported here, because it brings libraries along that other users of this module do not need.
        from haulout.app.notifications import Notifications

        return {NOTIFICATIONS: Notifications(Writer(transport), self.around.clock)}

    def lingers_for(self) -> timedelta:
        return _block(self.settings).metrics_timeout

    def samples(self) -> Iterable[Sample]:
        self._count_failures()
        nodes = [row for row in self._rows("Node") if isinstance(row, NodeRow)]
        pods, workloads = self._rows("Pod"), [row for kind in OWNERS for row in self._rows(kind)]
        return itertools.chain(samples(nodes, self.around.clock.now()), zero_samples(nodes, pods, workloads))

    def _count_failures(self) -> None:
        """Add the failures since the last scrape to their counter, which the original increases on each pass."""
        config = self.around.store.row(CONFIG_KEY)
        if isinstance(config, Value) and isinstance(config.value, Configuration):
            now = self.around.clock.now()
            for profile, count in self._growth.due(self._rows(MARK), config.value.requeue, now).items():
                self.around.metrics.count(FAILURES, count, profile=profile)

    def _rows(self, kind: str) -> list[Row]:
        """Return a copy of the rows of a kind. Metrics are rendered in a thread while the event loop changes the store."""
        return list(self.around.store.table("", kind).rows.values())
