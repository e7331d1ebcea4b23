"""Puts the profiles surface into a process: its configuration file becomes a row, its plugins are found."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from haulout.cluster.key import Key
from haulout.cluster.rows import Value
from haulout.cluster.store import Store
from haulout.cluster.view import CONFIG
from haulout.plugins.config import ConfigProblem
from haulout.runtime.files import WatchedFile
from haulout.runtime.metrics import Metrics
from haulout.surfaces.profiles.decide import SURFACE
from haulout.surfaces.profiles.load import load, problems
from haulout.surfaces.profiles.surface import known_plugins, sources

log = logging.getLogger("haulout.profiles")
CONFIG_KEY = Key("", CONFIG, "", SURFACE)


class ProfilesConfig:
    """While the file is invalid nothing is done, as the original has it; the gauge and the log say so."""

    def __init__(self, path: str, store: Store, metrics: Metrics, on_change: Callable[[], None]) -> None:
        self._source = path.removeprefix("./")
        self._store = store
        self._metrics = metrics
        self._on_change = on_change
        self._plugins = known_plugins()
        self.sources = sources(None)
        self._file = WatchedFile(Path(path), self._changed)
        self.look = self._file.look

    def _changed(self, content: bytes | OSError) -> None:
        self._store.write(self._row(content))
        self._on_change()

    def _row(self, content: bytes | OSError) -> Value:
        if isinstance(content, OSError):
            return self._invalid("syntax", content.strerror or str(content))
        lines = problems(content, self._plugins, source=self._source, environment=os.environ)
        try:
            config = load(content, self._plugins, source=self._source, environment=os.environ)
        except ConfigProblem as problem:
            wrong = [str(line) for line in lines if line.is_error]
            return self._invalid("syntax" if problem.is_syntax else "semantic", problem.text, problems=wrong)
        self.sources = sources(config)
        self._metrics.gauge("maintenance_controller_config_valid", 1)
        for line in lines:
            log.warning("configuration is odd", extra={"problem": str(line)})
        log.info("configuration loaded", extra={"file": self._source, "profiles": len(config.profiles)})
        return Value(key=CONFIG_KEY, value=config)

    def _invalid(self, kind: str, text: str, **more: list[str]) -> Value:
        """The first error in the original's words; `problems` are all of them, with their places."""
        self._metrics.gauge("maintenance_controller_config_valid", 0)
        extra = {"file": self._source, "error": text, **more}
        log.error(f"Failed to parse configuration file ({kind} error)", extra=extra)  # noqa: G004
        return Value(key=CONFIG_KEY, error=f"{self._source}: {text}")
