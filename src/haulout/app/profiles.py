"""The part of the process for the profiles surface: `maintenance.yaml` as a row, plugins, HTTP pages and metrics."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import Iterable, Mapping
from datetime import timedelta
from pathlib import Path

from haulout.app.configuration_file import ConfigurationRow
from haulout.app.info import info_route
from haulout.app.parts import Part, Surroundings
from haulout.cluster.rows import NodeRow, Row, Value
from haulout.cluster.view import MARK
from haulout.core.decision import Source
from haulout.kube.transport import Transport
from haulout.kube.writer import Writer
from haulout.plugins.config import ConfigProblem
from haulout.runtime.metrics import Sample
from haulout.runtime.probes import Probe, ProbeContext, named_probe
from haulout.runtime.sender import Channel
from haulout.serve.pages import static_route, to_static
from haulout.serve.web import Handler
from haulout.settings.context import pod_rules
from haulout.settings.settings import Settings
from haulout.surfaces.profiles.failures import Growth
from haulout.surfaces.profiles.load import Configuration, examined, known_plugins, problems
from haulout.surfaces.profiles.messages import CHANNEL as NOTIFICATIONS
from haulout.surfaces.profiles.metrics import samples
from haulout.surfaces.profiles.moved_pods import OWNERS, untouched
from haulout.surfaces.profiles.passes.result import Config, Mode
from haulout.surfaces.profiles.passes.statements import FAILURES
from haulout.surfaces.profiles.settings import ProfilesSettings
from haulout.surfaces.profiles.surface import CONFIG_KEY, PROFILES, mode_row, sources

log = logging.getLogger("haulout.profiles")


def _block(settings: Settings) -> ProfilesSettings:
    return settings.of(ProfilesSettings) or ProfilesSettings()


class Profiles(Part):
    """The profiles surface as a part of the process: it follows `maintenance.yaml`.

    While the file is invalid, the surface does nothing, as the original does. A gauge and the log report it.
    """

    declaration = PROFILES

    def __init__(self, around: Surroundings) -> None:
        super().__init__(around)
        self._store = around.store
        self._metrics = around.metrics
        self._plugins = known_plugins()
        self._sources = sources(None)
        self._growth = Growth()
        self._say_how(around.settings)
        self._settings = _block(around.settings)
        self._watch(self._settings.config)

    def _say_how(self, settings: Settings) -> None:
        mode = Mode(alone=settings.alone, rules=pod_rules(settings), counts=True)
        self._store.write(mode_row(mode))

    def _watch(self, path: str) -> None:
        self._path = path
        self._file = ConfigurationRow(
            self.around,
            CONFIG_KEY,
            path,
            load=self._load,
            value=self._value,
            lint=self._lint,
            describe=lambda config: {"profiles": len(config.profiles)},
            on_validity=lambda valid: self._metrics.gauge("maintenance_controller_config_valid", valid),
        )

    def watches(self) -> frozenset[Source]:
        return self._sources

    def look(self, *, closely: bool = False) -> None:
        self._file.look(closely=closely)

    def routes(self, transport: Transport) -> Mapping[str, Handler]:
        return {
            "/api/v1/info": info_route(self.around, transport),
            "/static/{path:.*}": static_route(Path("static")),
            "/{path:.*}": to_static,
        }

    def probes(self, transport: Transport) -> Mapping[str, Probe]:
        context = ProbeContext(self.around.clock, transport, self._settings.kubernikus.credentials)
        named = (check.probe for check in self._plugins.checks.values() if check.probe)
        return {path: named_probe(path, context) for path in named}

    def channels(self, transport: Transport) -> Mapping[str, Channel]:
        # Imported here, because it brings libraries along that other users of this module do not need.
        from haulout.app.notifications import Notifications

        return {NOTIFICATIONS: Notifications(Writer(transport), self.around.clock)}

    def follow(self, settings: Settings) -> None:
        self._say_how(settings)
        self._settings = _block(settings)
        if self._settings.config != self._path:
            self._watch(self._settings.config)

    def lingers_for(self) -> timedelta:
        return self._settings.metrics_timeout

    def samples(self) -> Iterable[Sample]:
        self._count_failures()
        nodes = [row for row in self._rows("Node") if isinstance(row, NodeRow)]
        pods, workloads = self._rows("Pod"), [row for kind in OWNERS for row in self._rows(kind)]
        return itertools.chain(samples(nodes, self.around.clock.now()), untouched(nodes, pods, workloads))

    def _count_failures(self) -> None:
        """Add the failures since the last scrape to their counter, which the original increases on each pass."""
        config = self._store.row(CONFIG_KEY)
        if isinstance(config, Value) and isinstance(config.value, Configuration):
            now = self.around.clock.now()
            for profile, count in self._growth.due(self._rows(MARK), config.value.requeue, now).items():
                self._metrics.count(FAILURES, count, profile=profile)

    def _rows(self, kind: str) -> list[Row]:
        """Return a copy of the rows of a kind. Metrics are rendered in a thread while the event loop changes the store."""
        return list(self._store.table("", kind).rows.values())

    def _load(self, content: bytes, source: str) -> Config:
        config, lines = examined(content, self._plugins, source=source, environment=os.environ)
        if isinstance(config, ConfigProblem):
            raise config
        for line in lines:
            log.warning("configuration has warnings", extra={"problem": str(line)})
        return config

    def _lint(self, content: bytes, source: str) -> list[str]:
        found = problems(content, self._plugins, source=source, environment=os.environ)
        return [str(line) for line in found if line.is_error]

    def _value(self, config: Config) -> Config:
        self._sources = sources(config)
        return config
